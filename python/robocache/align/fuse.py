"""Fusion of many streams: the public functions."""

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
from robocache.align.call import MODALITIES, StreamArguments, argument_name, refuse_type
from robocache.core import backends, dtypes
from robocache.core.arrays import ArrayT, of_arrays
from robocache.core.checks import check_bool
from robocache.core.display import ShortRepr
from robocache.core.names import Backend, Method, Outside

MAX_STREAMS = 64


class Rows(Protocol):
    """Rows of a stream with its stored method: what an episode of a store holds."""

    @property
    def values(self) -> NDArray[Any]:
        """The values, [S, the row's shape...]."""

    @property
    def times(self) -> NDArray[Any]:
        """When each row was recorded, [S], ascending."""

    @property
    def valid(self) -> NDArray[np.bool_] | None:
        """Which rows are real, [S]; None where all are."""

    @property
    def method(self) -> Method:
        """How alignment combines them."""


_PREFIXES = tuple(f"streams[{i}]." for i in range(MAX_STREAMS))


@dataclass(slots=True, eq=False, repr=False)
class Stream(ShortRepr):
    """One recorded stream and how :func:`fuse` is to align it.

    B episodes, S source rows, D channels. What is given without B is shared by the batch. Nothing
    is checked before the stream is used.

    Attributes:
        values: [B,S,D] or [S,D]; float16, bfloat16, float32, float64 or uint8; with methods
            ``"previous"`` and ``"nearest"`` also bool and any other integer dtype, whose rows are
            copied exactly. Any strides. Gradients flow to them.
        times: When each row was recorded, [B,S] or [S]; int64 nanoseconds, or float32 or float64
            seconds. Ascending in each episode; equal neighbors are allowed.
        method: As in :func:`resample_trajectories`: a name, or (name, channels) pairs that sum
            to D.
        max_gap: Targets made from rows farther apart, or away, than this are not valid. Durations
            have the unit of the times. None: no limit.
        tolerance: A row this close to a target is the answer alone.
        mean_window: The length of the window of method ``"mean"``, which needs one; an error
            without it.
        lengths: How many rows each episode has, [B] or []; int64 or int32, in [0,S].
        valid: Which rows are real, [B,S] or [S] bool.
        subtract: [D], any floating dtype: the result is (x - subtract) * multiply, rounded once.
            None for bool and integer values other than uint8, like `multiply`.
        multiply: [D], any floating dtype.
        clock_offset: Added to the times before anything else looks at them: what the clock of the
            targets says less what this stream's clock says. May be negative.
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
        """The rows of an episode of a store, with their stored method and mask.

        Args:
            rows: ``store[3]["pose"]``. A row of any shape becomes its D elements.
            device: Where the values and times go; None: the CPU.
            options: As :class:`Stream` has them; `method` and `valid` default to those of the rows.

        Returns:
            A stream over a copy of the rows.

        Example:
            >>> pose = rc.Stream.from_rows(store[3]["pose"], max_gap=100_000_000)
            >>> pose.method
            'slerp_xyzw'
        """
        values = rows.values.reshape(len(rows.times), math.prod(rows.values.shape[1:]))
        options.setdefault("method", rows.method)
        if rows.valid is not None:
            options.setdefault("valid", _tensor(rows.valid, device))
        return cls(_tensor(values, device), _tensor(rows.times, device), **options)


def _tensor(array: NDArray[Any], device: torch.device | str | None) -> Tensor:
    """A copy, since the arrays of a store can't be written to."""
    if array.dtype.name == "bfloat16":  # of ml_dtypes, which torch does not know
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
    """Many streams, each with its own rate, aligned to one timeline and written side by side.

    Each stream is aligned as :func:`resample_trajectories` does it, with its own options, and takes
    the columns after those of the stream before it. On a GPU this is one launch, and another
    for the integer and bool streams. B episodes, T targets; what is given without B is shared by
    the batch, and the result has no B only if nothing has. All tensors are on one device; all times
    of a call are integer, or all are floating, and then float32 with float64 becomes float64.

    NumPy arrays in, NumPy arrays out: all arrays of a call are tensors, or all are NumPy's.

    Args:
        streams: 1 to 64 of :class:`Stream`; or rows of a store's episode, ``store[3]["pose"]``,
            which are taken by their stored method (:meth:`Stream.from_rows`).
        target_times: The requested timeline, [B,T] or [T], in any order, but ascending where a
            stream has a run of method ``"sum"``. A NaN target gives NaN (0 where the result
            is of integers or bool) and is not valid.
        outside: What a target before a stream's first row or after its last one becomes:
            ``"hold"``, ``"zero"``, ``"nan"`` or ``"extrapolate"``. It is not valid in any case.
        out_dtype: The dtype of the result, float16, bfloat16, float32, float64 or uint8; by default
            the dtype that `torch.cat`, for arrays `np.concatenate`, would give the values. uint8
            values without floating ones beside them need one for `subtract` and `multiply`.
        return_valid: Whether to return the mask as well: where the target lies within the stream's
            recording, and is made from valid rows within its `max_gap`.
        return_age: Whether to return the age as well: the target's time less that of the newest row
            that the value is made from, `clock_offset` included. Negative where that row is later
            than the target, 0 for a NaN target and an empty episode.
        backend: ``"cuda"`` or ``"cpu"``, the library's own for tensors there; ``"pytorch"``, plain
            torch on any device; ``"auto"``, as :class:`robocache.config` says, and without that the
            library's own where it can be used.

    Returns:
        The values, [B,T,sum of D] or [T,sum of D], contiguous. With `return_valid` or `return_age`
        a tuple of them and the mask, [B,T,streams] or [T,streams] bool, and the age, of the same
        shape and of the type of the times.

    Raises:
        ValueError: For a shape, device, name or number that does not fit; for times or scales that
            require grad; for a backend that does not fit the device. On the cpu backend, and on the
            others under ``config(validate=True)``, for times that do not ascend where they must
            and for lengths outside [0,S].
        TypeError: For an argument of a wrong type, and a dtype that is not listed above.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If the GPU refuses a launch, as after a fault in another kernel.

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
        arguments = locals() | {"out_dtype": out_dtype or _numpy_dtype(streams)}
        return of_arrays(fuse, arguments)  # type: ignore[no-any-return]
    return _fuse(  # type: ignore[no-any-return]
        streams, _PREFIXES, target_times, outside, out_dtype, return_valid, return_age, backend
    )


def _fuse(
    streams: Sequence[Any],
    prefixes: Sequence[str],
    target_times: Any,
    outside: Outside,
    out_dtype: torch.dtype | None,
    return_valid: bool,
    return_age: bool,
    backend: Backend,
) -> Any:
    """:func:`fuse` of tensors; `prefixes` begin the names of the streams' arguments."""
    # Short for speed, as resample_trajectories is.
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
            return other  # which the checks refuse
        # Torch promotes no uint16, uint32 or uint64 with another integer dtype.
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


def _numpy_dtype(streams: Any) -> Any:
    """The dtype of `np.concatenate` for arrays with integers; None: as torch promotes."""
    if not isinstance(streams, (list, tuple)) or not streams:  # which fuse refuses
        return None
    dtypes = [getattr(getattr(stream, "values", None), "dtype", None) for stream in streams]
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "fiub" for dtype in dtypes):
        return None
    common = np.result_type(*dtypes)
    return common if common.kind == "f" else None


# ---- three streams -------------------------------------------------------------------------------


def fuse_multimodal(
    vision: ArrayT,
    vision_times: ArrayT,
    proprio: ArrayT,
    proprio_times: ArrayT,
    force: ArrayT,
    force_times: ArrayT,
    target_times: ArrayT,
    *,
    method: Method | Sequence[Method] = "linear",
    max_gap: float | Sequence[float | None] | None = None,
    tolerance: float | Sequence[float] = 0,
    mean_window: float | Sequence[float | None] | None = None,
    lengths: ArrayT | Sequence[ArrayT | None] | None = None,
    valid: ArrayT | Sequence[ArrayT | None] | None = None,
    subtract: ArrayT | Sequence[ArrayT | None] | None = None,
    multiply: ArrayT | Sequence[ArrayT | None] | None = None,
    clock_offset: float | Sequence[float] = 0,
    outside: Outside = "hold",
    out_dtype: torch.dtype | None = None,
    return_valid: bool = False,
    return_age: bool = False,
    backend: Backend = "auto",
) -> ArrayT | tuple[ArrayT, ...]:
    """:func:`fuse` of three streams: vision, proprioception and force, in this order.

    The options of :class:`Stream` take one value for all three streams, or a list or tuple of
    three. A layout, being pairs, is one value.

    NumPy arrays in, NumPy arrays out: all arrays of a call are tensors, or all are NumPy's.

    Args:
        vision: Values as :class:`Stream` has them, [B,S,D] or [S,D], like those of the others.
        vision_times: [B,S] or [S].
        proprio: Values of the second stream, with rows and channels of their own.
        proprio_times: [B,S] or [S].
        force: Values of the third stream.
        force_times: [B,S] or [S].
        target_times: The requested timeline, [B,T] or [T].
        method: As in :class:`Stream`, or three of them.
        max_gap: As in :class:`Stream`, or three of them.
        tolerance: As in :class:`Stream`, or three of them.
        mean_window: As in :class:`Stream`, or three of them. One is for the streams with a mean.
        lengths: As in :class:`Stream`, or three of them.
        valid: As in :class:`Stream`, or three of them.
        subtract: As in :class:`Stream`, or three of them.
        multiply: As in :class:`Stream`, or three of them.
        clock_offset: As in :class:`Stream`, or three of them.
        outside: As in :func:`fuse`.
        out_dtype: As in :func:`fuse`.
        return_valid: As in :func:`fuse`.
        return_age: As in :func:`fuse`.
        backend: As in :func:`fuse`.

    Returns:
        As :func:`fuse`: the values, [B,T,sum of D] or [T,sum of D], and where they are asked for
        the mask and the age, [B,T,3] or [T,3].

    Raises:
        ValueError: As :func:`fuse`, and for a list of options that has not three.
        TypeError: As :func:`fuse`.
        torch.OutOfMemoryError: If the result does not fit in memory.
        RuntimeError: If the GPU refuses a launch, as after a fault in another kernel.

    Example:
        >>> import torch, robocache as rc
        >>> MS = 1_000_000
        >>> frames, joints, force = torch.randn(3, 64), torch.randn(10, 7), torch.randn(100, 6)
        >>> out = rc.fuse_multimodal(
        ...     frames, torch.arange(3) * 33 * MS,
        ...     joints, torch.arange(10) * 10 * MS,
        ...     force, torch.arange(100) * MS,
        ...     torch.arange(0, 80, 20) * MS,
        ...     method=["nearest", "linear", "mean"],
        ...     mean_window=20 * MS,
        ... )
        >>> out.shape
        torch.Size([4, 77])
    """
    methods = _three("method", _one_layout(method))
    max_gaps = _three("max_gap", max_gap)
    tolerances = _three("tolerance", tolerance)
    windows = _three("mean_window", mean_window)
    if not isinstance(mean_window, (list, tuple)) and any(map(_has_mean, methods)):
        windows = [mean_window if _has_mean(method) else None for method in methods]
    all_lengths = _three("lengths", lengths)
    masks = _three("valid", valid)
    subtracts = _three("subtract", subtract)
    multiplies = _three("multiply", multiply)
    offsets = _three("clock_offset", clock_offset)
    streams = [
        Stream(
            values,
            times,
            method=methods[i],
            max_gap=max_gaps[i],
            tolerance=tolerances[i],
            mean_window=windows[i],
            lengths=all_lengths[i],
            valid=masks[i],
            subtract=subtracts[i],
            multiply=multiplies[i],
            clock_offset=offsets[i],
        )
        for i, (values, times) in enumerate(
            ((vision, vision_times), (proprio, proprio_times), (force, force_times))
        )
    ]
    arguments: dict[str, Any] = {
        "streams": streams,
        "prefixes": MODALITIES,
        "target_times": target_times,
        "outside": outside,
        "out_dtype": out_dtype,
        "return_valid": return_valid,
        "return_age": return_age,
        "backend": backend,
    }
    if isinstance(target_times, np.ndarray):
        arguments["out_dtype"] = out_dtype or _numpy_dtype(streams)
        return of_arrays(  # type: ignore[no-any-return]
            _fuse, arguments, lambda i, part: argument_name(MODALITIES[i], part)
        )
    return _fuse(**arguments)  # type: ignore[no-any-return]


def _one_layout(method: Any) -> Any:
    """A layout as a tuple of three, all other methods as they are."""
    if isinstance(method, (list, tuple)) and all(
        isinstance(run, (list, tuple)) and len(run) == 2 and isinstance(run[0], str)
        for run in method
    ):
        return (method,) * 3
    return method


def _has_mean(method: Any) -> bool:
    runs = method if isinstance(method, (list, tuple)) else [(method,)]
    return any(isinstance(run, (list, tuple)) and "mean" in run[:1] for run in runs)


def _three(name: str, option: Any) -> Any:
    """An option of each stream."""
    if not isinstance(option, (list, tuple)):
        return (option,) * 3
    if len(option) != 3:
        raise ValueError(f"{name}: expected one value or 3, got {len(option)}")
    return option
