"""The program `robocache`: runs a command and prints an error as one line."""

import sys
from typing import NoReturn

from robocache.cli.app import app
from robocache.cli.options import EXIT_FAILED
from robocache.cli.wrapping import width_of, wrap
from robocache.core.display import printable
from robocache.core.extras import problem_without_torch


def _fail(problem: str) -> NoReturn:
    text = printable(f"robocache: {problem}", keep="\n")
    print("\n".join(wrap(text, width_of(sys.stderr))), file=sys.stderr)
    raise SystemExit(EXIT_FAILED) from None


def run() -> NoReturn:
    """Runs `robocache`; an error prints one line on stderr, wrapped on a terminal, and exits 2."""
    try:
        app(prog_name="robocache", standalone_mode=True)
    except OSError as error:
        named = error.filename is not None and error.strerror is not None
        _fail(f"{error.filename}: {error.strerror}" if named else str(error) or "OSError")
    except (ValueError, ImportError) as error:
        _fail(problem_without_torch(error) or str(error) or type(error).__name__)
    except MemoryError as error:
        _fail(f"not enough memory: {error or 'the system has no more'}")
    raise SystemExit(0)
