"""Policy specs that are wrong: what is done to a spec's fields, and what is said of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from robocache.loader.policy_spec import VERSION


def put(*path: str | int, value: Any) -> Callable[[Any], None]:
    def spoil(fields: Any) -> None:
        for step in path[:-1]:
            fields = fields[step]
        fields[path[-1]] = value

    return spoil


def drop(*path: str | int) -> Callable[[Any], None]:
    def spoil(fields: Any) -> None:
        for step in path[:-1]:
            fields = fields[step]
        del fields[path[-1]]

    return spoil


# joints 0, pose 1, force 2, camera 3, gripper 4, state 5, action 6
def relative(stream: str, columns: list[int]) -> dict[str, Any]:
    return {"stream": stream, "columns": columns, "causal": True}


def encoding(**changes: Any) -> dict[str, Any]:
    return {"format": "jpeg", "quality": 90, "chroma": "4:2:0"} | changes


def image(**changes: Any) -> dict[str, Any]:
    fields = {"size": [8, 8], "mode": "pad", "filter": "bilinear", "crop": None, "center": 0.9}
    return fields | changes


def normalized(subtract: Any, multiply: Any) -> dict[str, Any]:
    scale = {"subtract": subtract, "multiply": multiply}
    return {"type": "normalize", "normalization": {"action": scale}}


SPOILED: list[tuple[Callable[[Any], None], str]] = [
    (
        put("robocache_policy_spec", value=VERSION + 1),
        f"robocache_policy_spec: expected version 1 to {VERSION}, which this library reads (it may "
        f"be of a newer one), got {VERSION + 1}",
    ),
    (
        drop("robocache_policy_spec"),
        "robocache_policy_spec: expected a whole number from 0 to 9223372036854775807, got none",
    ),
    (put("more", value=1), f'"more": expected no such field in version {VERSION}, got 1'),
    (
        put("streams", 0, "color", value="red"),
        f'streams[0]."color": expected no such field in version {VERSION}, got "red"',
    ),
    (drop("streams", 0, "offsets"), "streams[0].offsets: expected a list, got none"),
    *(
        (drop(*path), f"{name}: expected a value, or null, got none")
        for path, name in (
            (("rate",), "rate"),
            (("anchor",), "anchor"),
            (("streams", 0, "rate"), "streams[0].rate"),
            (("streams", 0, "max_gap_ns"), "streams[0].max_gap_ns"),
            (("streams", 0, "mean_window_ns"), "streams[0].mean_window_ns"),
            (("streams", 0, "normalization"), "streams[0].normalization"),
            (("streams", 0, "normalize"), "streams[0].normalize"),
            (("streams", 0, "relative_to"), "streams[0].relative_to"),
        )
    ),
    (
        put("streams", 0, "channels", value=["a", "b"]),
        'streams[0].channels: expected null or 7 names, got ["a","b"]',
    ),
    (
        put("streams", 0, "channels", value=[]),
        "streams[0].channels: expected null or 1 name or more, got []",
    ),
    (put("streams", 0, "channels", value="abcdefg"), "streams[0].channels: expected a list, got "),
    (
        put("streams", 0, "channels", value=[1] * 7),
        "streams[0].channels[0]: expected a text, got 1",
    ),
    (put("streams", 0, "units", value=1), "streams[0].units: expected a text or null, got 1"),
    (
        put("streams", 0, "nominal_rate", value=-50),
        "streams[0].nominal_rate: expected null or a rate above 0, got -50",
    ),
    (
        put("streams", 0, "encoding", value=encoding()),
        "streams[0].encoding: expected null for rows that are no images [H,W,C] of U8, C of 1 or "
        '3, H and W at most 4096, got {"chroma":"4:2:0","format":"jpeg","quality":90}',
    ),
    (
        put("streams", 0, "image", value=image()),
        "streams[0].image: expected null for rows that are no images [H,W] or [H,W,C] of U8, U16, "
        'F16 or F32, C at most 4, got {"center":0.9,"crop":null,"filter":"bilinear","mode":"pad",'
        '"size":[8,8]}',
    ),
    (
        put("streams", 3, "image", value=[8, 8]),
        "streams[3].image: expected an object, got [8,8]",
    ),
    (
        put("streams", 3, "image", value=image(size=[8])),
        "streams[3].image.size: expected null or 2 numbers, got [8]",
    ),
    (
        put("streams", 3, "image", value=image(size=[8, 0])),
        "streams[3].image.size[1]: expected 1 to 4096, got 0",
    ),
    (
        put("streams", 3, "image", value=image(size=[4097, 8])),
        "streams[3].image.size[0]: expected 1 to 4096, got 4097",
    ),
    (
        put("streams", 3, "image", value=image(mode="fill")),
        'streams[3].image.mode: expected stretch, pad or crop, got "fill"',
    ),
    (
        put("streams", 3, "image", value=image(filter="bicubic")),
        'streams[3].image.filter: expected bilinear, nearest or masked, got "bicubic"',
    ),
    (
        put("streams", 3, "image", value=image(crop=[0, 0, 1])),
        "streams[3].image.crop: expected null or 4 numbers, got [0,0,1]",
    ),
    (
        put("streams", 3, "image", value=image(crop=[0, 1, 4, 6])),
        "streams[3].image.crop: expected [top,left,height,width] within an image of [4,6], got "
        "[0,1,4,6]",
    ),
    (
        put("streams", 3, "image", value=image(crop=[0, 0, 0, 1])),
        "streams[3].image.crop: expected [top,left,height,width] within an image of [4,6], got "
        "[0,0,0,1]",
    ),
    (
        put("streams", 3, "image", value=image(center=0)),
        "streams[3].image.center: expected a share above 0, at most 1, got 0",
    ),
    (
        put("streams", 3, "image", value=image(center=1.5)),
        "streams[3].image.center: expected a share above 0, at most 1, got 1.5",
    ),
    (
        put("streams", 3, "image", value=image(angle=1)),
        f'streams[3].image."angle": expected no such field in version {VERSION}, got 1',
    ),
    (
        put("streams", 3, "image", value={"size": [8, 8]}),
        "streams[3].image.mode: expected stretch, pad or crop, got none",
    ),
    (
        put("streams", 3, "encoding", value="jpeg"),
        'streams[3].encoding: expected an object, got "jpeg"',
    ),
    (
        put("streams", 3, "encoding", value=encoding(format="png")),
        'streams[3].encoding.format: expected "jpeg", got "png"',
    ),
    (
        put("streams", 3, "encoding", value=encoding(quality=0)),
        "streams[3].encoding.quality: expected 1 to 100, or null, got 0",
    ),
    (
        put("streams", 3, "encoding", value=encoding(quality=101)),
        "streams[3].encoding.quality: expected a whole number from 0 to 100, got 101",
    ),
    (
        put("streams", 3, "encoding", value=encoding(chroma="4:1:1")),
        'streams[3].encoding.chroma: expected 4:0:0, 4:4:4, 4:2:2, 4:4:0 or 4:2:0, got "4:1:1"',
    ),
    (
        put("streams", 3, "encoding", value=encoding(chroma="4:0:0")),
        'streams[3].encoding: expected chroma "4:0:0" with 1 channel, and another one with 3, got '
        '{"chroma":"4:0:0",',
    ),
    (
        put("streams", 3, "encoding", value=encoding(speed=1)),
        f'streams[3].encoding."speed": expected no such field in version {VERSION}, got 1',
    ),
    (
        put("streams", 3, "encoding", value={"format": "jpeg", "quality": 90}),
        "streams[3].encoding.chroma: expected a value, or null, got none",
    ),
    (put("library", value=1), "library: expected a text, got 1"),
    (put("anchor", value=None), "anchor: expected a stream, or null with a rate, got null"),
    (put("rate", value=-1.0), "rate: expected null or a rate above 0, got -1.0"),
    (put("with_age", value=0), "with_age: expected true or false, got 0"),
    (put("streams", value=[]), "streams: expected 1 to 64 streams, got []"),
    (
        put("streams", 1, "name", value="joints"),
        'streams[1].name: expected each name once, got "joints"',
    ),
    (
        put("streams", 0, "dtype", value="F31"),
        "streams[0].dtype: expected BOOL, U8, I8, U16, I16, U32, I32, U64, I64, F16, BF16, F32 or "
        'F64, got "F31"',
    ),
    (
        put("streams", 0, "shape", value=[8]),
        "streams[0].normalization.subtract: expected 1 or 8 numbers, got [0.3333333333333333,",
    ),
    (
        put("streams", 4, "shape", value=[2**31, 2**31]),
        "streams[4].shape: expected a row of at most 2^26 elements, got [2147483648,2147483648]",
    ),
    (
        put("streams", 0, "offsets", value=[]),
        "streams[0].offsets: expected 1 offset or more, got []",
    ),
    (
        put("streams", 0, "offsets", 1, value=0.5),
        "streams[0].offsets[1]: expected a whole number of 64 bits, got 0.5",
    ),
    (
        put("streams", 5, "offsets", 0, value=-(2**31)),
        "streams[5].offsets: expected rows below 2^31, got [-2147483648",
    ),
    (
        put("streams", 0, "has_axis", value=False),
        "streams[0].has_axis: expected true with several offsets, got false",
    ),
    (
        put("streams", 0, "causal", value=False),
        "streams[0].causal: expected true without offsets past the anchor (no robot has the rows "
        "that others saw), got false",
    ),
    (
        put("streams", 5, "causal", value=True),
        'streams[5].causal: expected false with timeline "rows", got true',
    ),
    (
        put("streams", 0, "offsets", 2, value=5),
        "streams[0].causal: expected false with offsets past the anchor, got true",
    ),
    (
        put("streams", 0, "method", value=[["linear", 6]]),
        'streams[0].method: expected runs that sum to the row\'s 7 elements, got [["linear",6]]',
    ),
    (
        put("streams", 4, "method", value="linear"),
        'streams[4].method: expected "previous" or "nearest" for rows that are copied, got '
        '"linear"',
    ),
    (
        put("streams", 0, "outside", value="wrap"),
        'streams[0].outside: expected hold, zero, nan or extrapolate, got "wrap"',
    ),
    (
        put("streams", 0, "latency_ns", value=-1),
        "streams[0].latency_ns: expected a whole number from 0 to 9223372036854775807, got -1",
    ),
    (
        put("streams", 2, "mean_window_ns", value=None),
        'streams[2].mean_window_ns: expected nanoseconds with method "mean", got null',
    ),
    (
        put("streams", 0, "mean_window_ns", value=1),
        'streams[0].mean_window_ns: expected null without method "mean", got 1',
    ),
    (
        put("streams", 0, "normalization", "multiply", 3, value=math.inf),
        'expected JSON, got "Infinity',
    ),
    (
        put("streams", 0, "normalization", "subtract", value=[1.0, 2.0]),
        "streams[0].normalization.subtract: expected 1 or 7 numbers, got [1.0,2.0]",
    ),
    (
        put("streams", 4, "out_dtype", value="F32"),
        'streams[4].out_dtype: expected "BOOL", since such rows are copied, got "F32"',
    ),
    (
        put("streams", 0, "out_dtype", value="I32"),
        'streams[0].out_dtype: expected U8, F16, BF16, F32 or F64, got "I32"',
    ),
    (
        put("streams", 0, "channels_first", value=True),
        "streams[0].channels_first: expected false for rows that are no images [H,W,C] of U8, C at "
        "most 4, got true",
    ),
    (
        put("streams", 3, "normalization", value=None),
        "streams[3].normalization: expected a normalization with channels_first, got null",
    ),
    (
        put("streams", 6, "relative_to", value=relative("nobody", [0] * 5)),
        'streams[6].relative_to.stream: expected the name of a stream, got "nobody"',
    ),
    (
        put("streams", 6, "relative_to", value=relative("", [0] * 5)),
        "streams[6].relative_to.stream: expected a name without control characters, other than "
        '"episode"',
    ),
    (
        put("streams", 6, "relative_to", value=relative("action", [0] * 5)),
        "streams[6].relative_to.stream: expected a stream that is not relative itself, got "
        '"action"',
    ),
    (
        put("streams", 5, "relative_to", value=relative("state", [0] * 3)),
        'streams[5].relative_to.stream: expected a stream that is not relative itself, got "state"',
    ),
    (
        put("streams", 6, "relative_to", value=relative("gripper", [0] * 5)),
        "streams[6].relative_to.stream: expected a stream of float16, bfloat16, float32, float64 "
        'or uint8, got "gripper"',
    ),
    (
        put("streams", 6, "relative_to", value=relative("state", [0, 1, 2, 3, -1])),
        'streams[6].relative_to.columns: expected -1 to 2, the elements of "state", got ',
    ),
    (
        put("streams", 6, "relative_to", value=relative("state", [0])),
        "streams[6].relative_to.columns: expected 5, one for each element, got [0]",
    ),
    (
        put("concat", "obs", 1, value="nobody"),
        "concat['obs']: expected names of streams, got 'nobody'",
    ),
    (
        put("concat", "obs", 1, value="force"),
        "concat['obs']: expected float32 like 'joints', got float64 of 'force' ("
        "rc.Window(dtype=) changes it)",
    ),
    (
        put("concat", value={"action": ["joints"]}),
        "streams: expected keys of the output that differ, got 'action' twice",
    ),
    (put("transforms", value=["a"]), 'transforms[0]: expected an object, got "a"'),
    (
        put("transforms", value=[normalized([[1, 2], [3]], [1])]),
        'transforms[0].normalization."action".subtract[1]: expected lists of one length, got [3]',
    ),
    (
        put("transforms", value=[normalized([1, [2]], [1, 2])]),
        'transforms[0].normalization."action".subtract[1]: expected lists of one length, got [2]',
    ),
    (
        put("transforms", value=[normalized([[1], 2], [1, 2])]),
        'transforms[0].normalization."action".subtract[1]: expected a list, as beside it, got 2',
    ),
    (
        put("transforms", value=[normalized([1, 2], [1])]),
        'transforms[0].normalization."action".multiply: expected as many numbers as to subtract, ',
    ),
    (
        put("transforms", value=[normalized([1, 2], [1, 2])]),
        "transforms[0].normalization['action']: expected a shape that fits the end of rows [5], "
        "got [2]",
    ),
]
# Fields that contradict each other
BEYOND_A_SCHEMA = [
    spoil
    for spoil, message in SPOILED
    if any(
        words in message
        for words in (
            "null with a rate", "each name once", "1 or ", "2^31", "several offsets", "the anchor",
            '"rows"', "that sum", "are copied", '"mean"', '"Infinity', "or F64, got "
            '"I32"', "channels_first", "relative_to", "concat[", "2^26",
            "lists of one length", "that differ", "as beside it", "as to subtract", "fits the end",
            "or 7 names", "4096", "1 channel", "C at most 4", "within an image",
        )
    )
]  # fmt: skip
