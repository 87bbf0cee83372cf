"""The C++ loader behind its flat C API, bindings/torch/loader.cpp: a plan makes whole batches."""

from __future__ import annotations

import ctypes
import functools
import json
import weakref
from collections.abc import Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p
from dataclasses import replace
from typing import Any, NamedTuple, NoReturn

import torch
from torch import Tensor

from robocache.core import dtypes
from robocache.core import library as _library
from robocache.core.library import Status
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec

# The tensors of a window, in the order of the structure.
_ROLES = (
    "values", "times", "row_offsets", "value_begins", "received", "valid", "window_offsets",
    "subtract", "multiply", "reference_columns",
)  # fmt: skip


class _Tensor(ctypes.Structure):
    """A tensor of up to two axes; without data, one that is absent."""

    _fields_ = (
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 2),
        ("strides", c_int64 * 2),
    )


class _WindowData(ctypes.Structure):
    """The tensors of a :class:`WindowData`, in its order."""

    _fields_ = (
        *((role, _Tensor) for role in _ROLES),
        ("first_episode", c_int64),
    )


class WindowOutput(ctypes.Structure):
    """Where a window of a batch is written; addresses, null where it is not wanted."""

    _fields_ = (
        ("values", c_void_p),  # [B,K,...]; step k of sample b begins at (b * K + k) * row_stride
        ("row_stride", c_int64),  # elements
        ("is_pad", c_void_p),  # [B,K] bool
        ("age_ns", c_void_p),  # [B,K] int64
    )


class BatchMetadata(ctypes.Structure):
    """Addresses of the samples' metadata, [B] each; timestamp is float32, the others int64.

    `epoch` is [1], and only `next` writes it.
    """

    _fields_ = (
        ("index", c_void_p),
        ("episode_index", c_void_p),
        ("frame_index", c_void_p),
        ("task_index", c_void_p),
        ("timestamp_ns", c_void_p),
        ("timestamp", c_void_p),
        ("dataset_index", c_void_p),
        ("epoch", c_void_p),
    )


class _BatchOrder(ctypes.Structure):
    _fields_ = (
        ("seed", c_uint64),
        ("rank", c_int64),
        ("ranks", c_int64),
        ("batch_size", c_int64),
        ("shuffle", c_int32),
        ("drop_last", c_int32),
        ("parts", _Tensor),
        ("thresholds", _Tensor),
        ("samples", c_int64),
    )


@functools.cache
def _load() -> ctypes.CDLL:
    library = _library.load()
    structures = {
        "Tensor": _Tensor,
        "WindowData": _WindowData,
        "WindowOutput": WindowOutput,
        "BatchMetadata": BatchMetadata,
        "BatchOrder": _BatchOrder,
    }
    _library.check_layout(library, "robocache_batch_layout", structures)
    with_status: dict[str, list[Any]] = {
        "open": [
            c_char_p,
            c_int64,
            POINTER(_WindowData),
            c_int64,
            POINTER(_Tensor),
            POINTER(_Tensor),
            POINTER(_BatchOrder),
            c_int32,
            POINTER(c_void_p),
        ],
        "gather": [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p],
        "next": [c_void_p, c_void_p, c_int64, c_void_p, c_void_p, c_void_p],
    }
    for name, arguments in with_status.items():
        function = getattr(library, f"robocache_batch_plan_{name}")
        function.argtypes = arguments
        function.restype = c_int
    library.robocache_batch_plan_close.argtypes = [c_void_p]
    library.robocache_batch_plan_close.restype = None
    library.robocache_permute.argtypes = [c_uint64, c_int64, c_int64, c_int64]
    library.robocache_permute.restype = c_int64
    return library


def raise_failure(status: int) -> NoReturn:
    """Raises the error of a call of the library that failed in this thread."""
    message = _load().robocache_error()
    _library.raise_failure(status, message, {Status.OUT_OF_MEMORY: torch.OutOfMemoryError})


def permute(seed: int, epoch: int, count: int, place: int) -> int:
    """The sample at a place of an epoch's order of `count` samples."""
    found: int = _load().robocache_permute(seed, epoch, count, place)
    return found


class WindowData(NamedTuple):
    """The tensors of a window: a WindowStream of C++, whose options are a WindowSpec.

    N rows of D columns in Es episodes, K offsets. Tensors are contiguous, but that values may have
    gaps between rows, and on the plan's device; for one on CUDA, pinned memory will do.
    """

    values: Tensor  # [N,D], of the spec's dtype
    times: Tensor | None  # [N] int64 ns; None: rows are counted, and no ages are wanted
    row_offsets: Tensor  # [Es+1] int64: episode e has the rows row_offsets[e] to row_offsets[e+1]
    # [Es] int64: where the values of each episode's first row are, from those of `values` on, in
    # memory that the caller keeps: in elements, in bytes where the window is copied. N is that of
    # times, received and valid then.
    value_begins: Tensor | None
    received: Tensor | None  # [N] int64 ns
    valid: Tensor | None  # [N] bool
    window_offsets: Tensor  # [K] int64: the spec's offsets
    subtract: Tensor | None  # [D], or [C] float64 of channels_first
    multiply: Tensor | None
    reference_columns: Tensor | None  # [D] int32: those of the spec's relative_to
    first_episode: int = 0  # the first of its episodes; it writes nothing of others


class Mixture(NamedTuple):
    """Parts to draw from by weight, on the plan's device: see robocache::BatchOrder."""

    parts: Tensor  # [M+1] int64: part m has the anchors parts[m] to parts[m+1]
    thresholds: Tensor  # [M] int64, the bits of uint64: 2^64 times the share of parts 0 to m


class BatchPlan:
    """Makes batches from resident streams; everything is checked here, and nothing later.

    The caller makes the device of the streams the current one, and hands over its stream. The plan
    keeps its tensors alive, as attributes of the same names.

    Args:
        specs: At most 64 windows, where relative ones count twice.
        data: The tensors of each.
        anchors: [A,2] int64, each row the bytes of (episode int32, frame int32, time_ns int64).
        episodes: [E,4] int64: index in the store, task, start_ns, data set.
        order: How :meth:`next` draws. An epoch has its `samples`.
        mixture: What it draws from; None: each anchor at most once an epoch.

    Raises:
        ValueError, TypeError: What does not fit, in the library's words.
    """

    def __init__(
        self,
        specs: Sequence[WindowSpec],
        data: Sequence[WindowData],
        anchors: Tensor,
        episodes: Tensor,
        order: Order,
        mixture: Mixture | None = None,
    ) -> None:
        library = _load()
        pointer = c_void_p()
        # Scales are tensors: they may be large, and lie where batches are made.
        windows = [replace(spec, normalization=None).to_fields() for spec in specs]
        text = json.dumps({"windows": windows}).encode()
        status = library.robocache_batch_plan_open(
            text,
            len(text),
            (_WindowData * len(specs))(*map(_tensors_of, data)),
            len(specs),
            byref(_view(anchors)),
            byref(_view(episodes)),
            byref(
                _BatchOrder(
                    order.key,
                    order.rank,
                    order.ranks,
                    order.batch_size,
                    order.shuffle,
                    order.drop_last,
                    _view(mixture and mixture.parts),
                    _view(mixture and mixture.thresholds),
                    order.samples,
                )
            ),
            anchors.is_cuda,
            byref(pointer),
        )
        if status:
            raise_failure(status)
        self.specs, self.data = tuple(specs), tuple(data)
        self.anchors, self.episodes = anchors, episodes
        self.mixture = mixture
        self._pointer = pointer
        self._gather = library.robocache_batch_plan_gather
        self._next = library.robocache_batch_plan_next
        weakref.finalize(self, library.robocache_batch_plan_close, pointer).atexit = False

    # Addresses are plain integers here: this is on the way of every batch.

    def gather(self, indices: int, size: int, outputs: int, metadata: int, stream: int) -> None:
        """Writes the samples `indices` [size] int64.

        Args:
            indices: Their address, on the plan's device.
            size: How many.
            outputs: The address of a WindowOutput for each stream.
            metadata: The address of a BatchMetadata.
            stream: The CUDA stream; 0 on the CPU.
        """
        status = self._gather(self._pointer, indices, size, outputs, metadata, stream)
        if status:
            raise_failure(status)

    def next(self, state: int, size: int, outputs: int, metadata: int, stream: int) -> None:
        """Writes the next samples of `state` [4] int64, and moves it on; else as :meth:`gather`."""
        status = self._next(self._pointer, state, size, outputs, metadata, stream)
        if status:
            raise_failure(status)


def _view(tensor: Tensor | None) -> _Tensor:
    view = _Tensor()
    if tensor is not None:
        # Not data_ptr(): that is null where there are no elements, which would say "absent".
        storage = tensor.untyped_storage().data_ptr()
        view.data = storage + tensor.storage_offset() * tensor.itemsize
        view.dtype = dtypes.NUMBERS[tensor.dtype]
        view.rank = tensor.dim()
        for axis in range(tensor.dim()):
            view.shape[axis], view.strides[axis] = tensor.size(axis), tensor.stride(axis)
    return view


def _tensors_of(data: WindowData) -> _WindowData:
    return _WindowData(*(_view(getattr(data, role)) for role in _ROLES), data.first_episode)
