"""Commands run on a pseudo-terminal of a given width."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios


def on_terminal(width: int, *arguments: object) -> tuple[int, list[str]]:
    """The exit code of a command on a terminal of so many columns, and the lines that it shows."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    command = [sys.executable, "-m", "robocache", *map(str, arguments)]
    environment = {**os.environ, "TERM": "dumb"}
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment) as process:
        os.close(its)
        shown = b""
        while True:
            try:
                part = os.read(ours, 1 << 16)
            except OSError:  # nobody has the terminal open any more
                break
            shown += part
    os.close(ours)
    return process.returncode, shown.decode().replace("\r\n", "\n").strip("\n").split("\n")
