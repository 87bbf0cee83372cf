"""`RecordingError`, the conversion of other errors to it, and helpers that word its messages."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path


class RecordingError(ValueError):
    """A recording that cannot be read: ``path: expected X, got Y``."""


@contextlib.contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Converts exceptions of parsers to a RecordingError: ``path: expected {what}, got ...``.

    Libraries raise exceptions of any type for damaged or hostile bytes, so all of them are
    converted; the message names the type, and the exception is the cause of the error. These
    exceptions are not converted: MemoryError, KeyboardInterrupt, ImportError (a missing library),
    and AssertionError and NameError from RoboCache's code, which are bugs that no recording causes.

    If `path` is a Git LFS pointer, or a folder that contains one, the error reports the pointer.
    """
    try:
        yield
    except RecordingError as error:
        if _LFS_POINTER not in str(error):
            refuse_pointer(path, what, error)
        raise
    except FileNotFoundError as error:
        if error.filename is not None and Path(os.fsdecode(error.filename)) != path:
            raise RecordingError(f"{path}: expected {what}, got no {error.filename}") from error
        raise RecordingError(
            f"{path}: expected {what}, got no such file{hub_hint(path)}"
        ) from error
    except PermissionError as error:
        raise RecordingError(f"{path}: expected {what}, got permission denied") from error
    except (MemoryError, ImportError):
        raise
    except Exception as error:
        if isinstance(error, (AssertionError, NameError)) and _is_from_robocache(error):
            raise
        refuse_pointer(path, what, error)
        text = " ".join(str(error).split()) or "no reason"
        if len(text) > _MAX_TEXT:
            text = f"{text[:_MAX_TEXT]}..."
        kind = type(error).__name__
        raise RecordingError(f"{path}: expected {what}, got {kind}: {text}") from error


_MAX_TEXT = 1000  # characters of a library's message: some quote all of the data they parse


def _is_from_robocache(error: Exception) -> bool:
    """Whether an exception was raised in RoboCache's code, not in a library."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and str(trace.tb_frame.f_globals.get("__name__")).startswith(
        "robocache."
    )


def refuse_pointer(path: Path, what: str, cause: Exception | None = None) -> None:
    """Raises for a Git LFS pointer, which stands for a file that ``git lfs pull`` has not fetched.

    Raises:
        RecordingError: If `path` is a pointer, or a folder with one in its first 10,000 entries.
    """
    pointer = _find_pointer(path)
    if pointer is not None:
        raise RecordingError(f"{pointer}: expected {what}, got {_LFS_POINTER}") from cause


_LFS_POINTER = "a Git LFS pointer (git lfs pull downloads the file itself)"

_POINTER_HEAD = b"version https://git-lfs.github.com/spec/"


def _find_pointer(path: Path) -> Path | None:
    try:
        files = itertools.islice(path.rglob("*"), 10_000) if path.is_dir() else [path]
        return next((file for file in files if is_pointer(file)), None)
    except OSError:  # the reader reports files that it may not read
        return None


def is_pointer(path: Path) -> bool:
    """Whether a file is a Git LFS pointer."""
    return (
        path.is_file()
        and path.stat().st_size <= 1024
        and (head(path, len(_POINTER_HEAD)) == _POINTER_HEAD)
    )


def refuse_duplicates(path: object, what: str, names: Iterable[str]) -> None:
    """Raises for names that occur more than once.

    Raises:
        RecordingError: ``path: expected {what} of different names, got a twice``.
    """
    counts = Counter(names)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise RecordingError(
            f"{path}: expected {what} of different names, got {', '.join(duplicates)} twice"
        )


def shortened(value: object) -> str:
    """The first 60 characters of a value's repr, for messages."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more than 4,300 digits, or nested deeply
        return f"{type(value).__name__} of great length"
    return text if len(text) <= 60 else f"{text[:60]}..."


def head(path: Path, count: int = 16) -> bytes:
    """The first bytes of a regular file; empty for a folder or a special file."""
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        return file.read(count)


def hub_hint(source: object) -> str:
    """The command that downloads a data set of Hugging Face's Hub, if `source` looks like an id."""
    owner, _, name = str(source).partition("/")
    looks_like_id = re.fullmatch(r"[A-Za-z0-9][\w.-]*/[\w.-]+", str(source))
    if not looks_like_id or re.search(r"\.[A-Za-z]\w*$", name) or Path(owner).exists():
        return ""
    return (
        " (a data set of the Hub is downloaded first: hf download --repo-type dataset "
        f"{source} --local-dir {name})"
    )


def describe(path: Path) -> str:
    """Describes a path for messages: ``a folder with a, b``, ``a file that begins with ...``."""
    pointer = _find_pointer(path)
    if pointer is not None:
        where = "" if pointer == path else f"a folder with {pointer.relative_to(path)}, "
        return where + _LFS_POINTER
    if path.is_dir():
        names = sorted(entry.name for entry in path.iterdir())
        if not names:
            return "an empty folder"
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        return f"a folder with {', '.join(names[:4])}{more}"
    if not path.is_file():
        return "a special file" if path.exists() else "no such file"
    start = head(path, 8)
    return f"a file that begins with {start!r}" if start else "an empty file"
