"""Where a loader is in the order of its samples: on its device, which draws, and on the host."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from robocache.loader.sampling.sampler import Order, check_integer


class SamplerState:
    """The epoch and the position of a loader, which state dicts carry.

    The device has them in a tensor that each launch moves on, also of a captured CUDA graph; the
    host counts along, so that it need not ask. Where a graph was captured it must ask.

    Args:
        order: Which samples come when.
        fingerprint: Tells the samples from others.
        device: Where they are drawn.

    Attributes:
        order: The same.
        fingerprint: The same.
        epoch: Of the next batch, as far as the host knows.
        position: Of the next batch in its epoch, counted in samples of all ranks.
        state_address: Of the state on the device, as the plan takes it.
        is_captured: Whether a graph may have moved the device's state past the host's.
    """

    def __init__(self, order: Order, fingerprint: int, device: torch.device) -> None:
        self.order = order
        self.epoch = self.position = 0
        self.is_captured = False
        self.fingerprint = fingerprint
        self._index = device.index if device.type == "cuda" else None
        with torch.inference_mode(False):  # it is written to as long as the loader lives
            self._state = torch.zeros(4, dtype=torch.int64, device=device)
        self.state_address = self._state.data_ptr()

    def advance(self) -> None:
        """Notes on the host that the device has drawn a batch."""
        self.epoch, self.position = self.order.after(self.epoch, self.position)

    def check_capture(self) -> None:
        """That each replay of a graph that is captured here can be a batch.

        Raises:
            RuntimeError: There would be one of another size.
        """
        order = self.order
        is_even = order.samples % order.stride == 0 and self.position % order.stride == 0
        if not (order.drop_last or is_even):
            raise RuntimeError(
                "drop_last: expected True of a loader in a CUDA graph, all of whose batches have "
                "one size, got False"
            )

    def catch_up(self) -> None:
        """Reads the device's position, which replays of a graph move without the host; waits."""
        if self._index is not None:
            torch.cuda.synchronize(self._index)  # whatever stream batches were made on
        self.epoch, self.position, *_ = self._state.tolist()

    def move(self, epoch: int, position: int) -> None:
        """Goes elsewhere, on the device and on the host."""
        self._state.copy_(torch.tensor([epoch, position, 0, 0], device="cpu"))
        self.epoch, self.position = epoch, position

    # ---- what users see of it --------------------------------------------------------------------

    def state(self) -> dict[str, int]:
        """As :meth:`Loader.state_dict` gives it."""
        if self.is_captured:
            self.catch_up()
        return state_of(self.order, self.epoch, self.position, self.fingerprint)

    def load(self, state: Mapping[str, int]) -> None:
        """Goes where a state is, as :meth:`Loader.load_state_dict` says it.

        Raises:
            TypeError, ValueError: It is the state of other samples, another seed or order, or none.
        """
        self.move(*position_of(state, self.order, self.fingerprint))

    def set_epoch(self, epoch: object) -> None:
        """Goes to the start of an epoch, or stays in it.

        Raises:
            TypeError, ValueError: It is no int, or below 0.
        """
        number = check_integer("epoch", epoch, 0, 2**62)
        if self.is_captured:
            self.catch_up()
        if number != self.epoch:
            self.move(number, 0)


_VERSION = 1


def state_of(order: Order, epoch: int, position: int, fingerprint: int) -> dict[str, int]:
    """Where a loader is, as a few integers.

    Ranks and batch size are not among them: it goes on with others. Only a store that is split over
    ranks is split anew by another number of them, and has other samples.
    """
    return {
        "version": _VERSION,
        "seed": order.seed,
        "shuffle": int(order.shuffle),
        "shares": order.shares,
        "samples": order.samples,
        "fingerprint": fingerprint,
        "epoch": epoch,
        "position": position,
    }


def position_of(state: object, order: Order, fingerprint: int) -> tuple[int, int]:
    """Epoch and position of a state.

    Raises:
        TypeError, ValueError: It is no state, or that of another order.
    """
    if not isinstance(state, dict):
        raise TypeError(f"state: expected a dict, got {type(state).__name__}")
    own = state_of(order, 0, 0, fingerprint)
    missing = [name for name in own if name not in state]
    if missing:
        raise ValueError(f"state: expected {', '.join(own)}, got none of {', '.join(missing)}")
    reasons = {
        "version": "",
        "seed": "",
        "shuffle": "",
        "shares": " (a store that is split over ranks, by replicate=False, goes on with as many)",
        "samples": " (another store, or other options that choose its samples)",
        "fingerprint": " (another store, or other options that choose its samples)",
    }
    for name, reason in reasons.items():
        if state[name] != own[name]:
            raise ValueError(f"state[{name!r}]: expected {own[name]}, got {state[name]!r}{reason}")
    epoch = check_integer("state['epoch']", state["epoch"], 0, 2**62)
    position = check_integer("state['position']", state["position"], 0, order.samples)
    return order.rolled(epoch, position)
