"""``kproxy follow`` as its users run it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from captures.analysis.client_trace.model import (
    Association,
    AssociationReason,
    Line,
    Phase,
    Question,
    QuestionKind,
    TracedClient,
)
from captures.analysis.groups.vocabulary import Certainty
from captures.names import Names
from kproxy.cli import main
from kproxy.text.blocks import text_lines
from kproxy.text.follow import FollowText

ROOT = Path(__file__).parents[3]
EAGER = ROOT / "tests" / "data" / "groups" / "21_k430_java_eager_range.pcap.zst"
FENCE = ROOT / "tests" / "data" / "findings" / "22_k411_tx_java_fence.pcap.zst"
SIGKILL = ROOT / "tests" / "data" / "findings" / "25_k430_broker_sigkill.pcap.zst"
REFUSED = ROOT / "tests" / "data" / "findings" / "24_k430_java_oauth_expired.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["follow", *map(str, arguments)], catch_exceptions=False)


def objects(*arguments: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run("--json", *arguments).stdout.splitlines()]


def test_a_log_under_headings() -> None:
    shown = run("--utc", "m2", EAGER)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[:4] == [
        "m2 at 127.0.0.1, 3 connections",
        "  connections 7-9 by client ID m2, as in #40",
        "  group gr2-java_eager_range",
        "  member ID m2-9162cc27-3895-4a9d-9b0a-2293c54f0c88",
    ]
    headings = [line for line in lines[4:] if re.match(r"[a-z]+", line)]
    assert headings[:5] == ["bootstrap  (times in UTC)", "coordinator", "group", "positions", "consuming"]
    assert headings[-1] == "end"
    assert (
        "  09:51:04.538    +32.8 ms  #40…#49        asks for API versions (java 4.3.0): 77 APIs"
        in shown.stdout
    )
    assert lines[-1].endswith("its 3 connections were closed by the client; it had left its group")


def test_what_was_done_after_an_error_stands_below_it() -> None:
    lines = run("--utc", "p-old", FENCE).stdout.splitlines()
    at = next(index for index, line in enumerate(lines) if "EndTxn: PRODUCER_FENCED" in line)
    assert lines[at + 1].strip() == "→ closed the connection"


def test_several_clients_are_told_apart() -> None:
    shown = run("--utc", "--producer-id", "2", FENCE).stdout
    assert "3 client IDs: they are shown together; name one to follow it alone" in shown
    assert re.search(r"#20 +p-new +asks for a producer ID \(fx-o-tx2\): producer 2 epoch 2", shown)
    assert "by client ID and address: p-old at 127.0.0.1, as in #5 (inferred)" in shown


@pytest.mark.slow
def test_what_repeats_stands_once_unless_all_is_asked_for() -> None:
    short, full = run("java-none", REFUSED).stdout, run("--all", "java-none", REFUSED).stdout
    assert "the 3 lines above, or much the same, 70 times more" in short
    assert len(short.splitlines()) < 20
    assert full.count("SASL_AUTHENTICATION_FAILED") == 72


@pytest.mark.slow
def test_by_member_connection_and_transactional_id() -> None:
    member = "m2-9162cc27-3895-4a9d-9b0a-2293c54f0c88"
    by_member, by_connection = objects("--member", member, EAGER)[0], objects("--connection", "8", EAGER)[0]
    assert by_member["members"] == by_connection["members"] == [member]
    assert [tie["connection"] for tie in by_member["ties"]] == [7, 8, 9]
    assert [tie["connection"] for tie in by_connection["ties"]] == [7, 8, 9]
    assert objects("--transactional-id", "fx-o-tx2", FENCE)[0]["producer_ids"] == [2]


def test_json_is_the_party_and_a_line_each() -> None:
    party, *lines = objects("m2", EAGER)
    assert party["what"] == "party"
    assert party["captures"] == [str(EAGER)]
    assert (party["asked_by"], party["asked"]) == ("client", "m2")
    assert lines[-1]["what"] == "end"
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)


@pytest.mark.slow
def test_the_documented_keys_and_words_are_those_that_there_are() -> None:
    text = (ROOT / "docs" / "follow.md").read_text()
    shape = text.split("## The shape of `--json`")[1]
    met: set[str] = set()
    for arguments in (("m1", EAGER), ("*", FENCE), ("m", SIGKILL), ("java-none", REFUSED)):
        party, *lines = objects(*arguments)
        for key in (*party, *(key for tie in party["ties"] for key in tie), *lines[0]):
            assert f"`{key}`" in shape
        met |= {line["what"] for line in lines} | {line["phase"] for line in lines}
    for word in met | {phase.value for phase in Phase} | {bond.value for bond in AssociationReason}:
        assert f"`{word}`" in text


def test_a_sequence_diagram_of_the_party_alone() -> None:
    shown = run("--mermaid", "p-old", FENCE)
    assert shown.exit_code == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "sequenceDiagram"
    assert lines[1] == "    actor C1 as p-old<br/>127.0.0.1"
    assert "p-new" not in shown.stdout
    assert any("PRODUCER_FENCED" in line for line in lines)


@pytest.mark.slow
def test_a_part_of_the_time() -> None:
    whole, part = objects("m1", EAGER), objects("--from", "10s", "--to", "15s", "m1", EAGER)
    assert part[0] == whole[0]
    assert [line for line in whole if line in part] == part
    assert 1 < len(part) < len(whole)
    begun = run("--mermaid", "--from", "30s", "m1", EAGER).stdout
    assert "LeaveGroup" in begun
    assert "FindCoordinator" not in begun
    nothing = run("--from", "2h", "m1", EAGER)
    assert "Nothing of it in this time." in nothing.stdout
    assert run("--mermaid", "--from", "2h", "m1", EAGER).stdout.startswith("sequenceDiagram\n    participant")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("nobody", EAGER), "no client 'nobody' in the capture; there are"),
        (("--member", "x", EAGER), "no member with the ID 'x' in the capture"),
        (("--connection", "999", EAGER), "no connection 999 in the capture"),
        (("--member", "x", "--connection", "1", EAGER), "cannot be combined"),
        (("--json", "--mermaid", "m1", EAGER), "use only one of --json and --mermaid"),
        ((EAGER,), "it takes a client and a capture"),
    ],
)
def test_wrong_usage(arguments: tuple[str | Path, ...], said: str) -> None:
    shown = run(*arguments)
    assert shown.exit_code == 2
    assert said in shown.stderr


def test_text_from_the_wire_is_fit_for_a_terminal() -> None:
    evil = "evil\x1b[31m\nname"
    party = TracedClient(
        Question(QuestionKind.CLIENT, "evil"),
        {0: Association(0, AssociationReason.CLIENT_ID, evil, Certainty.OBSERVED, 1)},
        client_ids=[evil],
        hosts=["10.0.0.1"],
        members=[evil],
        groups=[evil],
        transactional_ids=[evil],
    )
    line = Line(time=0, until=0, what="request", phase=Phase.ADMINISTRATION, text="x", client=evil)
    other = Line(time=0, until=0, what="request", phase=Phase.ADMINISTRATION, text="y", client="b")
    shown = list(text_lines(FollowText(None, Names()).blocks(party, [line, other]), None))
    assert all(each.isprintable() for each in shown)


def test_lines_wrap_on_a_terminal() -> None:
    party = TracedClient(Question(QuestionKind.CLIENT, "a"), client_ids=["a"], hosts=["10.0.0.1"])
    line = Line(
        time=0, until=0, what="request", phase=Phase.GROUP, text="word " * 40, client="a", trouble=True
    )
    shown = list(text_lines(FollowText(None, Names()).blocks(party, [line]), 100))
    assert len(shown) > 4
    assert all(len(each) <= 100 for each in shown)
