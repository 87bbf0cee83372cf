"""`robocache check`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape

from robocache.cli.console import counted, out, print_json, say
from robocache.doctor import Diagnosis, Finding, examine
from robocache.doctor.finding import SEVERITIES
from robocache.progress import progress_bar
from robocache.readers import ReadOptions

MOST_STREAMS = 4  # that are listed of those with the same finding
COLOURS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def run(path: Path, options: ReadOptions, strict: bool, as_json: bool) -> bool:
    """Prints the findings; whether there are none that fail the command."""
    with progress_bar("checking", not as_json) as update:
        found = examine(path, options, update)
    if as_json:
        print_json(found.as_json())
    else:
        print_findings(found)
    return not found.count("error") and not (strict and found.count("warning"))


def print_findings(found: Diagnosis) -> None:
    """Findings of one kind on one stream together, by their first episode."""
    console = out()
    groups: dict[tuple[str, str, str | None], list[Finding]] = {}
    for finding in found.findings:
        key = (finding.severity, finding.kind, finding.stream)
        if finding.kind in ("reader", "checksum", "unreadable"):  # each says something else
            key = (finding.severity, finding.kind, finding.text)
        groups.setdefault(key, []).append(finding)
    # What is said of several streams in the same words (the fields of a message) is said once.
    alike: dict[tuple[str, ...], list[list[Finding]]] = {}
    for group in groups.values():
        alike.setdefault(
            (group[0].severity, group[0].kind, where(group), group[0].text), []
        ).append(group)
    for (severity, kind, place, text), streams in alike.items():
        names = [group[0].stream for group in streams if group[0].stream is not None]
        listed = escape(", ".join(names[:MOST_STREAMS]))
        if len(names) > MOST_STREAMS:
            listed += f" and {len(names) - MOST_STREAMS} more"
        stream = f"  [bold]{listed}[/]" if listed else ""
        console.print(f"[{COLOURS[severity]}]{severity:8}[/]{kind}{stream}{place}")
        say(console, text, indent=8)
        say(console, f"-> {streams[0][0].advice}", indent=8, style="dim")
    counts = ", ".join(
        counted(found.count(severity), severity)
        for severity in SEVERITIES
        if severity != "info" or found.count(severity)
    )
    say(console, f"{found.path}: {found.format}, {counted(found.episodes, 'episode')}: {counts}")


def where(group: Sequence[Finding]) -> str:
    """The episodes of a group, in words."""
    episodes = sorted({finding.episode for finding in group if finding.episode is not None})
    if not episodes:
        return ""
    first = group[0]
    text = f"  episode {first.episode}"
    if first.time_s is not None:
        text += f" at {first.time_s:.3f} s"
    if len(episodes) > 1:
        text += f", and {counted(len(episodes) - 1, 'more episode')}"
    return text
