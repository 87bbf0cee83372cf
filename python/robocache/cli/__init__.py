"""The command line `robocache`. Each command calls a function of the package."""

import signal
import sys
from typing import NoReturn

from robocache.cli.interrupted import EXIT_INTERRUPTED, Interrupted

__all__ = ["main"]


def main() -> NoReturn:
    """Runs `robocache`. Ctrl-C ends it with one line on stderr and exit code 130, at any time."""
    try:
        # Loading the commands takes a tenth of a second, during which Ctrl-C may come too.
        from robocache.cli.program import run

        run()
    except Interrupted:
        _ignore_interrupts()
        raise
    except (KeyboardInterrupt, SystemExit) as end:
        # typer turns a KeyboardInterrupt into a SystemExit with code 130.
        if isinstance(end, SystemExit) and end.code != EXIT_INTERRUPTED:
            raise
        _ignore_interrupts()
        print("robocache: interrupted", file=sys.stderr)
        raise SystemExit(EXIT_INTERRUPTED) from None


def _ignore_interrupts() -> None:
    """Ignores further Ctrl-C, for which Python's exit handlers would print tracebacks."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
