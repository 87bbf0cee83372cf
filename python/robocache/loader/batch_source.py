"""`BatchSource`: iteration, random access, state and pickling of loaders and mixtures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import IterableDataset, get_worker_info

from robocache.core import call_counts, torch_private
from robocache.core.checks import check_integer
from robocache.core.display import counted, listed
from robocache.image.drawn import DrawnAugmentation
from robocache.loader import device as _device
from robocache.loader.contents import Contents
from robocache.loader.data_loader import refuse_data_loader
from robocache.loader.dataset import Dataset
from robocache.loader.engine import Engine
from robocache.loader.images.drawn import draw_parameters
from robocache.loader.indices import check_indices
from robocache.loader.outputs import Batch
from robocache.loader.recipe import Recipe
from robocache.loader.sampling.identity import SampleIdentity
from robocache.loader.sampling.sampler import Order, derived_seed
from robocache.loader.sampling.sampler_state import SamplerState
from robocache.loader.stats import Counters, LoaderStats, register
from robocache.loader.summary import LoaderSummary


class BatchSource(IterableDataset[Batch]):
    """Batches of an engine, in the order of a sampler: what :class:`Loader` and mixtures share.

    Args:
        engine: Makes the batches.
        order: The order of samples, and the sizes of batches.
        identity: Identifies the samples, in state dicts.
        device: Where batches are.
        transforms: Functions of a batch and a generator, applied to each batch of :meth:`next`.
        counters: Count batches and bytes; their name is the source's.
        summary: The result of :meth:`summary`.
        recipe: Builds the source again, from a pickle.
        finish: Converts batches to the keys and shapes of another library.
        contents: The parts of a loader of one store; None: a mixture.
    """

    def __init__(
        self,
        engine: Engine,
        order: Order,
        identity: SampleIdentity,
        device: torch.device,
        transforms: Sequence[Callable[[Batch, torch.Generator], Batch]],
        counters: Counters,
        summary: LoaderSummary,
        recipe: Recipe,
        finish: Callable[[Batch], Batch] | None = None,
        contents: Contents | None = None,
    ) -> None:
        self.device = device
        """Where batches are."""
        self.name = counters.name
        """Its name in :func:`robocache.metrics`."""
        self._recipe = recipe
        self._contents = contents
        self._summary = summary
        self._finish = finish
        self._order = order
        self._transforms = tuple(transforms)
        self._generator = torch.Generator(device) if self._transforms else None
        self._engine = engine
        self._plan, self._outputs, self._disk, self._ahead = engine
        self._index = device.index if device.type == "cuda" else None
        self._sampler_state = SamplerState(order, device, identity)
        if self._index is not None:
            # Batches may be made on any stream: the tables are complete before the first.
            torch.cuda.synchronize(self._index)
        self._counters = counters
        counters.sample_bytes = engine.outputs.sample_bytes
        register(self, counters)
        self._forks = _device.forks
        self._lock = threading.Lock()  # held by the one call that may change the sampler state

    @property
    def dataset(self) -> Dataset:
        """Its samples one by one, for inspection: ``loader.dataset[7]``."""
        # Made anew: a loader that refers to itself holds its memory until Python collects cycles.
        return Dataset(self, len(self._plan.anchors))

    # ---- batches ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        """The number of batches in an epoch."""
        return self._order.batches

    def __iter__(self) -> Iterator[Batch]:
        """Iterates over the remaining batches of the epoch.

        Raises:
            RuntimeError: In a worker of a torch DataLoader: each worker would yield all samples.
            ValueError: In a torch DataLoader with a batch size, which would collate whole batches.
        """
        refuse_data_loader()
        worker = get_worker_info()
        if worker is not None:
            raise RuntimeError(
                "Loader: expected no worker processes (it makes whole batches by itself: iterate "
                "over it, or give a DataLoader batch_size=None and num_workers=0), got worker "
                f"{worker.id} of {worker.num_workers}"
            )
        return self._rest_of_epoch()

    def _rest_of_epoch(self) -> Iterator[Batch]:
        sampler_state = self._sampler_state
        if sampler_state.is_captured:
            sampler_state.catch_up()
        epoch = sampler_state.epoch
        while sampler_state.epoch == epoch:
            yield self.next()

    def __getitem__(self, index: object) -> NoReturn:
        """Refuses: :attr:`dataset` has single samples, :meth:`gather` makes batches of them.

        Raises:
            TypeError: Always.
        """
        raise TypeError(
            "Loader: expected no index (loader.dataset[0] is sample 0, loader.gather([0, 7]) a "
            "batch of samples, loader.next() the next batch, loader.store[0] an episode), got "
            f"{index!r}"
        )

    def next(self) -> Batch:
        """Returns the next batch; after the last of an epoch, the first of the next epoch.

        It neither waits for the GPU nor makes the GPU wait. With rows on disk, the host waits for a
        batch that is not complete, and for the GPU once it is a few batches ahead: :meth:`stats`
        counts both waits.

        Raises:
            RuntimeError: Another call of `next` is running, in a thread or around a signal handler;
                the GPU refuses the launch; the process is the child of a fork, on CUDA; or a CUDA
                graph is captured, with transforms, batches of several sizes, or a budget that
                leaves rows outside the GPU.
            torch.OutOfMemoryError: The batch does not fit.
        """
        if self._forks != _device.forks:
            self._after_fork()
        index = self._index
        is_capturing = False
        if index is not None:
            if torch_private.cuda_device() != index:
                with torch.cuda.device(index):
                    return self.next()
            is_capturing = torch_private.is_capturing()
        if self._lock.locked():
            self._refuse_call("next")
        with self._lock:
            return self._draw(is_capturing)

    def _draw(self, is_capturing: bool) -> Batch:
        order, outputs = self._order, self._outputs
        sampler_state, index = self._sampler_state, self._index
        if is_capturing:
            self._engine.check_capture(self._transforms)
            sampler_state.check_capture()
        else:
            sampler_state.begin()
        epoch, position = sampler_state.at
        size = order.size(position)
        stream = 0
        if index is not None:
            stream = torch_private.cuda_stream(index)
            torch_private.range_push("robocache.Loader.next")
        try:
            if self._ahead is not None:
                batch = self._ahead.next(epoch, position)
            else:
                batch, block = outputs.take(size)
                windows, metadata = block.windows_address, block.metadata_address
                self._plan.next(sampler_state.state_address, size, windows, metadata, stream)
                outputs.complete(block, size, stream, is_random=True)
                outputs.give_back(block)
        finally:
            if index is not None:
                torch_private.range_pop()
        if self._finish is not None:
            batch = self._finish(batch)
        if self._generator is not None:
            self._generator.manual_seed(derived_seed(order.key, epoch, position + order.rank))
            for transform in self._transforms:
                batch = transform(batch, self._generator)
                if not isinstance(batch, Mapping):
                    raise TypeError(
                        f"transforms: expected a function that returns the batch, a dict, "
                        f"got {type(batch).__name__} of {transform!r}"
                    )
        if is_capturing:
            # Nothing has run: replays of the graph advance the device's state.
            sampler_state.is_captured = True
            return batch
        self._counters.batches += 1
        self._counters.samples += size
        call_counts.calls["Loader.next", self.device.type] += 1
        sampler_state.advance()  # last: a batch that was interrupted comes again
        return batch

    def gather(self, indices: Sequence[int] | np.ndarray[Any, Any] | Tensor) -> Batch:
        """Returns the samples at some indices, in that order, without transforms.

        Images are not augmented: they have the centers of random crops.

        Any number of threads may call it at once, also during :meth:`next`. With `reuse_buffers`
        they share the tensors of a size: the batch of one call is overwritten by the next.

        Args:
            indices: [B] integers from 0 to the number of samples less 1, in any order; they may
                repeat. A tensor on the loader's GPU is not validated, since that would wait for the
                GPU: an index out of range gives a sample of zeros, all padded, with index -1. With
                rows on disk it is validated.

        Raises:
            TypeError: `indices` are not integers.
            ValueError: `indices` are out of range (except on a GPU), or have several axes.
        """
        return self._gather(indices)

    def _gather(self, indices: object, *, is_new: bool = False) -> Batch:
        if self._forks != _device.forks:
            self._after_fork()
        index = self._index
        stream = 0
        if index is not None:
            if torch_private.cuda_device() != index:
                with torch.cuda.device(index):
                    return self._gather(indices, is_new=is_new)
            stream = torch_private.cuda_stream(index)
        batch = self._engine.gather(indices, self.device, stream, is_new)
        size = batch["timestamp"].size(0)
        self._counters.gathered += size
        call_counts.calls["Loader.gather", self.device.type] += 1
        return batch if self._finish is None else self._finish(batch)

    def augmentation(
        self, indices: Sequence[int] | np.ndarray[Any, Any] | Tensor, epoch: int | None = None
    ) -> dict[str, DrawnAugmentation]:
        """Returns the random parameters of samples' images, as :meth:`next` draws them.

        Args:
            indices: [N] integers, as :meth:`gather` takes them.
            epoch: The epoch; None: that of the next batch.

        Returns:
            By key of augmented images, parameters of [N,K] images: of K steps, also where the
            batch has no axis of steps. Padded steps are not augmented, whatever is drawn.

        Raises:
            TypeError, ValueError: `indices` are no integers or out of range; `epoch` is below 0.

        Example:
            >>> drawn = loader.augmentation(batch["index"])["front"]
        """
        count = self._plan.anchors.size(0)
        if isinstance(indices, Tensor):
            indices = indices.cpu()
        checked = check_indices(indices, count, torch.device("cpu"))
        if epoch is None:
            epoch = self.state_dict()["epoch"]
        epoch = check_integer("epoch", epoch, 0)
        return draw_parameters(self._outputs.images, self._plan, checked, epoch)

    # ---- sampler state ---------------------------------------------------------------------------

    def state_dict(self) -> dict[str, int]:
        """Returns the sampler state: a few integers, from which :meth:`load_state_dict` resumes.

        They do not depend on ranks and batch size: a run may resume with others. Waits for the GPU
        if a CUDA graph may have advanced the state.
        """
        return self._sampler_state.state()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Resumes from the state of a loader of the same samples and seed.

        The samples that follow are those that would have followed in that loader, in the same
        order. If too few remain in the epoch for this number of ranks, or for a whole batch under
        `drop_last`, the next epoch begins.

        Raises:
            TypeError, ValueError: `state` is of other samples, another seed or order, or no state.
        """
        if self._lock.locked():
            self._refuse_call("load_state_dict")
        with self._lock:
            self._sampler_state.load(state)

    def set_epoch(self, epoch: int) -> None:
        """Goes to the start of an epoch; within that epoch, it stays at its position.

        So trainers that call this before each epoch can resume in the middle of one.

        Raises:
            TypeError, ValueError: `epoch` is not an int, or below 0.
        """
        if self._lock.locked():
            self._refuse_call("set_epoch")
        with self._lock:
            self._sampler_state.set_epoch(epoch)

    def stats(self) -> LoaderStats:
        """Returns counts of batches, bytes and waits so far, and the resident bytes."""
        return self._counters.stats()

    def summary(self) -> LoaderSummary:
        """A table of the batch's streams: rate, offsets, method, fraction padded, ages.

        Fractions and ages are of up to 1,000 samples, which the loader examines at construction.
        ``print`` shows it as text, a notebook as HTML.

        Example:
            >>> print(loader.summary())
        """
        return self._summary

    # ---- other processes -------------------------------------------------------------------------

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (self._recipe, self.state_dict())

    def _after_fork(self) -> None:
        if self._index is not None:
            raise RuntimeError(
                "Loader: expected the process that made it, or one that was spawned, got the child "
                "of a fork: CUDA does not survive that"
            )
        # The threads of the parent do not exist here, and OpenMP would wait for them.
        torch.set_num_threads(1)
        self._lock = threading.Lock()  # a thread of the parent may have held the other
        self._forks = _device.forks

    def _refuse_call(self, name: str) -> NoReturn:
        raise RuntimeError(
            f"Loader: expected one call at a time, got {name} during another call of next (a lock "
            "around the calls, or one loader for each thread; gather and dataset take any number "
            "of callers)"
        )

    def __repr__(self) -> str:
        return f"Loader({self._words()}: {listed(self._outputs.keys)})"

    def __str__(self) -> str:
        kind = repr(self).partition("(")[0]
        return f"{kind}: {self._words()}\n{self._summary}"

    def _words(self) -> str:
        batches = f"{counted(len(self), 'batch')} of {self._order.batch_size} on {self.device}"
        return f"{counted(len(self.dataset), 'sample')}, {batches}"

    def _repr_html_(self) -> str:
        kind = repr(self).partition("(")[0]
        return self._summary.html(f"{kind}: {self._words()}")


def _rebuild(recipe: Recipe, state: Mapping[str, int]) -> BatchSource:
    source: BatchSource = recipe.build()
    source.load_state_dict(state)
    return source
