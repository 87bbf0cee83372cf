"""The end of a program that Ctrl-C interrupted: apart, since it is loaded before all else."""

EXIT_INTERRUPTED = 130  # as shells have it: 128 and the signal's number


class Interrupted(SystemExit):
    """Ends the program after its command printed the line."""

    def __init__(self) -> None:
        super().__init__(EXIT_INTERRUPTED)
