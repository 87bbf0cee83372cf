"""`SamplerState`: epoch and position of a loader, on its device and on the host."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from robocache.core.checks import check_integer
from robocache.loader.sampling.identity import SampleIdentity
from robocache.loader.sampling.sampler import Order


class SamplerState:
    """Epoch and position of the sampler; serialized by ``state_dict()``.

    The device keeps them in a tensor that each launch advances, also a launch of a captured CUDA
    graph. The host keeps a copy, so that it need not read the tensor unless a graph was captured.

    Args:
        order: The order of samples.
        device: Where samples are drawn.
        identity: Identifies the samples; None: no state of them is saved.

    Attributes:
        order: The order of samples.
        at: Epoch and position of the next batch, in the host's copy, in samples of all ranks.
        state_address: The address of the state on the device, for the plan.
        is_captured: Whether a graph may have advanced the device's state past the host's.
        is_behind: Whether the host's copy is the valid one: a call was interrupted.
    """

    def __init__(
        self, order: Order, device: torch.device, identity: SampleIdentity | None = None
    ) -> None:
        self.order = order
        self.at = (0, 0)
        self.is_captured = self.is_behind = False
        self._identity = identity
        self._index = device.index if device.type == "cuda" else None
        with torch.inference_mode(False):  # launches write to it as long as the loader exists
            self._state = torch.zeros(4, dtype=torch.int64, device=device)
        self.state_address = self._state.data_ptr()

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self.at[0]

    @property
    def position(self) -> int:
        """The position of the next batch in its epoch."""
        return self.at[1]

    def begin(self) -> None:
        """Prepares the device's state for the launch of the next batch.

        The launch advances that state; an interrupt between it and :meth:`advance` leaves the
        host's copy where it was, which the next launch restores.
        """
        if self.is_captured:
            self.catch_up()
        elif self.is_behind:
            self.move(*self.at)
        self.is_behind = True

    def advance(self) -> None:
        """Advances the host's copy by a batch that exists."""
        self.at = self.order.after(*self.at)  # one assignment: an interrupt sees all of it or none
        self.is_behind = False

    def check_capture(self) -> None:
        """Checks that replays of a graph captured here continue here, with batches of one size.

        Raises:
            RuntimeError: A batch would have another size, or the device's state is not valid.
        """
        if self.is_behind:  # and nothing may be copied to the device during a capture
            raise RuntimeError(
                "Loader: expected a call of next or load_state_dict between an interrupted call "
                "of next and the capture of a CUDA graph, got none"
            )
        order = self.order
        is_even = order.samples % order.stride == 0 and self.position % order.stride == 0
        if not (order.drop_last or is_even):
            raise RuntimeError(
                "drop_last: expected True of a loader in a CUDA graph, all of whose batches have "
                "one size, got False"
            )

    def catch_up(self) -> None:
        """Reads the device's state, which replays of a graph advance; waits for the GPU."""
        if self._index is not None:
            torch.cuda.synchronize(self._index)  # batches may be on any stream
        epoch, position, *_ = self._state.tolist()
        self.at = (epoch, position)

    def move(self, epoch: int, position: int) -> None:
        """Sets epoch and position, on the device and on the host."""
        self.is_behind, self.at = True, (epoch, position)
        self._state.copy_(torch.tensor([epoch, position, 0, 0], device="cpu"))
        self.is_behind = False

    # ---- state dicts -----------------------------------------------------------------------------

    def state(self) -> dict[str, int]:
        """The result of :meth:`Loader.state_dict`."""
        if self.is_captured:
            self.catch_up()
        assert self._identity is not None
        return state_of(self.order, *self.at, self._identity)

    def load(self, state: Mapping[str, int]) -> None:
        """Resumes from a state dict, as :meth:`Loader.load_state_dict` describes.

        Raises:
            TypeError, ValueError: It is of other samples, another seed or order, or no state.
        """
        assert self._identity is not None
        self.move(*position_of(state, self.order, self._identity))

    def set_epoch(self, epoch: object) -> None:
        """Goes to the start of an epoch, or stays at the position within it.

        Raises:
            TypeError, ValueError: `epoch` is not an int, or below 0.
        """
        number = check_integer("epoch", epoch, 0, 2**62)
        if self.is_captured:
            self.catch_up()
        if number != self.epoch:
            self.move(number, 0)


_VERSION = 2
_FIRST = 1  # the version of states without the last two integers
_OF_FIRST = (
    "another store, other options that choose its samples, or episodes appended since: states of "
    "version 1 are of all shards of a store"
)


def state_of(order: Order, epoch: int, position: int, identity: SampleIdentity) -> dict[str, int]:
    """The state dict of a position.

    It does not depend on ranks and batch size, which may change before it is loaded. Only a store
    that is split over ranks has other samples on another number of ranks.
    """
    return {
        "version": _VERSION,
        "seed": order.seed,
        "shuffle": int(order.shuffle),
        "shares": order.shares,
        "samples": order.samples,
        "fingerprint": identity.fingerprint,
        "epoch": epoch,
        "position": position,
        **identity.summaries(),
    }


def position_of(state: object, order: Order, identity: SampleIdentity) -> tuple[int, int]:
    """Epoch and position of a state of any version.

    Raises:
        TypeError, ValueError: `state` is not a state dict, or is of another order.
    """
    if not isinstance(state, dict):
        raise TypeError(f"state: expected a dict, got {type(state).__name__}")
    own = state_of(order, 0, 0, identity)
    is_first = type(state.get("version")) is int and state["version"] == _FIRST
    if is_first:
        own |= {"version": _FIRST, "fingerprint": identity.first_fingerprint}
        for name in identity.summaries():
            del own[name]
    missing = [name for name in own if name not in state]
    if missing:
        raise ValueError(f"state: expected {', '.join(own)}, got none of {', '.join(missing)}")
    given = {name: check_integer(f"state[{name!r}]", state[name], 0) for name in own}
    for name in ("version", "seed", "shuffle", "shares", "samples", "fingerprint"):
        if given[name] == own[name]:
            continue
        reason = ""
        if name == "shares":
            reason = " (a store that is split over ranks, by replicate=False, goes on with as many)"
        elif name in ("samples", "fingerprint"):
            reason = f" ({_OF_FIRST if is_first else identity.difference(given)})"
        raise ValueError(f"state[{name!r}]: expected {own[name]}, got {given[name]}{reason}")
    epoch = check_integer("state['epoch']", given["epoch"], 0, 2**62)
    position = check_integer("state['position']", given["position"], 0, order.samples)
    return order.rolled(epoch, position)
