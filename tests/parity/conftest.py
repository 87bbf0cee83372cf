"""After the tests: the table of what was compared, beside the README's."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import comparing
import pytest

OPTION = "--write-table"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="write the table into README.md")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.section("compared index by index")
    terminalreporter.write_line(comparing.table())


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A whole run that passed decides about the README."""
    asked = [Path(argument).resolve() for argument in session.config.args]
    is_part = asked != [Path(__file__).parent] or session.config.option.keyword
    if exitstatus != 0 or (is_part and not session.config.getoption(OPTION)):
        return
    text = comparing.README.read_text()
    found = comparing.between_markers(text)
    if session.config.getoption(OPTION):
        comparing.README.write_text(
            text[: found.start()] + comparing.table() + "\n\n" + text[found.end() :].lstrip()
        )
    elif found[0] != comparing.table():
        reporter = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.write_line(
            "\nREADME.md: expected the table below "
            "(make parity PARITY_OPTIONS=--write-table writes it)"
        )
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
