"""The remaining information on exchanges whose bytes a bounded spool has dropped."""

from __future__ import annotations

import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.packets.tls import KeyLog
from tests.conftest import DATA

BLOCK = 1 << 13


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.packets.spool._LEAST_CHUNK", 1 << 10)
    monkeypatch.setattr("captures.packets.stores._AT_ONCE", BLOCK)


def opened(name: str, spool: int, keylog: KeyLog | None = None) -> Capture:
    capture = open_capture(str(DATA / name), BLOCK, spool=spool, keylog=keylog)
    capture.read()
    return capture


@pytest.mark.slow
def test_exchanges_tell_that_their_bytes_were_dropped() -> None:
    name = "21_k430_kip848_java.pcap.zst"
    whole, bounded = opened(name, 1 << 30), opened(name, 64 << 10)
    assert bounded.source.size == whole.source.size > 2 * (64 << 10)
    everything, rest = list(ExchangeReader(whole)), list(ExchangeReader(bounded))
    assert len(rest) == len(everything)
    dropped = [any("dropped from the spool" in each.reason for _, each in made.problems) for made in rest]
    assert dropped[0]
    assert not dropped[-1]
    for one, other, gone in zip(everything, rest, dropped, strict=True):
        if gone:
            assert "problem" in other.flags
            assert not other.decoded_fully
            assert (one.api, one.version, one.time) == (other.api, other.version, other.time)
    first = rest[0]
    side, problem = first.problems[0]
    assert (side, problem.offset) == ("request", 4)
    size = first.request_size
    assert (
        problem.reason
        == f"{size - 4} of {size} bytes were dropped from the spool (--spool enlarges it), or with their file"
    )
    assert [each.reason for _, each in first.problems if "spool" not in each.reason] == []


@pytest.mark.slow
def test_the_last_exchanges_are_whole() -> None:
    name = "26_k430_add_controller_controller.pcap.zst"
    whole, bounded = opened(name, 1 << 30), opened(name, 128 << 10)
    everything, rest = list(ExchangeReader(whole)), list(ExchangeReader(bounded))
    kept = [other for other in rest if not any("spool" in each.reason for _, each in other.problems)]
    assert 10 < len(kept) < len(rest) - 10
    # topic names and the like may come from dropped exchanges
    same = [to_json(other)["response"] == to_json(everything[other.number - 1])["response"] for other in kept]
    assert all(same)


def test_decrypted_bytes_are_dropped_too() -> None:
    keylog = KeyLog(DATA / "24_k430_tls13_franz.keylog")
    capture = opened("24_k430_tls13_franz.pcap", 2 << 10, keylog)
    made = list(ExchangeReader(capture))
    assert made
    assert "dropped from the spool" in made[0].problems[0][1].reason
    assert made[-1].decoded_fully
