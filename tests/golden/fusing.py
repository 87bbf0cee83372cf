"""Cases of any number of streams, as `fuse` takes them: what fuse.json holds."""

from __future__ import annotations

from typing import Any

from encoding import tensor

CASES: list[dict[str, Any]] = []


def stream(
    values: Any,
    source_times: Any,
    *,
    dtype: str = "float32",
    times: str = "int64",
    method: str | list[tuple[str, int]] = "linear",
    max_gap: float | None = None,
    tolerance: float = 0,
    mean_window: float | None = None,
    clock_offset: float | None = None,
    lengths: Any = None,
    valid: Any = None,
    subtract: Any = None,
    multiply: Any = None,
    scale_dtype: str = "float32",
) -> dict[str, Any]:
    v = tensor(dtype, values, column=True)
    s = tensor(times, source_times)
    channels = v.shape[-1]
    layout = [(method, channels)] if isinstance(method, str) else method
    assert sum(width for _, width in layout) == channels, (layout, channels)
    assert v.shape[-2] == s.shape[-1], (v.shape, s.shape)
    number = int if times == "int64" else float

    def optional(kind: str, nested: Any) -> Any:
        return None if nested is None else tensor(kind, nested).json()

    def duration(x: float | None) -> float | None:
        return None if x is None else number(x)

    return {
        "values": v.json(),
        "times": s.json(),
        "lengths": optional("int64", lengths),
        "valid": optional("bool", valid),
        "subtract": optional(scale_dtype, subtract),
        "multiply": optional(scale_dtype, multiply),
        "layout": [list(run) for run in layout],
        "max_gap": duration(max_gap),
        "tolerance": number(tolerance),
        "mean_window": duration(mean_window),
        "clock_offset": duration(clock_offset),
    }


def result_type(dtypes: list[str]) -> str:
    """The output's default dtype, as `torch.result_type` has it for the five types there are."""
    if "float64" in dtypes:
        return "float64"
    floats = set(dtypes) - {"uint8"}
    if len(floats) > 1:
        return "float32"
    return floats.pop() if floats else "uint8"


def case(
    name: str,
    reason: str,
    streams: list[dict[str, Any]] | dict[str, Any],
    target_times: Any,
    expected: Any,
    valid: Any,
    age: Any = None,
    *,
    times: str = "int64",
    outside: str = "hold",
    out_dtype: str | None = None,
    atol: float = 0,
) -> None:
    """Adds a case; `expected`, `valid` and `age` of one stream may be flat, for one column."""
    assert all(c["name"] != name for c in CASES), name
    assert name.replace("_", "").isalnum() and name == name.lower(), name
    streams = [streams] if isinstance(streams, dict) else streams
    dtypes = [s["values"]["dtype"] for s in streams]
    t = tensor(times, target_times)
    e = tensor(out_dtype or result_type(dtypes), expected, column=True, exact=atol == 0)
    m = tensor("bool", valid, column=True)
    assert e.shape[-1] == sum(s["values"]["shape"][-1] for s in streams), name
    assert m.shape == (*e.shape[:-1], len(streams)) and m.shape[-2] == t.shape[-1], (name, m.shape)
    time_types = {s["times"]["dtype"] for s in streams} | {times}
    a = None
    if age is not None:
        a = tensor("float64" if "float64" in time_types else times, age, column=True)
        assert a.shape == m.shape, (name, a.shape)
    CASES.append(
        {
            "name": name,
            "reason": reason,
            "streams": streams,
            "target_times": t.json(),
            "outside": outside,
            "out_dtype": out_dtype,
            "expected": e.json(),
            "valid": m.json(),
            "age": None if a is None else a.json(),
            "atol": atol,
        }
    )
