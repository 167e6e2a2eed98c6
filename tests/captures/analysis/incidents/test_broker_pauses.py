"""Brokers that sent no responses on one connection for a while."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.incidents import of_brokers as module
from captures.analysis.incidents.model import Incident, IncidentKind
from captures.analysis.incidents.of_brokers import broker_pauses
from captures.analysis.slow_answers import SlowAnswer, SlowAnswers
from captures.exchanges import Capture, ExchangeReader, open_capture
from dissectors.api_keys import ApiKey
from dissectors.units import SECOND
from tests.captures.analysis.groups.truth import FOLDER

PATH = FOLDER.parent / "findings" / "26_k430_broker_sigstop_clients.pcap.zst"


@pytest.fixture(scope="module")
def recording() -> tuple[Capture, list[SlowAnswer]]:
    capture = read(PATH)
    slow = SlowAnswers()
    for exchange in ExchangeReader(capture, annotate=False):
        slow.add(exchange)
    return capture, slow.found


def read(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def test_of_several_brokers_the_one_that_was_silent_longest_may_have_paused(
    recording: tuple[Capture, list[SlowAnswer]],
) -> None:
    (pause,) = broker_pauses(*recording, [], {})
    assert (pause.who, pause.certainty) == (("127.0.0.1:11292",), Certainty.POSSIBLE)
    assert "acks=all" in pause.alternatives[0]


def test_quotas_are_no_pause(recording: tuple[Capture, list[SlowAnswer]]) -> None:
    capture, slow = recording
    assert not list(broker_pauses(capture, [each._replace(throttled=True) for each in slow], [], {}))


@pytest.mark.parametrize(
    ("key", "other"), [(ApiKey.PRODUCE, "acks=all"), (ApiKey.INIT_PRODUCER_ID, "this request took long")]
)
def test_a_single_waiting_request_may_show_a_pause(
    recording: tuple[Capture, list[SlowAnswer]], key: ApiKey, other: str
) -> None:
    capture, slow = recording
    longest = max(slow, key=lambda each: each.excess)._replace(key=key, api="Sole")
    (pause,) = broker_pauses(capture, [longest], [], {})
    assert pause.certainty is Certainty.POSSIBLE
    assert other in pause.alternatives[0]
    assert pause.sentence.endswith("it answered nothing, and a single Sole was waiting.")
    quick = longest._replace(time=longest.end - 2 * SECOND)
    assert not list(broker_pauses(capture, [quick], [], {}))


def test_a_known_outage_of_another_broker_explains_the_silence(
    recording: tuple[Capture, list[SlowAnswer]],
) -> None:
    capture, slow = recording
    outage = Incident(
        kind=IncidentKind.BROKER_OUTAGE,
        begin=slow[0].time,
        end=None,
        who=("127.0.0.1:1",),
        brokers=("127.0.0.1:1",),
        sentence="Broker 127.0.0.1:1 went down.",
    )
    assert not list(broker_pauses(capture, slow, [outage], {}))


def test_packets_rule_out_that_the_network_was_cut(
    recording: tuple[Capture, list[SlowAnswer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, slow = recording
    monkeypatch.setattr(module, "_resent", lambda *_: True)
    (pause,) = broker_pauses(capture, slow, [], {})
    assert len(pause.alternatives) == 1
    assert not pause.cut
    monkeypatch.setattr(module, "_cut_off", lambda *_: {})  # packets that cannot be read again
    (doubted,) = broker_pauses(capture, slow, [], {})
    assert "network" in doubted.alternatives[1]
    assert len(doubted.cut) == 1


def test_a_pause_at_another_time_than_an_outage_of_the_network(
    recording: tuple[Capture, list[SlowAnswer]], monkeypatch: pytest.MonkeyPatch
) -> None:
    capture, slow = recording
    (pause,) = broker_pauses(capture, slow, [], {})
    assert pause.end is not None
    begin, end = pause.end + 60 * SECOND, pause.end + 65 * SECOND
    late = next(each for each in slow if each.broker in pause.brokers)
    monkeypatch.setattr(module, "_cut_off", lambda *_: {late.connection: [(begin, end)]})
    outage, same = broker_pauses(capture, [*slow, late._replace(time=begin, end=end)], [], {})
    assert (outage.kind, outage.begin, outage.end) == (IncidentKind.NETWORK_OUTAGE, begin, end)
    assert same == pause
