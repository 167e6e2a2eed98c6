"""The stories of connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.connection_stats import ConnectionStats
from captures.analysis.connection_story import IDLE, MOST, ConnectionStories, Moment, _sampled
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from captures.exchanges.samples import Sample
from captures.interventions import TcpSample
from tests.captures.analysis.kit import MS, error, exchange, unanswered
from tests.captures.recorded import FOLDER


@pytest.fixture
def capture() -> Capture:
    """A connection recorded from beginning to end, with synthetic exchanges."""
    capture = open_capture(str(FOLDER / "20_k430_ck_zstd.pcap"))
    capture.read()
    return capture


def told(capture: Capture, *exchanges: Exchange) -> list[Moment]:
    stories, stats = ConnectionStories(capture), ConnectionStats(capture)
    for number, each in enumerate(exchanges, 1):
        each.number = number
        each.time += int(capture.connections.first_time[0])
        stories.add(each)
        stats.add(each)
    return [moment for moment in stories.of(stats.row(0)) if moment.number is not None]


def texts(moments: list[Moment]) -> list[str]:
    return [moment.text for moment in moments]


def test_how_it_begins(capture: Capture) -> None:
    software = {"client_software_name": "java", "client_software_version": "4.3.0"}
    moments = told(
        capture,
        exchange(18, 3, request=software),
        exchange(18, 3, request=software),
        exchange(17, 1, request={"mechanism": "PLAIN"}),
        exchange(36, 2, request={}),
        exchange(3, 12, request={}),
        exchange(1, 12, request={}),
        exchange(17, 1, request={"mechanism": "PLAIN"}),
    )
    assert texts(moments) == [
        "introduces itself as java 4.3.0",
        "authenticates by PLAIN",
        "first request: Metadata v12",
        "authenticates again by PLAIN",
    ]
    assert [moment.number for moment in moments] == [1, 3, 5, 7]


def test_errors_and_missing_answers(capture: Capture) -> None:
    moments = told(capture, exchange(12, 4, errors=[error(27)]), unanswered(1, 12, time=2_000 * MS))
    assert texts(moments[1:]) == ["Heartbeat: REBALANCE_IN_PROGRESS", "Fetch: no answer came"]
    assert all(moment.trouble for moment in moments[1:])


def test_silence_is_told_with_what_ended_it(capture: Capture) -> None:
    moments = told(capture, exchange(time=0), exchange(time=IDLE), exchange(time=IDLE + IDLE + 2 * MS))
    assert texts(moments) == ["first request: Metadata v12", "silence for 10 s"]
    assert moments[1].number == 3
    assert moments[1].time - moments[0].time == IDLE + 2 * MS


def test_what_happens_often_is_counted(capture: Capture) -> None:
    stories, stats = ConnectionStories(capture), ConnectionStats(capture)
    for number in range(MOST + 7):
        stories.add(exchange(12, 4, errors=[error(27)], number=number, time=number))
    moments = stories.of(stats.row(0))
    assert sum(moment.text.startswith("Heartbeat") for moment in moments) == MOST
    assert moments[-1].text == "7 more exchanges with an error or without an answer"
    assert stories.mix(0) == {"Heartbeat": MOST + 7}
    assert stories.mix(1) == {}


def test_tcp_opens_and_closes(capture: Capture) -> None:
    story = ConnectionStories(capture).of(ConnectionStats(capture).row(0))
    assert story[0].text.startswith("opened by the client, accepted after ")
    assert story[-1].text in ("closed by the client", "closed by the broker", "reset by the client")
    assert [moment.time for moment in story] == sorted(moment.time for moment in story)


def test_connections_that_were_open_and_those_that_are_no_kafka(recorded_garbage: Path) -> None:
    open_before = open_capture(str(FOLDER / "26_k430_add_controller_controller.pcap.zst"))
    open_before.read()
    assert (
        ConnectionStories(open_before).of(ConnectionStats(open_before).row(0))[0].text
        == "the capture begins, the connection was open"
    )
    garbage = open_capture(str(recorded_garbage))
    garbage.read()
    stats, stories = ConnectionStats(garbage), ConnectionStories(garbage)
    (foreign,) = {
        moment.text.partition(":")[0]
        for connection in garbage.foreign
        for moment in stories.of(stats.row(connection))
        if "not Kafka" in moment.text
    }
    assert foreign == "not Kafka in the clear"


def test_what_the_kernel_told() -> None:
    def sample(time: int, side: str, again: int = 0, window: int | None = None) -> Sample:
        values = TcpSample(side="client" if side == "client" else "broker", retransmits=again, snd_wnd=window)
        return Sample(time, 0, values)

    moments = _sampled(
        [
            sample(1, "client"),
            sample(2, "broker", window=0),
            sample(3, "broker", window=0),
            sample(4, "client", again=2),
            sample(5, "client", again=2),
            sample(6, "broker", again=1, window=100),
        ]
    )
    assert [(moment.time, moment.text) for moment in moments] == [
        (2, "the broker takes no more data (window closed)"),
        (4, "2 segments sent again to the client"),
        (6, "1 segment sent again to the broker"),
    ]


def test_a_real_one_as_a_whole() -> None:
    capture = open_capture(str(FOLDER.parents[2] / "captures" / "samples" / "rebalance.pcap"))
    capture.read()
    stories, stats = ConnectionStories(capture), ConnectionStats(capture)
    for each in ExchangeReader(capture, annotate=False, summary=False):
        stories.add(each)
        stats.add(each)
    said = texts(stories.of(stats.row(6)))
    assert said[1:3] == ["introduces itself as apache-kafka-java 4.3.0", "first request: JoinGroup v9"]
    assert said[-2:] == ["closed by the client", "closed by the broker"]
    assert said.count("Heartbeat: REBALANCE_IN_PROGRESS") == 5
