"""Filters on names of addresses, marks and comments: by columns and by exchanges alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.filters import compile_filter, context_of

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"


@pytest.fixture(scope="module")
def capture() -> Capture:
    made = open_capture(str(SAMPLE))
    made.read()
    host = made.endpoints(0)[1].rpartition(":")[0]
    made.names.add(host, "kafka-0.shop", "kafka-0")
    # one client among several of the same host
    client_host, _, port = made.endpoints(3)[0].rpartition(":")
    made.names.add(client_host, "orders-pod", port=int(port))
    rows = made.table.order()
    made.notes.mark(int(rows[4]))
    made.notes.comment(int(rows[9]), "look at this")
    return made


def numbers(capture: Capture, text: str) -> list[int]:
    """Return the matches by columns; assert that they equal the matches one by one."""
    wanted, reader = compile_filter(text), ExchangeReader(capture)
    context = context_of(reader, wanted)
    found = [exchange.number for exchange in wanted.exchanges(reader, context)]
    assert found == [exchange.number for exchange in reader if wanted.match(exchange, context)]
    return found


def of_connection(capture: Capture, connection: int) -> list[int]:
    order = capture.table.order()
    return (np.flatnonzero(capture.table.column("connection")[order] == connection) + 1).tolist()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        'client ~ "orders-pod"',
        "client == orders-pod",
        "client == ORDERS-POD",
        'client ~ "^orders-pod:[0-9]+$"',
        "client.host == orders-pod",
        "client in {orders-pod, elsewhere}",
    ],
)
def test_a_client_is_found_by_its_name(capture: Capture, text: str) -> None:
    mine = of_connection(capture, 3)
    assert mine
    assert numbers(capture, text) == mine
    assert len(numbers(capture, f"not ({text})")) == len(capture.table) - len(mine)


@pytest.mark.slow
def test_all_names_are_known_and_addresses_still_are(capture: Capture) -> None:
    everything = len(capture.table)
    host, _, port = capture.endpoints(0)[1].rpartition(":")
    for text in ("broker ~ kafka-0", "broker.host == kafka-0.shop", f"broker == kafka-0:{port}"):
        assert len(numbers(capture, text)) == everything, text
    assert numbers(capture, f"broker == {host}")
    assert numbers(capture, "broker == kafka-1") == []


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("@marked", [5]),
        ("marked", [5]),
        ("~m", [5]),
        ("comment", [10]),
        ("comment contains this", [10]),
        ("~comment ^look", [10]),
        ("comment ~ nothing", []),
        ("@marked or comment", [5, 10]),
        ("not @unmarked", [5]),
    ],
)
def test_marks_and_comments(capture: Capture, text: str, found: list[int]) -> None:
    assert numbers(capture, text) == found
