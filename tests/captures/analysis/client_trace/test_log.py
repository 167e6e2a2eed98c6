"""The log of a party against what was done in the recordings, and its handling of odd exchanges."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from captures.analysis.client_trace.log import PartyLog, rows_of
from captures.analysis.client_trace.model import NUMBERS_SHOWN, Phase, QuestionKind
from captures.analysis.groups.vocabulary import Certainty
from captures.exchanges import Exchange, ExchangeReader
from captures.json_objects import to_json
from captures.meaning import words
from tests.captures.analysis.client_trace.kit import (
    DATA,
    FINDINGS,
    GROUPS,
    NS,
    followed,
    log,
    of,
    opened,
    party,
    truth_of,
)

EAGER = "21_k430_java_eager_range"
FENCE = FINDINGS / "22_k411_tx_java_fence.pcap.zst"


def members() -> list[tuple[str, str]]:
    """Return recordings and their members that a Java client told their assignment, with the generation."""
    names = [EAGER, "21_k430_java_sticky", "27_k391_java_eager_range"]
    return [(name, who) for name in names for who in ("m1", "m2", "m3", "m4")]


@pytest.mark.sample(7)
@pytest.mark.parametrize(("name", "who"), members())
def test_every_assignment_that_a_client_had_is_told(name: str, who: str) -> None:
    lines = of(followed(GROUPS / f"{name}.pcap.zst", who), "assignment")
    events = [each for each in truth_of(name)["events"] if each["who"] == who and each["what"] == "assigned"]
    assert events
    told = {int(match[1]): line for line in lines if (match := re.search(r" gen (\d+) ", line.text))}
    for event in events:
        generation = int(re.search(r"gen=(\d+)", event["data"])[1])  # type: ignore[index]
        line = told[generation]
        assert line.time - NS // 2 <= event["t"] * NS <= line.until + NS // 2
        partitions = sorted(int(number) for number in re.findall(r"-(\d+)[,\]]", event["data"]))
        shown = (
            line.text.partition(": ")[2].partition(" (after")[0].replace(f"{truth_of(name)['topic']}-", "")
        )
        assert shown.split(" ")[-1] == words.ranges(partitions), line.text


def endings() -> list[tuple[str, str, bool]]:
    """Return recordings and their members that ended once: whether they left their group."""
    found = []
    for path in sorted((GROUPS / "truth").glob("*.json")):
        if not (GROUPS / f"{path.stem}.pcap.zst").exists() or "static" in path.stem:
            continue
        events = truth_of(path.stem).get("events", [])
        for who in ("m1", "m2", "m3", "m4"):
            ways = [each["what"] for each in events if each.get("who") == who]
            ends = [way for way in ways if way in ("SIGKILL", "SIGTERM (clean close)")]
            if len(ends) == ways.count("spawn") == 1 and "assigned" in ways and "fenced" not in path.stem:
                found.append((path.stem, who, ends[0] != "SIGKILL"))
    return found


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", sorted({name for name, _, _ in endings()}))
def test_how_they_ended(name: str) -> None:
    capture = opened(GROUPS / f"{name}.pcap.zst")
    for of_name, who, left in endings():
        if of_name != name:
            continue
        last = log(capture, party(capture, who))[-1]
        assert last.phase is Phase.END
        assert ("it had left its group" in last.text) is left, (who, last.text)
        assert last.certainty is (Certainty.OBSERVED if left else Certainty.INFERRED)


def test_phases_come_in_the_order_of_a_consumer() -> None:
    lines = followed(GROUPS / f"{EAGER}.pcap.zst", "m2")
    phases = list(dict.fromkeys(line.phase for line in lines))
    assert phases == [
        Phase.BOOTSTRAP,
        Phase.COORDINATOR,
        Phase.GROUP,
        Phase.POSITIONS,
        Phase.CONSUMING,
        Phase.END,
    ]
    assert [line.time for line in lines] == sorted(line.time for line in lines)


def test_every_exchange_is_told_once() -> None:
    capture = opened(GROUPS / f"{EAGER}.pcap.zst")
    found = party(capture, "m2")
    mine = {int(row) for row in rows_of(capture, found)} & {
        index
        for index, row in enumerate(capture.table.order().tolist())
        if int(capture.table.column("connection")[row]) in found.ties
    }
    counted = [line for line in log(capture, found) if line.what not in ("rebalance", "end")]
    assert sum(line.count for line in counted) == len(mine)
    assert {number - 1 for line in counted for number in line.numbers} <= mine
    assert all(len(line.numbers) == min(line.count, NUMBERS_SHOWN) for line in counted)


def test_records_add_up() -> None:
    """The pump wrote each record once, and no consumer of the last generation lagged behind (``read`` agrees)."""
    capture = opened(GROUPS / f"{EAGER}.pcap.zst")
    produced = of(log(capture, party(capture, "pump")), "produces")
    records = sum(int(match[1]) for line in produced if (match := re.search(r": (\d+) records?", line.text)))
    reader = ExchangeReader(capture)
    said = [
        exchange.summary[0]
        for exchange in reader
        if exchange.api == "Produce" and exchange.client_id == "pump"
    ]
    assert records == sum(int(re.search(r"(\d+) record", each)[1]) for each in said) == len(said)  # type: ignore[index]


def test_an_error_is_told_with_what_was_done_next() -> None:
    lines = followed(FENCE, "p-old")
    errors = of(lines, "error")
    assert [line.text.partition(" (")[0] for line in errors] == [
        "Produce: o-tx2 0-1 INVALID_PRODUCER_EPOCH",
        "EndTxn: PRODUCER_FENCED",
    ]
    assert all(line.trouble for line in errors)
    assert [line.numbers for line in errors] == [[21], [26]]
    assert errors[1].then == ["closed the connection"]
    assert "EndTxn" in errors[0].then[0]
    (transaction,) = [line for line in of(lines, "transaction") if line.trouble]
    assert "1 transaction of fx-o-tx2 not ended (PRODUCER_FENCED)" in transaction.text


def test_two_of_one_transactional_id_have_transactions_of_their_own() -> None:
    lines = of(followed(FENCE, "fx-o-tx2", QuestionKind.TRANSACTION), "transaction")
    ended = {line.client: line.text for line in lines if line.text.startswith("1 transaction")}
    assert set(ended) == {"p-old", "p-new"}
    assert ended["p-new"].startswith("1 transaction of fx-o-tx2 committed")


def test_a_crash_is_trouble_of_the_one_that_crashed() -> None:
    """In this recording, m3 is killed and its session times out; m1 and m2 leave."""
    told = {who: followed(GROUPS / f"{EAGER}.pcap.zst", who) for who in ("m1", "m2", "m3")}
    assert {who: [line.what for line in lines if line.trouble] for who, lines in told.items()} == {
        "m1": [],
        "m2": [],
        "m3": ["rebalance", "end"],
    }
    assert "session timeout" in next(line.text for line in told["m3"] if line.trouble)


def test_being_told_of_a_rebalance_is_no_trouble() -> None:
    lines = followed(GROUPS / f"{EAGER}.pcap.zst", "m1")
    told = of(lines, "rebalance_told")
    assert len(told) == 5  # generations 2 to 6
    assert not any(line.trouble for line in told)
    assert not of(lines, "error")
    assert [re.search(r"generation \S+ → (\d)", line.text)[1] for line in of(lines, "rebalance")] == list(
        "1234567"
    )  # type: ignore[index]


def test_a_refused_client_reconnects() -> None:
    lines = followed(FINDINGS / "24_k430_java_oauth_expired.pcap.zst", "java-none")
    refused = of(lines, "authentication")
    assert len(refused) == len(of(lines, "connection_opened")) == len(of(lines, "connection_closed")) == 72
    assert {line.text for line in refused} == {
        "authenticates by OAUTHBEARER as admin: SASL_AUTHENTICATION_FAILED"
    }
    assert all(line.trouble and line.phase is Phase.AUTHENTICATION for line in refused)
    by_broker = [line for line in of(lines, "connection_closed") if "closed by broker" in line.text]
    assert by_broker
    assert {line.certainty for line in by_broker} == {Certainty.INFERRED}


def test_an_accepted_client_is_said_to_be() -> None:
    path = DATA / "captures" / "35_k282_sasl_plain.pcap.zst"
    told = of(followed(path, "java-cons"), "authentication")
    assert {line.text for line in told} == {"authenticates by PLAIN as alice: accepted"}
    assert not any(line.trouble for line in told)


def test_a_broker_that_dies_is_told_as_what_closed_the_connections() -> None:
    lines = followed(GROUPS / "41_k430_coordinator_killed.pcap.zst", "m1")
    closed = [line for line in of(lines, "connection_closed") if line.trouble]
    assert len(closed) >= 2
    assert all("the broker stopped" in line.text for line in closed)
    assert [line.text for line in of(lines, "unanswered")] or any(
        "no answer came" in line.text for line in of(lines, "join")
    )


def test_it_begins_in_the_middle() -> None:
    """From the second half of a recording on, the party is identified by its later messages."""
    capture = opened(DATA / "findings" / "26_k430_broker_sigstop_interbroker.pcap.zst")
    lines = log(capture, party(capture, "broker-13-fetcher-0"))
    assert lines[0].text.endswith("was open as the capture begins")
    assert lines[0].phase is Phase.REPLICATION
    assert any(line.text.startswith("replicates ") for line in lines)


def test_a_static_member_leaves_for_a_while() -> None:
    lines = followed(GROUPS / "21_k430_kip848_static_java.pcap.zst", "m1")
    assert [line.text.rpartition(": ")[2] for line in of(lines, "leave")] == ["left for a while"]
    assert lines[-1].text.endswith("it had left its group for a while")
    commits = of(lines, "commits")
    assert commits
    assert all(
        re.search(r"last r2-kip848_static_java-\d@\d+|: r2-kip848_static_java-\d@\d+", line.text)
        for line in commits
    )


def test_a_silence_is_told_once_with_its_length() -> None:
    (line,) = of(followed(DATA / "questions" / "45_k430_retries.pcap.zst", "java-idem"), "silence")
    assert line.text == "silence for 13.2 s"
    assert line.until - line.time > 13 * NS


def test_orphans_are_told_as_of_the_client_of_their_connection() -> None:
    lines = followed(FINDINGS / "26_k430_broker_sigstop_interbroker.pcap.zst", "broker-13-fetcher-0")
    assert {line.client for line in of(lines, "orphan")} == {"broker-13-fetcher-0"}


def test_tls_that_is_not_decrypted_is_followed_by_its_address() -> None:
    lines = followed(DATA / "captures" / "tls_java_13.pcap", "127.0.0.1")
    opened_ = of(lines, "connection_opened")
    assert len(opened_) == 5
    assert all("TLS 1.3" in line.text and "not decrypted" in line.text for line in opened_)
    assert lines[-1].what == "end"


def test_exchanges_of_others_do_not_count() -> None:
    capture = opened(GROUPS / f"{EAGER}.pcap.zst")
    found = party(capture, "m1")
    reader = ExchangeReader(capture, annotate=False, summary=False)
    every = PartyLog(found, capture, reader.knowledge.topic_name)
    for exchange in reader:
        every.add(exchange)
    assert [to_json(line) for line in every.result()] == [to_json(line) for line in log(capture, found)]


def test_the_result_may_be_asked_for_again() -> None:
    capture = opened(FENCE)
    found = party(capture, "p-old")
    reader = ExchangeReader(capture, annotate=False, summary=False)
    told = PartyLog(found, capture, reader.knowledge.topic_name)
    for exchange in reader:
        told.add(exchange)
    first = [to_json(line) for line in told.result()]
    assert [to_json(line) for line in told.result()] == first


def _without_response(exchange: Exchange) -> Exchange:
    exchange.response = None
    exchange.errors, exchange.expected = [], []
    return exchange


def _without_bodies(exchange: Exchange) -> Exchange:
    exchange.request = exchange.response = None
    exchange.errors, exchange.expected = [], []
    return exchange


def _with_garbage(exchange: Exchange) -> Exchange:
    for body in (exchange.request, exchange.response):
        if body is not None and body.value is not None:
            body.value = {
                name: [None, *value] if isinstance(value, list) else None
                for name, value in body.value.items()
            }
    exchange.errors, exchange.expected = [], []
    return exchange


@pytest.mark.sample(6)
@pytest.mark.parametrize("change", [_without_response, _without_bodies, _with_garbage])
@pytest.mark.parametrize(
    "path",
    [
        GROUPS / f"{EAGER}.pcap.zst",
        GROUPS / "21_k430_kip848_java.pcap.zst",
        DATA / "captures" / "21_k430_share_group.pcap.zst",
        FINDINGS / "27_k391_tx_java_eos.pcap.zst",
        DATA / "captures" / "35_k282_sasl_plain.pcap.zst",
    ],
    ids=lambda path: path.name.partition(".")[0] if isinstance(path, Path) else None,
)
def test_what_is_missing_in_bodies_is_left_out(path: Path, change: object) -> None:
    capture = opened(path)
    lines = log(capture, party(capture, "*"), change)  # type: ignore[arg-type]
    assert lines[-1].phase is Phase.END
    assert all(line.text for line in lines)
