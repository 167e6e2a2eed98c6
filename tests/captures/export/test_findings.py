"""Findings as Markdown."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.findings.diagnosis import Blind
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rules.slow_polls import SlowPolls
from captures.analysis.groups.model import Certainty
from captures.export.findings import escaped, findings_markdown

SECOND = 1_000_000_000


def finding(**fields: Any) -> Finding:
    made: dict[str, Any] = {
        "rule": "slow_polls",
        "severity": Severity.MEDIUM,
        "subject": "group a, client _b_",
        "sentence": "_b_ left.",
        "advice": "Poll more often.",
        "count": 3,
        "first": SECOND,
        "last": 2 * SECOND,
    }
    return Finding(**made | fields)


def markdown(*found: Finding, blind: list[Blind] | None = None) -> list[str]:
    return list(findings_markdown("a*.pcap", found, blind or [], read="3 exchanges."))


def test_a_section_for_each_severity() -> None:
    high = finding(severity=Severity.HIGH, subject="group h")
    assert [
        line for line in markdown(high, finding(), finding(subject="group c")) if line.startswith("#")
    ] == [
        r"# Diagnosis of a\*.pcap",
        "## High",
        "### group h: `slow_polls`",
        "## Medium",
        r"### group a, client \_b\_: `slow_polls`",
        "### group c: `slow_polls`",
    ]


def test_all_there_is_to_say() -> None:
    whole = finding(
        certainty=Certainty.INFERRED,
        evidence=(4, 5, 9),
        filter="client_id == `b`",
        thresholds={"slow_polls.held_up": "6s"},
    )
    lines = markdown(whole)
    assert lines[lines.index(r"\_b\_ left.") + 2 :] == [
        "- Seen 3 times, 1970-01-01T00:00:01.000000000Z to 1970-01-01T00:00:02.000000000Z",
        "- How sure: inferred",
        "- What to do: Poll more often.",
        "- Exchanges: 4, 5, 9",
        "- Filter: `` client_id == `b` ``",
        "- Thresholds: `slow_polls.held_up` = 6s",
    ]


def test_what_is_not_there_is_not_said() -> None:
    assert [line for line in markdown(finding(count=1, last=SECOND)) if line.startswith("-")] == [
        "- Seen once, 1970-01-01T00:00:01.000000000Z",
        "- What to do: Poll more often.",
    ]


def test_many_of_one_rule_are_counted() -> None:
    found = [finding(subject=f"group {number}") for number in range(12)]
    lines = list(findings_markdown("a.pcap", found, [], read="All.", most=5))
    assert len([line for line in lines if line.startswith("### ")]) == 5
    assert lines[-1] == "… 7 more of `slow_polls`"


def test_nothing_is_wrong() -> None:
    lines = markdown(blind=[Blind(SlowPolls, "no group [x] was seen")])
    assert "Nothing is wrong, as far as this can be judged." in lines
    assert lines[-1] == rf"- {SlowPolls.title}: no group \[x\] was seen"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a_b_c <script>", r"a_b_c \<script\>"),
        ("line\n# heading", r"line�\# heading"),
        ("[x](y) `z` \\", r"\[x\](y) \`z\` \\"),
        ("- item", r"\- item"),
        ("    code", "code"),
        ("12. item", r"12\. item"),
        ("1) item 1)", r"1\) item 1)"),
        ("$x$", r"\$x\$"),
        ("a - b (c)", "a - b (c)"),
    ],
)
def test_names_from_the_wire_are_no_markup(text: str, shown: str) -> None:
    assert escaped(text) == shown
