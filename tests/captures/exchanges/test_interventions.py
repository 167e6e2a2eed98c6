"""Interventions of the proxy on their exchanges, and kernel samples on the connections."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from captures.analysis.attempts import ended_by_broker
from captures.analysis.error_stats import ErrorStats
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.time_shares import TimeShares
from captures.exchanges import Capture, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.notes import Note, Notes, parse_comment
from captures.exchanges.samples import Samples
from captures.filters import compile_filter, context_of
from captures.interventions import Intervention, Interventions, TcpSample
from captures.live import capture as live
from captures.live.capture import GrowingCapture
from captures.packets import open_files
from tests.captures.exchanges.proxied import (
    DELAYED,
    HELD,
    REWRITTEN,
    SAMPLE,
    UPSTREAM,
    Recording,
    metadata,
    request,
    response,
    rewritten,
)
from tests.captures.export.files import exported, opened
from tests.captures.packets.kit import BROKER, Conversation

DONE = [
    Interventions((), (REWRITTEN,)),
    Interventions((DELAYED,), (HELD,)),
    Interventions(),
]


def done_in(capture: Capture) -> list[Interventions]:
    return [exchange.interventions for exchange in ExchangeReader(capture)]


def test_each_exchange_has_its_own(tmp_path: Path) -> None:
    capture = opened(rewritten(tmp_path / "proxied.pcapng"))
    exchanges = list(ExchangeReader(capture))
    assert [exchange.interventions for exchange in exchanges] == DONE
    assert [exchange.note for exchange in exchanges] == [Note(), Note("look", True), Note()]
    assert [exchange.flags for exchange in exchanges] == [["changed"], ["fault", "held", "intervened"], []]
    assert exchanges[0].response is not None
    assert exchanges[0].response.value["brokers"][0]["host"] == "kafka1"


def test_a_pipelined_neighbour_has_none(tmp_path: Path) -> None:
    recording = Recording()
    pairs = [metadata(number) for number in range(4)]
    recording.data(0, b"".join(asked for asked, _ in pairs[:2]))
    recording.data(0, pairs[2][0], DELAYED)
    recording.data(0, pairs[3][0])
    for number, (_, answered) in enumerate(pairs):
        recording.data(1, answered, *([REWRITTEN] if number == 1 else []))
    done = done_in(opened(recording.write(tmp_path / "pipelined.pcapng")))
    assert done == [Interventions(), DONE[0], Interventions((DELAYED,)), Interventions()]


def test_a_large_frame_is_told_of_on_its_first_packet(tmp_path: Path) -> None:
    recording = Recording()
    asked, answered = metadata(1, host="h" * 3000)
    recording.data(0, asked)
    recording.data(1, answered[:1000], REWRITTEN)
    recording.data(1, answered[1000:])
    assert done_in(opened(recording.write(tmp_path / "large.pcapng"))) == [DONE[0]]


@pytest.mark.parametrize("synthetic", [False, True])
def test_export_keeps_it(tmp_path: Path, synthetic: bool) -> None:
    capture, out = opened(rewritten(tmp_path / "proxied.pcapng")), tmp_path / "out.pcapng"
    exported(capture, out, synthetic=synthetic)
    again = opened(out)
    assert done_in(again) == DONE
    assert again.notes.all() == capture.notes.all()


def test_a_user_cannot_take_it_away(tmp_path: Path) -> None:
    capture, out = opened(rewritten(tmp_path / "proxied.pcapng")), tmp_path / "out.pcapng"
    for row in range(3):
        capture.notes.comment(row, "mine")
        capture.notes.mark(row, marked=False)
    assert done_in(capture) == DONE
    exported(capture, out)
    again = opened(out)
    assert done_in(again) == DONE
    assert [again.notes.of(row) for row in range(3)] == [Note("mine")] * 3


def test_a_scrubbed_export_keeps_addresses_only(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    exported(opened(rewritten(tmp_path / "proxied.pcapng")), out, scrub=True)
    assert done_in(opened(out)) == DONE


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("changed", {1}),
        ("not changed", {2, 3}),
        ("fault", {2}),
        ("fault ~ delayed", {2}),
        ("fault contains '200ms'", {2}),
        ("fault ~ truncated", set()),
        ("held", {2}),
        ("held > 2s", {2}),
        ("held > 3s", set()),
        ("answered_by_kproxy or not_forwarded", set()),
        ("flags == held", {2}),
        ("flags == changed or flags == fault", {1, 2}),
        ("marked and comment == look", {2}),
        ("comment ~ kproxy", set()),
    ],
)
def test_filters_ask_for_it(tmp_path: Path, text: str, numbers: set[int]) -> None:
    reader = ExchangeReader(opened(rewritten(tmp_path / "proxied.pcapng")))
    wanted, context = compile_filter(text), context_of(reader)
    assert {index + 1 for index in wanted.select(reader, context).tolist()} == numbers
    assert {exchange.number for exchange in reader if wanted.match(exchange, context)} == numbers


# ---------------------------------------------------------------- from the cluster or from kproxy
PRODUCE = 0
DENIED = 29  # TOPIC_AUTHORIZATION_FAILED
SECOND = 1_000_000_000


def produce(correlation_id: int, error: int = 0) -> tuple[bytes, bytes]:
    """A Produce request of version 3, and its response."""
    asked = {"transactional_id": None, "acks": 1, "timeout_ms": 1000, "topic_data": []}
    partition = {"index": 0, "error_code": error, "base_offset": 0, "log_append_time_ms": -1}
    topic = {"name": "orders", "partition_responses": [partition]}
    answered = {"responses": [topic], "throttle_time_ms": 0}
    return request(PRODUCE, 3, correlation_id, asked), response(PRODUCE, 3, correlation_id, answered)


def intervened(path: Path) -> Path:
    """Four exchanges: the first delayed, the second answered by kproxy, the third altered, the fourth untouched."""
    recording = Recording()
    done = [
        (
            (Intervention(rule="r", action="delayed by 1ms", delayed_ns=1_000_000),),
            (Intervention(delayed_ns=SECOND),),
        ),
        ((Intervention(rule="r", not_forwarded=True),), (Intervention(answered=True),)),
        ((Intervention(rule="r", altered=True),), ()),
        ((), ()),
    ]
    for number, (asked, answered) in enumerate(done, 1):
        sent, got = produce(number, 0 if number == 1 else DENIED)
        recording.data(0, sent, *asked)
        for _ in range(3):
            recording.note(0)  # time passes
        recording.data(1, got, *answered)
    return recording.write(path)


def test_what_kproxy_held_and_answered_is_no_latency(tmp_path: Path) -> None:
    capture = opened(intervened(tmp_path / "own.pcapng"))
    exchanges = list(ExchangeReader(capture))
    table = capture.table
    measured = (table.column("response_first") - table.column("request_last")).tolist()
    assert min(measured) > 1_000_000
    expected = [measured[0] - 1_000_000, None, *measured[2:]]
    assert [each.latency for each in exchanges] == expected
    assert [each.kproxy_time for each in exchanges] == [SECOND + 1_000_000, measured[1], 0, 0]
    assert [each.end - each.time for each in exchanges] == [measured[0] + SECOND, *measured[1:]]
    latency, there = table.latency(slice(None))
    assert [time if known else None for time, known in zip(latency, there, strict=True)] == expected


def test_errors_of_kproxys_making_are_expected(tmp_path: Path) -> None:
    capture = opened(intervened(tmp_path / "own.pcapng"))
    exchanges = list(ExchangeReader(capture))
    assert [len(each.errors) for each in exchanges] == [0, 1, 1, 1]
    assert [len(each.expected) for each in exchanges] == [0, 1, 1, 0]
    columns = ExchangeColumns(capture)
    found = [
        [list(columns[name][row]) for row in range(4)] for name in ("error_codes", "expected_error_codes")
    ]
    assert found == [[[], [], [], [DENIED]], [[], [DENIED], [DENIED], []]]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("kproxy", {1, 2, 3}),
        ("kproxy.time > 900ms", {1}),
        ("error", {4}),
        ("error.any == 29", {2, 3, 4}),
        ("latency", {1, 3, 4}),
    ],
)
def test_filters_tell_the_two_apart(tmp_path: Path, text: str, numbers: set[int]) -> None:
    reader = ExchangeReader(opened(intervened(tmp_path / "own.pcapng")))
    wanted, context = compile_filter(text), context_of(reader)
    assert {index + 1 for index in wanted.select(reader, context).tolist()} == numbers
    assert {exchange.number for exchange in reader if wanted.match(exchange, context)} == numbers


def test_findings_errors_and_shares_are_the_clusters(tmp_path: Path) -> None:
    capture = opened(intervened(tmp_path / "own.pcapng"))
    reader = ExchangeReader(capture, annotate=False)
    names = reader.knowledge.topic_name
    diagnosis, errors, shares = Diagnosis(capture, names), ErrorStats(), TimeShares(capture, names)
    for exchange in reader:
        for analysis in (diagnosis, errors):
            analysis.add(exchange)
    shares.add_columns(ExchangeColumns(capture, reader.rows), reader, np.arange(len(reader)))
    (denied,) = [each for each in diagnosis.findings() if each.rule == "authorization_failures"]
    assert denied.evidence == (4,)
    assert diagnosis.intervened == 3
    assert [(row.expected, row.exchanges) for row in errors.result()] == [(False, 1), (True, 2)]
    (row,) = shares.result()
    assert row.latency is not None
    assert row.kproxy is not None
    assert (row.latency.count, row.kproxy.count) == (3, 2)


def test_connections_that_kproxy_ended_are_not_the_brokers(tmp_path: Path) -> None:
    recording = Recording()
    sent, got = produce(1)
    recording.data(0, sent)
    recording.data(1, got, Intervention(rule="r", ended="closed"))
    recording.made.send(recording.sent[1], b"", ack=recording.sent[0], from_client=False, fin=True)
    capture = opened(recording.write(tmp_path / "closed.pcapng"))
    assert capture.notes.ended_connections == {0}
    assert ended_by_broker(capture, 0) is None


# ---------------------------------------------------------------- samples
def test_samples_belong_to_connections(tmp_path: Path) -> None:
    capture = opened(rewritten(tmp_path / "proxied.pcapng"))
    assert [(sample.connection, sample.values.side, sample.values.rtt_us) for sample in capture.samples] == [
        (0, "broker", 210),
        (0, "client", 40),
    ]
    first, last = capture.samples
    assert first.values == SAMPLE
    assert first.time < last.time == capture.latest
    assert capture.samples.of(0) == [first, last]
    assert capture.samples.of(1) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("broker.id == 2 and cluster == east", 3),
        ("broker.id in {0..1} or cluster == west", 0),
        ("cluster ~ ^ea", 3),
        ("not broker.id", 0),
    ],
)
def test_the_broker_of_a_connection_is_known_by_node_id_and_cluster(
    tmp_path: Path, text: str, count: int
) -> None:
    capture = opened(rewritten(tmp_path / "proxied.pcapng"))
    reader, wanted = ExchangeReader(capture), compile_filter(text)
    context = context_of(reader)
    assert len(list(wanted.exchanges(reader))) == count
    assert sum(wanted.match(exchange, context) for exchange in reader) == count
    assert {exchange.upstream for exchange in reader} == {UPSTREAM}


def test_of_several_connections_between_the_same_ends_the_latest_is_meant() -> None:
    class Three(SimpleNamespace):
        def __len__(self) -> int:
            return 3

    connections = Three(a=np.array([1, 5, 1]), b=np.array([2, 2, 2]), first_number=np.array([1, 2, 30]))
    samples = Samples(connections)  # type: ignore[arg-type]
    block = SimpleNamespace(
        number=np.array([10, 11, 40]),
        src=np.array([2, 5, 1]),
        dst=np.array([1, 2, 2]),
        time=np.array([7, 8, 9]),
    )
    samples.take(block, {number: [TcpSample(side="client")] for number in (10, 11, 40)})  # type: ignore[arg-type]
    assert [(sample.time, sample.connection) for sample in samples] == [(7, 0), (8, 1), (9, 2)]
    samples.forget(9)
    assert [sample.time for sample in samples] == [9]


# ---------------------------------------------------------------- captures of days
@pytest.mark.slow
def test_what_was_shown_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_FORGET_EVERY", 0.0)
    monkeypatch.setattr(GrowingCapture, "remembered", 20_000_000)  # 20 packets of a Conversation
    recording = Recording(Conversation(broker=BROKER))
    for number in range(1000):
        asked, answered = metadata(number)
        recording.data(0, asked, DELAYED)
        recording.data(1, answered, REWRITTEN)
        recording.note(1, SAMPLE)
    path = recording.write(tmp_path / "long.pcapng")
    capture = GrowingCapture(open_files([str(path)]), 4096)
    reader, shown, most = ExchangeReader(capture, live=True), [], 0
    for rows in capture.updates():
        shown += [exchange.interventions for exchange in reader.take(rows.tolist())]
        most = max(most, _kept(capture.notes), len(capture.samples))
    assert shown == [Interventions((DELAYED,), (REWRITTEN,))] * 1000
    assert most < 200


def _kept(notes: Notes) -> int:
    sizes = [len(each) for each in (notes._interventions, notes._read_at, notes._packets, notes._comments)]
    return max(*sizes, sum(map(len, notes._ranges.values())))


def test_lines_of_users_and_of_the_proxy() -> None:
    told = parse_comment('a\nkproxy: {"answered":true}\nb\nkproxy: {"tcp":{"side":"client"}}\nkproxy: c')
    assert told.own == "a\nb\nkproxy: c"
    assert len(told.interventions) == len(told.samples) == 1
    assert len(told.lines) == 2
