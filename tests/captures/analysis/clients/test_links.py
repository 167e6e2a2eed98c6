"""Evidence from connections: security, idle connections closed by clients, and failed attempts."""

from __future__ import annotations

from typing import Any

import pytest

from captures.analysis.attempts import Attempt, Outcome
from captures.analysis.client_identity import Introduction
from captures.analysis.clients import links
from captures.analysis.clients.client_reader import read_clients
from captures.analysis.clients.inventory import Clients
from captures.analysis.clients.links import ActiveTimes, Links, failed_attempts, idle_before_close
from captures.analysis.clients.settings import ValueSource, by_key
from captures.exchanges import ExchangeReader, open_capture
from captures.packets.tls import KeyLog
from tests.captures.analysis.clients.kit_clients import DATA, told

SECOND = 1_000_000_000
CAPTURE: Any = None


@pytest.mark.parametrize(
    ("mechanism", "tls", "protocol"),
    [
        (None, False, "PLAINTEXT"),
        (None, True, "SSL"),
        ("PLAIN", False, "SASL_PLAINTEXT"),
        ("SCRAM-SHA-256", True, "SASL_SSL"),
    ],
)
def test_the_security_protocol(mechanism: str | None, tls: bool, protocol: str) -> None:
    seen = Links()
    seen.secured(Introduction(mechanism=mechanism), 7, tls=tls)
    settings = by_key(list(seen.settings()))
    assert settings["security.protocol"].value == protocol
    assert settings["security.protocol"].evidence == (7,)
    assert settings["sasl.mechanism"].value == mechanism if mechanism else "sasl.mechanism" not in settings


def test_decrypted_connections_are_tls() -> None:
    folder = DATA / "captures"
    capture = open_capture(
        str(folder / "tls_java_13.pcap"), keylog=KeyLog(str(folder / "tls_java_13.keylog"))
    )
    capture.read()
    clients = Clients(capture)
    assert list(read_clients(ExchangeReader(capture, annotate=False, summary=False), clients))
    assert {told(each)["security.protocol"].text for each in clients.result()} == {"SSL"}


@pytest.fixture
def closing(monkeypatch: pytest.MonkeyPatch) -> dict[str, int | None]:
    times: dict[str, int | None] = {"end": 640 * SECOND, "by_broker": None}
    monkeypatch.setattr(links, "ended", lambda *_: times["end"])
    monkeypatch.setattr(links, "ended_by_broker", lambda *_: times["by_broker"])
    return times


def test_a_client_that_closes_what_is_idle_and_goes_on(closing: dict[str, int | None]) -> None:
    others = [(50 * SECOND, 700 * SECOND)]
    assert idle_before_close(CAPTURE, 0, 100 * SECOND, ActiveTimes(others)) == 540 * SECOND
    seen = Links()
    seen.idle.add(540 * SECOND, 9)
    (setting,) = seen.settings()
    assert (setting.key, setting.value, setting.how) == (
        "connections.max.idle.ms",
        540_000,
        ValueSource.ESTIMATED,
    )


@pytest.mark.parametrize(
    ("last", "others", "end", "by_broker"),
    [
        (100, [], 640, None),  # it has no other connection
        (100, [(50, 640)], 640, None),  # it closes them all
        (100, [(650, 700)], 640, None),  # it was restarted
        (630, [(50, 700)], 640, None),  # it was not idle
        (100, [(50, 700)], 640, 640),  # the broker closed it
        (100, [(50, 700)], None, None),  # it is open
    ],
)
def test_other_ends_tell_nothing(
    closing: dict[str, int | None],
    last: int,
    others: list[tuple[int, int]],
    end: int | None,
    by_broker: int | None,
) -> None:
    closing["end"] = None if end is None else end * SECOND
    closing["by_broker"] = None if by_broker is None else by_broker * SECOND
    spans = [(first * SECOND, until * SECOND) for first, until in others]
    assert idle_before_close(CAPTURE, 0, last * SECOND, ActiveTimes(spans)) is None


def test_attempts_after_one_that_was_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def attempt(milliseconds: int, outcome: Outcome, broker: str = "10.0.0.1:9092") -> Attempt:
        return Attempt(0, milliseconds * 1_000_000, f"10.0.0.9:{milliseconds}", broker, outcome)

    refused, accepted = Outcome.REFUSED, Outcome.ACCEPTED
    tries = [attempt(0, refused), attempt(51, refused), attempt(160, accepted), attempt(900, accepted)]
    tries.append(attempt(20, accepted, "10.0.0.2:9092"))
    monkeypatch.setattr(links, "attempts", lambda _: iter(tries))
    assert list(failed_attempts(CAPTURE)) == [("10.0.0.9", 51_000_000), ("10.0.0.9", 109_000_000)]


def test_the_backoff_of_attempts() -> None:
    seen = Links()
    for milliseconds in (51, 55, 102, 230):
        seen.reconnects.add(milliseconds * 1_000_000, 0)
    (setting,) = seen.settings()
    assert (setting.key, setting.value, setting.evidence) == ("reconnect.backoff.ms", 51, ())
