"""The base of rules that look for clients which a group does not accept."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import msgspec

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_group
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.common import some_of
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.of_groups import NO_GROUPS
from captures.analysis.findings.rule import Rule, RuleContext
from captures.analysis.groups.calls import OF_MEMBERS, group_of
from captures.arrays import Bools
from captures.exchanges import Exchange
from captures.meaning import words
from captures.meaning.exchange import items, rows, text
from dissectors.error_codes import error_name

MOST_SEEN = 20
"""Most clients, instance IDs and protocols that are named for one group."""


class RefusedCalls(msgspec.Struct):
    """Calls to one group that failed with one error.

    :ivar clients: client IDs, or addresses
    :ivar members: member IDs, if they had one
    :ivar instances: their group.instance.ids
    :ivar offered: assignors that they support, one text for each combination
    """

    seen: Occurrences = msgspec.field(default_factory=Occurrences)
    clients: set[str] = set()
    members: set[str] = set()
    instances: set[str] = set()
    offered: set[str] = set()


class RefusedMembers(Rule):
    """Counts calls of members that fail with certain errors, by group.

    :cvar codes: the errors
    """

    severity = Severity.HIGH
    apis = OF_MEMBERS
    codes: ClassVar[frozenset[int]] = frozenset()
    unseen = NO_GROUPS

    def __init__(self, context: RuleContext) -> None:
        super().__init__(context)
        self._refused: dict[tuple[str, int], RefusedCalls] = {}

    def deciding(self, rows: DecisionColumns) -> Bools | None:
        """Return a mask of the calls with these errors, and of evidence that calls exist."""
        return rows.with_errors(self.codes) | rows.evidence_of(rows.of_api(OF_MEMBERS))

    def add(self, exchange: Exchange) -> None:
        self.saw_any = True
        code = next((error.code for error in exchange.errors if error.code in self.codes), 0)
        group = group_of(exchange) if code else ""
        if not group:
            return
        refused = self._refused.setdefault((group, code), RefusedCalls())
        refused.seen.add(exchange)
        request = exchange.request_body
        _note(refused.clients, client_name(exchange))
        _note(refused.members, text(request, "member_id"))
        instance = request.get("group_instance_id") or request.get("instance_id")
        if isinstance(instance, str):
            _note(refused.instances, instance)
        names = [text(row, "name") for row in rows(request, "protocols")]
        _note(
            refused.offered, " ".join(filter(None, names)) or " ".join(map(str, items(request, "protocols")))
        )

    def findings(self) -> Iterator[Finding]:
        """Yield one finding for each group and error."""
        for (group, code), refused in self._refused.items():
            yield self.finding(
                f"group {group}, {error_name(code)}",
                self.sentence(words.line(group), code, refused),
                self.advice(code),
                refused.seen,
                filter_text=f"{of_group(group)} and error.any == {error_name(code)}",
                severity=self.how_grave(code, refused),
            )

    def sentence(self, group: str, code: int, refused: RefusedCalls) -> str:
        raise NotImplementedError

    def advice(self, code: int) -> str:
        """Return what to do about an error."""
        raise NotImplementedError

    def how_grave(self, code: int, refused: RefusedCalls) -> Severity:
        return self.severity


def _note(known: set[str], name: str) -> None:
    if name and len(known) < MOST_SEEN:
        known.add(name)


def listed(names: set[str]) -> str:
    """Return some names, fit for a sentence."""
    return some_of(sorted(words.clipped(words.line(name), 60) for name in names))
