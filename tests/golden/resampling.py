"""Cases of one stream, as `resample_trajectories` takes it: what cases.json holds."""

from __future__ import annotations

from typing import Any

from encoding import tensor

CASES: list[dict[str, Any]] = []


def case(
    name: str,
    reason: str,
    values: Any,
    source_times: Any,
    target_times: Any,
    expected: Any,
    valid: Any,
    *,
    dtype: str = "float32",
    times: str = "int64",
    target_dtype: str | None = None,
    method: str | list[tuple[str, int]] = "linear",
    outside: str = "hold",
    max_gap: float | None = None,
    tolerance: float = 0,
    lengths: Any = None,
    lengths_dtype: str = "int64",
    source_valid: Any = None,
    subtract: Any = None,
    subtract_dtype: str = "float32",
    multiply: Any = None,
    multiply_dtype: str = "float32",
    out_dtype: str | None = None,
    atol: float = 0,
) -> None:
    assert all(c["name"] != name for c in CASES), name
    assert name.replace("_", "").isalnum() and name == name.lower(), name
    v = tensor(dtype, values, column=True)
    s = tensor(times, source_times)
    t = tensor(target_dtype or times, target_times)
    channels = v.shape[-1]
    layout = [(method, channels)] if isinstance(method, str) else method
    assert sum(width for _, width in layout) == channels, name
    e = tensor(out_dtype or dtype, expected, column=True, exact=atol == 0)
    m = tensor("bool", valid)
    assert e.shape[:-1] == m.shape and e.shape[-1] == channels, (name, e.shape, m.shape)
    assert m.shape[-1] == t.shape[-1] and v.shape[-2] == s.shape[-1], name
    number = int if times == "int64" else float

    def optional(kind: str, nested: Any) -> Any:
        return None if nested is None else tensor(kind, nested).json()

    CASES.append(
        {
            "name": name,
            "reason": reason,
            "values": v.json(),
            "source_times": s.json(),
            "target_times": t.json(),
            "source_lengths": optional(lengths_dtype, lengths),
            "source_valid": optional("bool", source_valid),
            "subtract": optional(subtract_dtype, subtract),
            "multiply": optional(multiply_dtype, multiply),
            "layout": [list(run) for run in layout],
            "outside": outside,
            "max_gap": None if max_gap is None else number(max_gap),
            "tolerance": number(tolerance),
            "out_dtype": out_dtype,
            "expected": e.json(),
            "valid": m.json(),
            "atol": atol,
        }
    )
