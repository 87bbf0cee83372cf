"""The public function `fuse`, which aligns many streams, and their class `Stream`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal, Protocol, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from robocache.align import copied_streams, ops
from robocache.align import options as _options
from robocache.align.call import StreamArguments, refuse_type
from robocache.core import backends, dtypes
from robocache.core.arrays import ArrayT, call_with_arrays
from robocache.core.checks import check_bool
from robocache.core.display import ShortRepr
from robocache.core.names import Backend, Method, Outside

MAX_STREAMS = 64


class Rows(Protocol):
    """The rows of a stream in an episode of a store, with the stream's stored method."""

    @property
    def values(self) -> NDArray[Any]:
        """The values, [S, the row's shape...]."""

    @property
    def times(self) -> NDArray[Any]:
        """The time of each row, [S], ascending."""

    @property
    def valid(self) -> NDArray[np.bool_] | None:
        """Which rows are valid, [S]; None: all."""

    @property
    def method(self) -> Method:
        """The alignment method."""


_PREFIXES = tuple(f"streams[{i}]." for i in range(MAX_STREAMS))


@dataclass(slots=True, eq=False, repr=False)
class Stream(ShortRepr):
    """A recorded stream, with the options by which :func:`fuse` aligns it.

    B episodes, S source rows, D channels. All episodes share an attribute without the dimension B.
    :func:`fuse` checks the attributes; the constructor does not.

    Attributes:
        values: [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8; with methods
            ``"previous"`` and ``"nearest"`` also bool and any other integer dtype, whose rows are
            copied exactly. Any strides. Gradients flow to them.
        times: The time of each row, [B,S] or [S]; int64 nanoseconds, or float32 or float64
            seconds. Ascending in each episode; equal neighbors are allowed.
        method: As in :func:`resample_trajectories`: a name, or (name, channels) pairs that sum
            to D.
        max_gap: The longest time between the two rows that a result is computed from, or from the
            row to the target; beyond it the result is not valid. Durations have the unit of the
            times. None: no limit.
        tolerance: If a row is at most this far from the target, the result is the nearest such row.
        mean_window: The length of the window of method ``"mean"``, which requires one; an error
            for other methods.
        lengths: The number of rows of each episode, [B] or []; int64 or int32, in [0,S].
        valid: Which rows are valid, [B,S] or [S] bool.
        subtract: [D], any floating dtype: the result is (x - subtract) * multiply, rounded once.
            None for bool and integer values other than uint8, like `multiply`.
        multiply: [D], any floating dtype.
        clock_offset: Added to the times first: the reading of the targets' clock minus the reading
            of this stream's clock at one moment. May be negative.
    """

    values: Tensor | NDArray[Any]
    times: Tensor | NDArray[Any]
    _: KW_ONLY
    method: Method = "linear"
    max_gap: float | None = None
    tolerance: float = 0
    mean_window: float | None = None
    lengths: Tensor | NDArray[Any] | None = None
    valid: Tensor | NDArray[Any] | None = None
    subtract: Tensor | NDArray[Any] | None = None
    multiply: Tensor | NDArray[Any] | None = None
    clock_offset: float = 0

    @classmethod
    def from_rows(
        cls, rows: Rows, *, device: torch.device | str | None = None, **options: Any
    ) -> Stream:
        """Creates a stream from a store's rows, with their stored method and mask.

        Args:
            rows: The rows of an episode, ``store[3]["pose"]``. Each row is flattened to [D].
            device: The device of the values and times; None: the CPU.
            options: Other attributes of the stream; `method` and `valid` default to those of the
                rows.

        Returns:
            A stream over a copy of the rows.

        Example:
            >>> pose = rc.Stream.from_rows(store[3]["pose"], max_gap=100_000_000)
            >>> pose.method
            'slerp_xyzw'
        """
        values = np.asarray(rows.values)
        values = values.reshape(len(values), math.prod(values.shape[1:]))
        options.setdefault("method", rows.method)
        if rows.valid is not None:
            options.setdefault("valid", _tensor(rows.valid, device))
        return cls(_tensor(values, device), _tensor(rows.times, device), **options)


def _tensor(array: NDArray[Any], device: torch.device | str | None) -> Tensor:
    """A tensor that copies an array: a store's arrays are read-only."""
    if array.dtype.name == "bfloat16":  # of ml_dtypes; torch cannot convert it
        return torch.from_numpy(array.view(np.int16).copy()).view(torch.bfloat16).to(device)
    return torch.from_numpy(array.copy()).to(device)


@overload
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[False] = ...,
    return_age: Literal[False] = ...,
    backend: Backend = ...,
) -> ArrayT: ...
@overload
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[True],
    return_age: Literal[False] = ...,
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[False] = ...,
    return_age: Literal[True],
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT]: ...
@overload
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: Literal[True],
    return_age: Literal[True],
    backend: Backend = ...,
) -> tuple[ArrayT, ArrayT, ArrayT]: ...
@overload
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = ...,
    out_dtype: torch.dtype | None = ...,
    return_valid: bool = ...,
    return_age: bool = ...,
    backend: Backend = ...,
) -> ArrayT | tuple[ArrayT, ...]: ...
def fuse(
    streams: Sequence[Stream | Rows],
    target_times: ArrayT,
    *,
    outside: Outside = "hold",
    out_dtype: torch.dtype | None = None,
    return_valid: bool = False,
    return_age: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ...]:
    """Aligns streams of any rates to one timeline and concatenates their channels.

    Aligns each stream as :func:`resample_trajectories` does, by the stream's options, and writes
    it to the columns after those of the stream before it. On a GPU this takes one launch, and a
    second one if there are integer or bool streams. B episodes, T targets. All episodes share an
    argument without the dimension B; the result has B if any argument has. All tensors are on one
    device. The times of a call are all integer, or all floating: float32 with float64 becomes
    float64.

    Pass all arrays as tensors, or all as NumPy arrays; the results are of the same kind.

    Args:
        streams: 1 to 64 of :class:`Stream`; or rows of a store's episode, ``store[3]["pose"]``,
            which :meth:`Stream.from_rows` converts.
        target_times: The requested timeline, [B,T] or [T], in any order; ascending if a stream has
            a run of method ``"sum"``. The result at a NaN target is NaN (0 in an integer or bool
            result) and not valid.
        outside: The result before a stream's first row and after its last: ``"hold"``, ``"zero"``,
            ``"nan"`` or ``"extrapolate"``, as in :func:`resample_trajectories`. Never valid.
        out_dtype: The dtype of the result, float16, bfloat16, float32, float64 or uint8; by default
            that of `torch.cat` of the values, or of `np.concatenate` for arrays. Required for
            `subtract` or `multiply` of uint8 values if no stream has floating values.
        return_valid: Whether to return the mask as well: True where the target lies within the
            stream's recording and the result is computed from valid rows within its `max_gap`.
        return_age: Whether to return the age as well: the target's time minus that of the newest
            row that the result is computed from, `clock_offset` included. Negative where that row
            is later than the target; 0 for a NaN target and an empty episode.
        backend: ``"cuda"`` or ``"cpu"``, compiled kernels for tensors on that device;
            ``"pytorch"``, plain torch on any device; ``"auto"``, the backend that
            :class:`robocache.config` sets, by default the compiled kernels where they are usable.

    Returns:
        The values, [B,T,sum of D] or [T,sum of D], contiguous. With `return_valid` or `return_age`
        a tuple of the values, the mask if requested, [B,T,streams] or [T,streams] bool, and the age
        if requested, of the mask's shape and the dtype of the times.

    Raises:
        ValueError: For an invalid shape, device, name or number; for times or scales that require
            grad; for a backend that cannot run on the device. On the cpu backend, and on the others
            under ``config(validate=True)``, for times that descend where they must ascend and for
            lengths outside [0,S].
        TypeError: For an argument of a wrong type, and for a dtype that is not listed above.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If a kernel launch fails, for example after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> MS = 1_000_000  # times are nanoseconds
        >>> joints = rc.Stream(torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([0, 10, 20]) * MS)
        >>> gripper = rc.Stream(
        ...     torch.tensor([[0.0], [1.0]]), torch.tensor([0, 12]) * MS, method="previous"
        ... )
        >>> timeline = torch.tensor([5, 10, 15]) * MS
        >>> values, valid, age = rc.fuse(
        ...     [joints, gripper], timeline, return_valid=True, return_age=True
        ... )
        >>> values
        tensor([[0.5000, 0.0000],
                [1.0000, 0.0000],
                [1.5000, 1.0000]])
        >>> valid
        tensor([[ True,  True],
                [ True,  True],
                [ True, False]])
        >>> age // MS
        tensor([[-5,  5],
                [ 0, 10],
                [-5,  3]])
    """
    if isinstance(target_times, np.ndarray):
        arguments = locals() | {"out_dtype": out_dtype or numpy_dtype(streams)}
        arrays: ArrayT | tuple[ArrayT, ...] = call_with_arrays(fuse, arguments)
        return arrays
    return fuse_tensors(
        streams, _PREFIXES, target_times, outside, out_dtype, return_valid, return_age, backend
    )


def fuse_tensors(
    streams: Sequence[Any],
    prefixes: Sequence[str],
    target_times: Any,
    outside: Outside,
    out_dtype: torch.dtype | None,
    return_valid: bool,
    return_age: bool,
    backend: Backend,
) -> Tensor | tuple[Tensor, ...]:
    """:func:`fuse` of tensors; messages name a stream's arguments with its entry of `prefixes`."""
    # A short path, for speed, as that of resample_trajectories.
    if not isinstance(streams, (list, tuple)):
        raise TypeError(f"streams: expected a list of Streams, got {type(streams).__name__}")
    if not 1 <= len(streams) <= MAX_STREAMS:
        raise ValueError(f"streams: expected 1 to {MAX_STREAMS}, got {len(streams)}")
    if return_valid is not True and return_valid is not False:
        check_bool("return_valid", return_valid)
    if return_age is not True and return_age is not False:
        check_bool("return_age", return_age)
    arguments: list[tuple[Any, ...]] = []
    needs_grad = has_copied = False
    dtype: Any = None
    all_values: list[Any] = []
    for i, stream in enumerate(streams):
        if not isinstance(stream, Stream):
            stream = _from_rows(i, stream, target_times)
        values: Any = stream.values
        if not isinstance(values, Tensor):
            refuse_type(prefixes[i], "values", values)
        all_values.append(values)
        arguments.append(
            (
                prefixes[i],
                values,
                stream.times,
                stream.method,
                stream.max_gap,
                stream.tolerance,
                stream.mean_window,
                stream.lengths,
                stream.valid,
                stream.subtract,
                stream.multiply,
                stream.clock_offset,
            )
        )
        needs_grad = needs_grad or values.requires_grad
        if values.dtype != dtype:
            has_copied = has_copied or values.dtype not in dtypes.COMPUTED
            dtype = _promoted(dtype, values.dtype)
    if out_dtype is not None:
        _options.check_out_dtype(out_dtype)
        dtype = out_dtype
    elif not dtype.is_floating_point and _scales_uint8(arguments):
        raise ValueError(
            "out_dtype: expected a dtype with subtract or multiply of uint8 values, got None"
        )
    name = "streams[0].values" if prefixes is _PREFIXES else prefixes[0]
    native = backends.is_native("fuse", backend, all_values[0], name, *all_values[1:])
    call = (arguments, target_times, outside, dtype, return_valid, return_age, True)
    align = copied_streams.align if has_copied else ops.align
    results = align(native, needs_grad, call)
    return tuple(results) if len(results) > 1 else results[0]


def _from_rows(i: int, rows: Any, target_times: Tensor) -> Stream:
    if not all(hasattr(rows, name) for name in ("values", "times", "valid", "method")):
        raise TypeError(
            f"streams[{i}]: expected a robocache.Stream or the rows of an episode, "
            f"got {type(rows).__name__}"
        )
    return Stream.from_rows(rows, device=target_times.device)


def _promoted(one: torch.dtype | None, other: torch.dtype) -> torch.dtype:
    if one is None:
        return other
    try:
        return torch.promote_types(one, other)
    except RuntimeError:
        if one not in dtypes.NUMBERS or other not in dtypes.NUMBERS:
            return other  # the checks refuse it
        # Torch does not promote uint16, uint32 and uint64 with another integer dtype.
        common = np.promote_types(dtypes.dtype_name(one), dtypes.dtype_name(other))
        promoted: torch.dtype = getattr(torch, common.name)
        return promoted


def _scales_uint8(streams: Sequence[tuple[Any, ...]]) -> bool:
    arguments = [StreamArguments(*stream) for stream in streams]
    return any(
        stream.values.dtype == torch.uint8
        and (stream.subtract is not None or stream.multiply is not None)
        for stream in arguments
    )


def numpy_dtype(streams: Any) -> Any:
    """The dtype of `np.concatenate` if it is floating; None: the dtype that torch promotes to."""
    if not isinstance(streams, (list, tuple)) or not streams:  # fuse refuses these
        return None
    dtypes = [getattr(getattr(stream, "values", None), "dtype", None) for stream in streams]
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes):
        return None
    common = np.result_type(*dtypes)
    return common if common.kind == "f" else None
