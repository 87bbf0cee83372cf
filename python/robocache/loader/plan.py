"""The C++ loader behind its flat C API, bindings/torch/loader.cpp: a plan makes whole batches."""

from __future__ import annotations

import ctypes
import functools
import weakref
from collections.abc import Mapping, Sequence
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_int64, c_uint64, c_void_p
from typing import Any, NamedTuple

import torch
from torch import Tensor

from robocache.align import options
from robocache.core import library as _library
from robocache.core.library import Status
from robocache.loader.sampling.sampler import Order
from robocache.loader.window_spec import WindowSpec

# Numbers of robocache::DataType, of what the plan takes.
_DTYPES = {
    dtype: number
    for number, dtype in enumerate(
        (
            torch.float16,
            torch.bfloat16,
            torch.float32,
            torch.float64,
            torch.uint8,
            torch.bool,
            torch.int32,
            torch.int64,
        )
    )
}


class _Tensor(ctypes.Structure):
    """A tensor of up to two axes; without data, one that is absent."""

    _fields_ = (
        ("data", c_void_p),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * 2),
        ("strides", c_int64 * 2),
    )


class _Run(ctypes.Structure):
    _fields_ = (("method", c_int32), ("padding", c_int32), ("channels", c_int64))


class _WindowStream(ctypes.Structure):
    _fields_ = (
        ("name", c_char_p),
        ("values", _Tensor),
        ("times", _Tensor),
        ("offsets", _Tensor),
        ("begins", _Tensor),
        ("received", _Tensor),
        ("valid", _Tensor),
        ("steps", _Tensor),
        ("subtract", _Tensor),
        ("multiply", _Tensor),
        ("layout", POINTER(_Run)),
        ("run_count", c_int32),
        ("timeline", c_int32),
        ("is_causal", c_int32),
        ("outside", c_int32),
        ("out_type", c_int32),
        ("channels_first", c_int32),
        ("latency_ns", c_int64),
        ("max_gap_ns", c_int64),
        ("tolerance_ns", c_int64),
        ("mean_window_ns", c_int64),
        ("pixels", c_int64),
        ("colors", c_int64),
        ("first_episode", c_int64),
        ("reference_columns", _Tensor),
        ("relative_to", c_int64),
        ("reference_is_causal", c_int64),
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
    """Addresses of the samples' metadata, [B] each; timestamp is float32, the others int64."""

    _fields_ = (
        ("index", c_void_p),
        ("episode_index", c_void_p),
        ("frame_index", c_void_p),
        ("task_index", c_void_p),
        ("timestamp_ns", c_void_p),
        ("timestamp", c_void_p),
        ("dataset_index", c_void_p),
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
    with_status: dict[str, list[Any]] = {
        "open": [
            POINTER(_WindowStream),
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
    library.robocache_batch_error.argtypes = []
    library.robocache_batch_error.restype = c_char_p
    library.robocache_permute.argtypes = [c_uint64, c_int64, c_int64, c_int64]
    library.robocache_permute.restype = c_int64
    return library


def _raise(status: int) -> None:
    message = _load().robocache_batch_error().decode(errors="replace")
    kinds = {
        Status.VALUE_ERROR: ValueError,
        Status.TYPE_ERROR: TypeError,
        Status.OUT_OF_MEMORY: torch.OutOfMemoryError,
    }
    raise kinds.get(Status(status), RuntimeError)(message)


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
    # [Es] int64: where the values of each episode's first row are, in elements from those of
    # `values`, in memory that the caller keeps. N is that of times, received and valid then.
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
        numbers = {spec.name: number for number, spec in enumerate(specs)}
        self._bytes: list[Tensor] = []  # places of values that are copied, in bytes
        windows = (
            _window_stream(spec, of, numbers, self._bytes)
            for spec, of in zip(specs, data, strict=True)
        )
        status = library.robocache_batch_plan_open(
            (_WindowStream * len(specs))(*windows),
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
            _raise(status)
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
            _raise(status)

    def next(self, state: int, size: int, outputs: int, metadata: int, stream: int) -> None:
        """Writes the next samples of `state` [4] int64, and moves it on; else as :meth:`gather`."""
        status = self._next(self._pointer, state, size, outputs, metadata, stream)
        if status:
            _raise(status)


def _view(tensor: Tensor | None) -> _Tensor:
    view = _Tensor()
    if tensor is not None:
        # Not data_ptr(): that is null where there are no elements, which would say "absent".
        storage = tensor.untyped_storage().data_ptr()
        view.data = storage + tensor.storage_offset() * tensor.itemsize
        view.dtype = _DTYPES[tensor.dtype]
        view.rank = tensor.dim()
        for axis in range(tensor.dim()):
            view.shape[axis], view.strides[axis] = tensor.size(axis), tensor.stride(axis)
    return view


def _window_stream(
    spec: WindowSpec, data: WindowData, numbers: Mapping[str, int], kept: list[Tensor]
) -> _WindowStream:
    """For C++, whose streams know each other by number, and which copies other types as bytes."""
    values, begins, out_dtype, runs = (
        data.values, data.value_begins, spec.torch_out_dtype, spec.runs
    )  # fmt: skip
    if spec.by_rows and spec.relative_to is None:
        runs = (("previous", spec.elements),)
    if spec.is_copied:
        size = spec.torch_dtype.itemsize
        values, out_dtype = values.view(torch.uint8), torch.uint8
        runs = tuple((method, width * size) for method, width in runs)
        if begins is not None:
            begins = begins * size
            kept.append(begins)
    layout = (_Run * len(runs))(*(_Run(options.METHODS[m], 0, n) for m, n in runs))
    height, width, colors = spec.shape if spec.channels_first else (0, 0, 0)
    return _WindowStream(
        name=spec.name.encode(),
        values=_view(values),
        times=_view(data.times),
        offsets=_view(data.row_offsets),
        begins=_view(begins),
        received=_view(data.received),
        valid=_view(data.valid),
        steps=_view(data.window_offsets),
        subtract=_view(data.subtract),
        multiply=_view(data.multiply),
        layout=layout,
        run_count=len(runs),
        timeline=spec.by_rows,
        is_causal=spec.causal,
        outside=options.OUTSIDES[spec.outside],
        out_type=_DTYPES[out_dtype],
        channels_first=spec.channels_first,
        latency_ns=spec.latency_ns,
        max_gap_ns=-1 if spec.max_gap_ns is None else spec.max_gap_ns,
        tolerance_ns=spec.tolerance_ns,
        mean_window_ns=-1 if spec.mean_window_ns is None else spec.mean_window_ns,
        pixels=height * width,
        colors=colors,
        first_episode=data.first_episode,
        reference_columns=_view(data.reference_columns),
        relative_to=-1 if spec.relative_to is None else numbers[spec.relative_to.stream],
        reference_is_causal=spec.relative_to is None or spec.relative_to.causal,
    )
