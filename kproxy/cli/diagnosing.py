"""What commands that diagnose have in common: rules and thresholds by their names, findings as they come up, and the
diagnosis that continues beside what ``kproxy proxy`` and ``kproxy sniff`` show.

A capture that grows is judged where its exchanges are decoded, never where bytes are forwarded; and so seldom that it
takes a small share of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import tzinfo

import click

from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rule_selection import UnknownRuleError, chosen, limits
from captures.analysis.groups.reading import pending_calls
from captures.exchanges import Capture, Exchange, ExchangeReader
from dissectors.session_context import SessionContext
from kproxy.notices import notice
from kproxy.pace import Pace
from kproxy.printing import echo
from kproxy.text.findings import FindingsText, verdict

_EVERY = 1.0  # seconds between two looks at what was found
_GROWN = 10
_DIAGNOSIS = "the diagnosis"
"""What is being done, for faults."""


def rules_and_limits(
    only: Sequence[str], without: Sequence[str], settings: Sequence[str]
) -> tuple[list[type[Rule]], dict[str, float]]:
    """Return the rules and thresholds of ``--only``, ``--skip`` and ``--set``.

    :raises click.UsageError: if there is no such rule or threshold, or no rule is left
    """
    try:
        rules = chosen(RULES, only, without)
        found = limits(RULES, settings)
    except UnknownRuleError as error:
        raise click.UsageError(
            f"{error}\nkproxy diagnose --list has the rules and their thresholds"
        ) from None
    if not rules and (only or without):
        raise click.UsageError("--only and --skip leave no rule to run")
    return rules, found


class LiveFindings:
    """Tells findings of a capture that grows: each when it is first seen, graver, or seen ten times as often.

    :param diagnosis: gets the exchanges from the code that reads the capture
    :param knowledge: of the reader that decodes them
    :param tell: called with each finding to report
    :param least: what is less grave is not told
    :param whole: whether the diagnosis is shown all exchanges, so that those that wait for an answer belong to it too
    """

    def __init__(
        self,
        diagnosis: Diagnosis,
        capture: Capture,
        knowledge: SessionContext,
        tell: Callable[[Finding], None],
        *,
        least: Severity = Severity.INFO,
        whole: bool = True,
    ) -> None:
        self._diagnosis = diagnosis
        self._capture = capture
        self._knowledge = knowledge
        self._tell = tell
        self._least = least
        self._whole = whole
        self._told: dict[tuple[str, str], tuple[Severity, int]] = {}
        self._pace = Pace(_EVERY)

    def tell(self) -> None:
        """Report what is new; does nothing if it was asked a moment ago."""
        if not self._pace.due:
            return
        with self._pace.step():
            now = self._capture.latest or None
            for finding in self._diagnosis.findings(now=now, pending=self._pending()):
                if finding.severity >= self._least and self._is_news(finding):
                    self._told[finding.key] = finding.severity, finding.count
                    self._tell(finding)

    def _pending(self) -> list[Exchange]:
        """Return what members of groups wait for; it has no numbers yet."""
        return pending_calls(self._capture, self._knowledge) if self._whole else []

    def _is_news(self, finding: Finding) -> bool:
        before = self._told.get(finding.key)
        return before is None or finding.severity > before[0] or finding.count >= _GROWN * before[1]


class DiagnosisBeside:
    """Diagnoses a live capture that is also shown: findings are printed as notices, those of severity info at the end.

    It contains its errors, as with ``kproxy proxy`` the connections of clients would end with them: each is told once,
    and the diagnosis continues.

    :param reader: of the command that shows it
    :param annotated: whether that makes bodies ready to be shown, which are not what rules look at
    :param zone: of the times; None is the local one
    """

    def __init__(self, reader: ExchangeReader, zone: tzinfo | None, *, annotated: bool) -> None:
        capture, knowledge = reader.capture, reader.knowledge
        self._diagnosis = Diagnosis(capture, knowledge.topic_name)
        self._again = _reader(capture, knowledge) if annotated else None
        self._text = FindingsText(None, zone, color=False, files=("-",))
        self._live = LiveFindings(self._diagnosis, capture, knowledge, self._tell, least=Severity.LOW)
        self._faults = capture.faults
        self._look = self._faults.guarded(self._add, _DIAGNOSIS)

    def look(self, exchange: Exchange) -> None:
        """Show an exchange to the rules, just after it was decoded."""
        self._look(exchange)

    def tell(self) -> None:
        """Report what is new; does nothing if it was asked a moment ago."""
        self._faults.made(self._live.tell, _DIAGNOSIS, None)
        for line in self._faults.news():
            notice(line)

    def conclude(self) -> None:
        """Tell all that was found on standard error."""
        found = self._diagnosis.findings()
        echo(err=True)
        echo(verdict(found, faulty=bool(self._faults)), err=True)
        for line in self._faults.whole(self._text.lines(found), _DIAGNOSIS):
            echo(line, err=True)
        for line in self._text.left_out(self._diagnosis.left_out):
            echo(line, err=True)

    def _add(self, exchange: Exchange) -> None:
        self._diagnosis.add(exchange if self._again is None else self._decoded_again(self._again, exchange))

    @staticmethod
    def _decoded_again(reader: ExchangeReader, exchange: Exchange) -> Exchange:
        (raw,) = reader.take([exchange.row])
        raw.number = exchange.number
        return raw

    def _tell(self, finding: Finding) -> None:
        notice(self._text.notice(finding))


def _reader(capture: Capture, knowledge: SessionContext) -> ExchangeReader:
    """Return a reader of bodies as rules look at them; it takes rows of the table."""
    return ExchangeReader(capture, annotate=False, summary=False, live=True, knowledge=knowledge)
