"""Findings by their cause, worst first: the order in which a user reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from robocache.doctor.finding import SEVERITIES, Finding, Severity


@dataclass
class Group:
    """Findings of one kind and severity, and those that they explain."""

    kind: str
    severity: Severity
    findings: list[Finding] = field(default_factory=list)
    explained: list[Finding] = field(default_factory=list)
    """Findings of other kinds whose `cause` is this kind."""

    @property
    def streams(self) -> list[str]:
        """The streams that the findings name, in their order."""
        named = (finding.stream for finding in self.findings if finding.stream is not None)
        return list(dict.fromkeys(named))

    @property
    def episodes(self) -> list[int]:
        """The episodes that the findings name, ascending."""
        return sorted({one.episode for one in self.findings if one.episode is not None})

    @property
    def extent(self) -> int:
        """The number of streams of episodes concerned, counted once per finding."""
        return sum(max(1, len(one.streams)) for one in self.findings) + len(self.explained)


def grouped(findings: Sequence[Finding]) -> list[Group]:
    """The findings by severity and kind, errors first, then those of the largest extent.

    A finding with a `cause` is in the group of that kind, regardless of its severity.
    """
    groups: dict[tuple[str, str], Group] = {}
    for finding in findings:
        if finding.cause is None:
            _group(groups, finding).findings.append(finding)
    causes: dict[str, Group] = {}
    for group in sorted(groups.values(), key=lambda group: SEVERITIES.index(group.severity)):
        causes.setdefault(group.kind, group)
    for finding in findings:
        if finding.cause in causes:
            causes[finding.cause].explained.append(finding)
        elif finding.cause is not None:
            _group(groups, finding).findings.append(finding)
    return sorted(
        groups.values(), key=lambda group: (SEVERITIES.index(group.severity), -group.extent)
    )


def _group(groups: dict[tuple[str, str], Group], finding: Finding) -> Group:
    key = (finding.severity, finding.kind)
    return groups.setdefault(key, Group(finding.kind, finding.severity))
