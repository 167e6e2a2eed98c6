"""Sequence diagrams: the diagram of a first join, folding, and text that Mermaid cannot parse."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from captures.exchanges import Exchange, ExchangeReader, Flag
from captures.export.mermaid import SequenceDiagram
from tests.captures.export.files import SAMPLE, opened

pytestmark = pytest.mark.quick

# the grammar of the output: mermaid.js.org/syntax/sequenceDiagram.html
PARTICIPANT = re.compile(r"    (?:actor|participant) [A-Z]\d+ as [^;#]+(?:#\d+;[^;#]*)*")
ARROW = re.compile(r" {4,8}[A-Z]\d+(?:->>|-->>|--x|-x)[A-Z]\d+: [^;#<>\n]+(?:#\w+;[^;#<>\n]*)*")
OTHER = re.compile(r"    (?:loop \d+ times|end|Note over [A-Z]\d+,[A-Z]\d+: [^;#\n]+)")

FIRST_JOIN = """\
sequenceDiagram
    actor C1 as m1<br/>127.0.0.1
    participant B1 as 127.0.0.1:10101
    C1->>B1: TCP connect from port 41104 (0.005 ms)
    C1->>B1: ApiVersions v4 java 4.3.0
    B1-->>C1: 77 APIs (0.3 ms)
    C1->>B1: JoinGroup v9 gr2-java_eager_range  range
    B1-->>C1: MEMBER_ID_REQUIRED, join again as m-b4ca (3.8 ms)
    C1->>B1: JoinGroup v9 gr2-java_eager_range  range  m-b4ca
    B1-->>C1: gen 1, leader, 1 member (3001.2 ms, waits by design)
    C1->>B1: SyncGroup v5 gr2-java_eager_range gen 1 m-b4ca  1 assignment
    B1-->>C1: r2-java_eager_range 0-5 (0.8 ms)
    C1->>B1: OffsetFetch v9 gr2-java_eager_range  r2-java_eager_range 0-5  stable
    B1-->>C1: none committed (0.5 ms)
    C1->>B1: Heartbeat v4 gr2-java_eager_range gen 1 m-b4ca
    B1-->>C1: ok (0.3 ms)
"""


def drawn(wanted, **limits: int) -> str:
    capture = opened(SAMPLE)
    diagram = SequenceDiagram(**limits)
    diagram.add(capture, (exchange for exchange in ExchangeReader(capture) if wanted(exchange)))
    return "\n".join(diagram.lines()) + "\n"


def check_syntax(text: str) -> None:
    first, *lines = text.splitlines()
    assert first == "sequenceDiagram"
    depth = 0
    for line in lines:
        assert any(kind.fullmatch(line) for kind in (PARTICIPANT, ARROW, OTHER)), line
        depth += line.strip().startswith("loop") - (line.strip() == "end")
        assert depth in (0, 1)
    assert depth == 0


def test_the_first_join_of_a_group() -> None:
    text = drawn(lambda exchange: exchange.connection == 6, max_steps=7)
    # golden: connection 6 is the coordinator connection of member m1, the first of its group
    assert text.startswith(FIRST_JOIN)
    check_syntax(text)


def test_the_whole_recording_is_valid() -> None:
    text = drawn(lambda exchange: True, max_steps=10_000)
    check_syntax(text)
    assert text.count("actor ") == 6
    assert "closes the connection from port" in text
    assert "--x" in text  # rebalances in progress


def test_what_repeats_is_folded() -> None:
    text = drawn(lambda exchange: exchange.api == "Produce")
    assert re.search(r": Produce v10 \S+ 1 record 77 B… ×\d+\n", text) or "×" in text
    assert len(text.splitlines()) < 20


def test_a_pattern_of_several_exchanges_becomes_a_loop() -> None:
    capture = opened(SAMPLE)
    fetch, heartbeat = (
        next(exchange for exchange in ExchangeReader(capture) if exchange.api == api and exchange.latency)
        for api in ("Fetch", "Heartbeat")
    )
    made: list[Exchange] = []
    for turn in range(5):
        made += [
            replace(fetch, time=fetch.time + 2 * turn),
            replace(heartbeat, time=fetch.time + 2 * turn + 1),
        ]
    diagram = SequenceDiagram()
    assert diagram.add(capture, made) == 10
    lines = [line for line in diagram.lines() if "TCP" not in line and "closes" not in line]
    assert lines.count("    loop 5 times") == 1
    assert sum("Fetch" in line for line in lines) == 1


def test_a_long_conversation_says_what_it_leaves_out() -> None:
    text = drawn(lambda exchange: True, max_steps=10, max_exchanges=100)
    check_syntax(text)
    assert "more steps are left out" in text
    assert "302 later exchanges are left out" in text


def test_text_that_would_break_the_diagram() -> None:
    capture = opened(SAMPLE)
    first = next(iter(ExchangeReader(capture)))
    odd = replace(first, client_id="a;b #1\nend", summary=("<script>; %% comment", "x" * 500), flag=Flag(0))
    diagram = SequenceDiagram()
    diagram.add(capture, [odd])
    text = "\n".join(diagram.lines())
    check_syntax(text)
    assert "actor C1 as a#59;b #35;1 end" in text
    assert "#lt;script#gt;#59; #37;#37; comment" in text


def test_what_a_terminal_would_obey_is_not_written() -> None:
    capture = opened(SAMPLE)
    first = next(iter(ExchangeReader(capture)))
    hostile = "\x1b]0;title\x07 \u202eevil\x9b31m \u2028line"
    diagram = SequenceDiagram()
    diagram.add(capture, [replace(first, client_id=hostile, summary=(hostile, hostile))])
    lines = list(diagram.lines())
    check_syntax("\n".join(lines) + "\n")
    assert all(line.isprintable() for line in lines)
    assert sum("evil" in line for line in lines) == 3


def test_how_exchanges_end() -> None:
    capture = opened(SAMPLE)
    first = next(iter(ExchangeReader(capture)))
    for flag, size, line in (
        (Flag.UNANSWERED, 0, "B1--xC1: no answer"),
        (Flag.ORPHAN, 9, "B1-->>C1: answer to a request that was not captured"),
    ):
        diagram = SequenceDiagram()
        diagram.add(capture, [replace(first, flag=flag, response_size=size, latency=None)])
        assert f"    {line}" in diagram.lines()
    silent = SequenceDiagram()
    silent.add(capture, [replace(first, flag=Flag.NO_RESPONSE_EXPECTED, response_size=0, latency=None)])
    assert not any("B1-" in line for line in silent.lines() if "closes" not in line)
