"""Findings as text."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest

from captures.analysis.findings.diagnosis import InconclusiveRule
from captures.analysis.findings.finding import MOST_EVIDENCE, Finding, Severity
from captures.analysis.findings.rules.members import GroupFull
from captures.analysis.findings.rules.rebalances import SessionTimeouts, SlowPolls
from captures.analysis.groups.vocabulary import Certainty
from kproxy.text.blocks import markdown_lines, text_lines
from kproxy.text.findings import FindingsText, by_reason, rule_lines, verdict

SECOND = 1_000_000_000


def finding(**fields: Any) -> Finding:
    made: dict[str, Any] = {
        "rule": "slow_polls",
        "severity": Severity.MEDIUM,
        "subject": "group a, client b",
        "sentence": "b left.",
        "advice": "Poll more often.",
        "count": 3,
        "first": SECOND,
        "last": 62 * SECOND,
    }
    return Finding(**made | fields)


def text(*found: Finding, width: int | None = None, files: tuple[str, ...] = ("a.pcap",)) -> list[str]:
    return list(text_lines(FindingsText(UTC, files=files).blocks(found), width, prose=True))


def test_all_there_is_to_say() -> None:
    whole = finding(
        certainty=Certainty.POSSIBLE,
        evidence=(4, 9),
        filter="client_id == 'b'",
        thresholds={"slow_polls.held_up": "6s"},
    )
    assert text(whole, files=("a b.pcap", "c.pcap")) == [
        "",
        "MEDIUM  (1 finding)",
        "",
        "  b left.",
        "    about     group a, client b  [slow_polls, possible]",
        "    seen      3 times, 00:00:01.000 to 00:01:02.000: #4 #9",
        "    do        Poll more often.",
        """    look      kproxy read -Y 'client_id == '"'"'b'"'"'' 'a b.pcap' c.pcap""",
        "    threshold slow_polls.held_up = 6s  (--threshold)",
    ]


def test_the_gravest_come_first() -> None:
    lines = text(finding(severity=Severity.LOW), finding(severity=Severity.HIGH), finding())
    assert [line for line in lines if line and not line.startswith(" ")] == [
        "HIGH  (1 finding)",
        "MEDIUM  (1 finding)",
        "LOW  (1 finding)",
    ]


def test_many_findings_of_a_rule_are_counted() -> None:
    many = [finding(subject=f"group {number}") for number in range(7)]
    lines = list(text_lines(FindingsText(UTC, files=()).blocks([*many, finding(rule="other")], 5), None))
    assert lines[1] == "MEDIUM  (8 findings)"
    assert sum("[slow_polls]" in line for line in lines) == 5
    assert sum("[other]" in line for line in lines) == 1
    assert lines[-1] == "  … 2 more of slow_polls, --all shows them"
    assert sum("[slow_polls]" in line for line in text(*many)) == 7


def test_what_is_left_out_of_the_evidence_shows() -> None:
    (line,) = [
        line
        for line in text(finding(count=50, evidence=tuple(range(1, MOST_EVIDENCE + 1))))
        if "seen" in line
    ]
    assert line.endswith("#8 #9 … #10")


def test_what_shows_in_connections_only() -> None:
    assert (
        text(finding(connections=(3, 7)))[-1] == "    look      kproxy read -Y 'connection in {3, 7}' a.pcap"
    )


def test_a_pipe_cannot_be_read_again() -> None:
    assert text(finding(filter="error"), files=("-",))[-1] == "    look      kproxy read -Y error"


def test_lines_fit_the_terminal_but_for_commands() -> None:
    wordy = finding(sentence="word " * 60, advice="word " * 60, filter=f"topic == {'t' * 80}")
    lines = text(wordy, width=60)
    assert max(len(line) for line in lines if "kproxy read" not in line) <= 60
    assert max(len(line) for line in text(wordy, width=400) if "kproxy read" not in line) < 120


@pytest.mark.parametrize("hostile", ["\x1b[31mred", "line\nline", "\u202ebidi", "\x00"])
def test_names_from_the_wire_do_no_harm(hostile: str) -> None:
    nasty = finding(subject=hostile, sentence=hostile, filter=f'client_id == "{hostile}"')
    lines = text(nasty)
    assert all(line.isprintable() for line in lines)
    notice = FindingsText(UTC, files=()).notice(nasty)
    assert notice.isprintable()
    assert notice.startswith("MEDIUM: ")


def test_a_notice_tells_when_it_was_seen() -> None:
    seen = FindingsText(UTC, files=())
    found = finding()
    assert seen.when(found) in seen.notice(found)


def test_no_colours_unless_chosen() -> None:
    assert not any("\x1b[" in line for line in text(finding()))


def test_markdown_has_a_heading_for_each_severity_and_finding() -> None:
    whole = finding(
        subject="group a, client _b_", sentence="_b_ left.", evidence=(4, 9), filter="client_id == `b`"
    )
    lines = list(markdown_lines(FindingsText(UTC, files=(), dated=True).blocks([whole])))
    assert lines == [
        "## MEDIUM  (1 finding)",
        "",
        r"### \_b\_ left.",
        "",
        r"- about: group a, client \_b\_  \[slow_polls\]",
        r"- seen: 3 times, 1970-01-01 00:00:01.000 to 1970-01-01 00:01:02.000: \#4 \#9",
        "- do: Poll more often.",
        "- look: `` kproxy read -Y 'client_id == `b`' ``",
    ]


@pytest.mark.usefixtures("colors")
def test_colours() -> None:
    assert any("\x1b[" in line for line in text(finding()))


def test_reasons_are_said_once() -> None:
    blind = [
        InconclusiveRule(SlowPolls, "no group"),
        InconclusiveRule(GroupFull, "no join"),
        InconclusiveRule(SessionTimeouts, "no group"),
    ]
    assert by_reason(blind) == [("no group", ["slow_polls", "session_timeouts"]), ("no join", ["group_full"])]
    lines = list(text_lines(FindingsText(UTC, files=()).blind(blind), None))
    assert lines == [
        "",
        "Could not be judged, or not as a whole",
        "  slow_polls, session_timeouts: no group",
        "  group_full: no join",
    ]
    assert list(FindingsText(UTC, files=()).blind([])) == []


def test_the_verdict() -> None:
    assert verdict([]) == "Nothing is wrong, as far as this can be judged."
    low, info = finding(severity=Severity.LOW), finding(severity=Severity.INFO)
    assert verdict([low, info]) == "Nothing is wrong that matters; 2 findings: 1 low, 1 info."
    assert verdict([low, finding(), finding()]) == "3 findings: 2 medium, 1 low."


def test_the_list_of_rules() -> None:
    lines = list(rule_lines([SlowPolls], 60))
    assert lines[0] == "slow_polls  (medium)"
    assert lines[-1].startswith("    slow_polls.held_up = 6s  ")
    assert max(map(len, lines[:-1])) <= 60
