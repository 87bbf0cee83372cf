"""`robocache check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from rich.text import Text

from robocache.cli.console import counted, out, print_json, say
from robocache.cli.wrapping import cells, shortened, wrap
from robocache.core.progress import progress_bar
from robocache.doctor import Diagnosis, Finding, examine
from robocache.doctor.finding import SEVERITIES
from robocache.doctor.groups import Group, grouped
from robocache.readers import ReadOptions

SCREEN = 24  # lines, the summary among them
MOST_STREAMS = 4  # with the same finding, that are listed
MOST_TEXTS = 3  # of a group whose findings name no stream, such as a reader's notes
LEAST_NAME = 12  # columns to which a name may be shortened
INDENT = 8
COLORS = {"error": "bold red", "warning": "yellow", "info": "cyan"}


def run(path: Path, options: ReadOptions, strict: bool, everything: bool, as_json: bool) -> bool:
    """Prints the findings; returns whether none of them fails the command."""
    with progress_bar("checking", not as_json) as update:
        found = examine(path, options, update)
    if as_json:
        print_json(found.as_json())
    elif everything:
        print_all(found)
    else:
        print_screen(found)
    return not found.count("error") and not (strict and found.count("warning"))


def print_screen(found: Diagnosis) -> None:
    """Prints at most a screen: a line for each group, and the details of the worst."""
    console, groups = out(), grouped(found.findings)
    details = [_details(group, console.width) for group in groups]
    summary = wrap(_summary(found), console.width)
    left = SCREEN - 1 - len(summary)  # the hint is a line
    shown = min(len(groups), left)
    left -= shown
    is_whole = shown == len(groups) and not any(_is_shortened(group) for group in groups)
    for group, lines in zip(groups[:shown], details, strict=False):
        console.print(_head(group, console.width), soft_wrap=True)
        if len(lines) > left:  # less severe groups get no details either
            left, is_whole = 0, False
            continue
        left -= len(lines)
        for line in lines:
            console.print(line, soft_wrap=True)
    if not is_whole:
        say(console, f"--all lists all {len(found.findings):,} findings", style="dim")
    say(console, "\n".join(summary))


def print_all(found: Diagnosis) -> None:
    """Prints every finding, in groups; an advice that findings share is printed once."""
    console = out()
    for group in grouped(found.findings):
        head = Text(f"{group.severity:{INDENT}}", COLORS[group.severity])
        head.append(group.kind, "default")
        findings = group.findings + group.explained
        head.append(f"  {counted(len(findings), 'finding')}", "default")
        console.print(head, soft_wrap=True)
        for advice, alike in groupby(findings, key=lambda finding: finding.advice):
            for finding in alike:
                say(console, _in_full(finding, group.kind), INDENT)
            say(console, f"-> {advice}", INDENT, "dim")
    say(console, _summary(found))


def _summary(found: Diagnosis) -> str:
    counts = ", ".join(
        counted(found.count(severity), severity)
        for severity in SEVERITIES
        if severity != "info" or found.count(severity)
    )
    return f"{found.path}: {found.format}, {counted(found.episodes, 'episode')}: {counts}"


# ---- groups --------------------------------------------------------------------------------------


def _head(group: Group, width: int) -> Text:
    """One line: severity, kind, streams, episodes; on a narrow terminal counts of them."""
    first, more = _first_episode(group), len(group.episodes) - 1
    places = [f"{first}, and {counted(more, 'more episode')}", f"{more + 1} episodes"]
    for place in places if more > 0 else [first]:
        left = width - INDENT - len(group.kind) - 2 - bool(place) * (2 + len(place))
        names = _listed(group.streams, left)
        if names is not None:
            break
    if not group.streams and len(group.findings) > 1 and more < len(group.findings) - 1:
        names = counted(len(group.findings), "finding")
    head = Text(f"{group.severity:{INDENT}}", COLORS[group.severity], end="")
    head.append(group.kind, "default")
    if names != "":
        head.append("  ").append(names or counted(len(group.streams), "stream"), "default bold")
    head.append(f"  {place}" if place else "", "default")
    head.truncate(width, overflow="ellipsis")
    return head


def _details(group: Group, width: int) -> list[Text]:
    """The lines below the head: the finding, the findings that it explains, and the advice."""
    lines = [Text(line) for text in _texts(group) for line in wrap(text, width, INDENT)]
    if group.explained:
        (first, count), *others = Counter(one.kind for one in group.explained).items()
        text = f"explains {counted(count, 'finding')} of {first}"
        text += "".join(f", {count:,} of {kind}" for kind, count in others)
        lines += [Text(line) for line in wrap(text, width, INDENT)]
    advice = _example(group).advice
    return lines + [Text(line, "dim") for line in wrap(f"-> {advice}", width, INDENT)]


def _texts(group: Group) -> Iterator[str]:
    texts = list(dict.fromkeys(finding.text for finding in group.findings))
    if len(texts) == 1:
        yield texts[0]
    elif not group.streams:
        yield from texts[:MOST_TEXTS]
        if len(texts) > MOST_TEXTS:
            yield f"and {len(texts) - MOST_TEXTS:,} more"
    else:
        example = _example(group)
        words = [example.stream] if example.stream and len(group.streams) > 1 else []
        if example.episode is not None and len(group.episodes) > 1:
            words.append(f"episode {example.episode}")
        where = f" {', '.join(words)}" if words else ""
        yield f"such as{where}: {example.text}"


def _example(group: Group) -> Finding:
    """The finding that represents its group: the one with the highest count."""
    return max(group.findings, key=lambda finding: finding.count)


def _is_shortened(group: Group) -> bool:
    """Whether the details leave out findings whose text or place differs from those shown."""
    texts = {finding.text for finding in group.findings}
    most = 1 if group.streams else MOST_TEXTS
    return bool(
        group.explained
        or len(texts) > most
        or len(group.episodes) > 1
        or len(group.streams) > MOST_STREAMS
    )


def _first_episode(group: Group) -> str:
    """The place of the earliest finding that names an episode; empty if none does."""
    named = [finding for finding in group.findings if finding.episode is not None]
    if not named:
        return ""
    return _place(min(named, key=lambda one: (one.episode or 0, one.time_s or 0.0)))


def _place(finding: Finding) -> str:
    place = f"episode {finding.episode}"
    return place if finding.time_s is None else f"{place} at {finding.time_s:.3f} s"


def _listed(names: list[str], width: int) -> str | None:
    """As many names as fit, and the number of others; None if not one fits."""
    if len(names) == 1:
        return shortened(names[0], max(width, LEAST_NAME))
    for shown in range(min(len(names), MOST_STREAMS), 0, -1):
        more = f" and {len(names) - shown:,} more" if len(names) > shown else ""
        text = ", ".join(names[:shown]) + more
        if cells(text) <= width:
            return text
    if names and width - len(more) >= LEAST_NAME:
        return shortened(names[0], width - len(more)) + more
    return None if names else ""


def _in_full(finding: Finding, kind: str) -> str:
    """One finding in words; with its kind if that differs from its group's."""
    words = [] if finding.episode is None else [_place(finding)]
    if finding.stream is not None:
        words.append(finding.stream)
    text = finding.text if finding.kind == kind else f"{finding.kind}: {finding.text}"
    return f"{', '.join(words)}: {text}" if words else text
