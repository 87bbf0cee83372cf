"""Exit after Ctrl-C; a module without imports, because `main` loads it before the commands."""

EXIT_INTERRUPTED = 130  # the shells' convention: 128 plus the signal's number


class Interrupted(SystemExit):
    """Ends the program after Ctrl-C; the command has printed its message."""

    def __init__(self) -> None:
        super().__init__(EXIT_INTERRUPTED)
