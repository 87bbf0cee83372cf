"""Options that commands share, and their exit codes."""

import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from robocache.readers import ReadOptions

EXIT_FOUND = 1  # the command finished, and reports defects or skipped data
EXIT_FAILED = 2  # the command failed

# readable=False: the readers report paths that can't be read, in the format of all errors.
AnyPath = Annotated[
    Path, typer.Argument(metavar="PATH", readable=False, help="A store, or any recording.")
]
StorePath = Annotated[
    Path, typer.Argument(metavar="STORE", readable=False, help="An episode store.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Rate = Annotated[
    float | None,
    typer.Option(metavar="HZ", help="Rows per second of a recording that has no times."),
]
Images = Annotated[
    bool, typer.Option("--images", help="Also decode the images of a recording (takes a while).")
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic",
        metavar="NAME",
        help="Only this stream or topic, and those below it; * and ? match as in a shell. "
        "Repeatable.",
    ),
]

Streams = Annotated[
    list[str] | None,
    typer.Option("--stream", metavar="NAME", help="Only these streams; * and ? match. Repeatable."),
]


def complete_kinds(typed: str) -> list[str]:
    """Shell completions of a comma-separated list of kinds of findings."""
    from robocache.marking.choice import KINDS

    before, comma, last = typed.rpartition(",")
    return [f"{before}{comma}{kind}" for kind in KINDS if kind.startswith(last)]


Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--finding",
        metavar="KIND",
        help="Rows of these findings of check: not_finite, spike, stuck (the default), saturated, "
        "not_unit. Separate by commas; repeatable.",
        autocompletion=complete_kinds,
    ),
]
Stamp = Annotated[
    Literal["header", "received"],
    typer.Option(help="The time of a message: the stamp in its header, or when it was received."),
]
TimeColumn = Annotated[
    str | None, typer.Option(metavar="NAME", help="The column of times in a table.")
]
TimeUnit = Annotated[
    Literal["ns", "us", "ms", "s"] | None, typer.Option(help="The unit of the time column.")
]
MEMORY_LIMIT_GIB = 4.0  # `robocache.readers.limits.MEMORY_LIMIT`, which would import all readers
MemoryLimit = Annotated[
    float,
    typer.Option(
        metavar="GIB", help="Memory that a row or chunk of a recording may take, decompressed."
    ),
]


def read_options(
    rate: Rate = None,
    images: Images = False,
    topic: Topics = None,
    stamp: Stamp = "header",
    time_column: TimeColumn = None,
    time_unit: TimeUnit = None,
    memory_limit: MemoryLimit = MEMORY_LIMIT_GIB,
) -> "ReadOptions":
    """The readers' options from those of the command line."""
    from robocache.readers import ReadOptions

    topics = tuple(topic) if topic else None
    return ReadOptions(
        rate, images, topics=topics, stamp=stamp, time_column=time_column, time_unit=time_unit,
        memory_limit=in_bytes(memory_limit),
    )  # fmt: skip


def in_bytes(gib: float) -> int:
    """A memory limit in bytes; 0, which `ReadOptions` refuses, if it is NaN or infinite."""
    return int(gib * 2**30) if math.isfinite(gib) else 0


def refuse_without_effect(path: Path, options: "ReadOptions") -> None:
    """Refuses options for recordings if the path is a store.

    Raises:
        ValueError: ``--rate: expected a recording, got a store (...)``.
    """
    from robocache.store.manifest import is_store

    if not is_store(path):
        return
    default = read_options()
    for name, why in (
        ("rate", "its rows have times; robocache convert takes --rate"),
        ("images", "its images are decoded"),
        ("stamp", "its times are fixed; robocache convert takes --stamp"),
        ("time_column", "its times are fixed; robocache convert takes --time-column"),
        ("time_unit", "its times are fixed; robocache convert takes --time-unit"),
        ("memory_limit", "its rows are read as they are"),
    ):
        if getattr(options, name) != getattr(default, name):
            option = f"--{name.replace('_', '-')}"
            raise ValueError(f"{option}: expected a recording, got the store {path} ({why})")


def reads(command: Callable[..., None]) -> Callable[..., None]:
    """Decorates a command: the parameters of `read_options` replace its parameter `options`."""
    options = inspect.signature(read_options).parameters

    def run(**arguments: Any) -> None:
        """Calls the command with a `ReadOptions` of the arguments for it."""
        read = read_options(**{name: arguments.pop(name) for name in options})
        refuse_without_effect(arguments["path"], read)
        command(**arguments, options=read)

    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        parameters += options.values() if parameter.name == "options" else [parameter]
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    run.__dict__["__signature__"] = inspect.Signature(parameters)  # typer reads it
    return run
