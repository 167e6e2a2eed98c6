"""The text above the fields of an exchange."""

from __future__ import annotations

import numpy as np

from captures.exchanges.columns import ExchangeColumns
from kproxy.session.access import Access
from kproxy.session.engine import Steps
from kproxy.session.listed import ListedExchanges
from kproxy.tui.detail.overview import overview
from tests.kproxy.tui.detail.details import capture_of

REBALANCE = "../../../captures/samples/rebalance.pcap"


def said_of(name: str, number: int) -> tuple[str, str]:
    """Return the text about an exchange in a recorded capture."""
    capture = capture_of(name)
    listed = ListedExchanges(capture, show_secrets=False, payload="full")
    listed.extend(fits=True)
    listed.settle(listed.reader.rows)
    listed.sort()

    def no_columns(_: object) -> Steps[ExchangeColumns]:
        raise AssertionError("columns are not needed for one exchange")

    access = Access(capture, listed, lambda: np.empty(0, np.int64), no_columns, lambda: True)
    return overview(access.exchange(number), access)


def test_a_long_poll_is_told_apart_from_what_came_on_top() -> None:
    time, place = said_of(REBALANCE, 100)
    assert time == (
        "latency 500 ms: designed wait 500 ms (long poll: nothing new to read), excess 88 µs, network 9 µs (0 %)"
    )
    assert place == "connection 8, frames 398,446, 498.8 ms after #93 Fetch, 501.6 ms before #112 Fetch"


def test_the_first_of_a_connection_has_nothing_before_it() -> None:
    assert said_of(REBALANCE, 1)[1] == "connection 0, frames 4,6, 0.7 ms before #2 Metadata"


def test_a_request_log_has_no_frames_and_no_network() -> None:
    time, place = said_of("../request_log/kafka_4.3.0.log.gz", 20)
    assert time.startswith("latency 831 µs: in the broker: request queue ")
    assert place.startswith("connection 1, 15.9 ms after #19 BrokerHeartbeat")
