"""Exchanges decoded in several processes: the same, in the same order, and nothing is left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing import active_children, get_all_start_methods

import msgspec
import numpy as np
import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture, parallel
from captures.exchanges.parallel import in_parallel
from captures.json_objects import to_json
from captures.packets import CaptureError
from tests.captures.recorded import FOLDER

pytestmark = pytest.mark.skipif(
    "fork" not in get_all_start_methods(), reason="without fork all is done in one process"
)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SHARE", 1 << 14)


@pytest.fixture
def reader() -> ExchangeReader:
    """Consumers of KIP-848, whose topics have their names from earlier exchanges."""
    capture = open_capture(str(FOLDER / "21_k430_kip848_java.pcap.zst"))
    capture.read()
    return ExchangeReader(capture)


def every(reader: ExchangeReader) -> np.ndarray:
    return np.arange(len(reader))


def lines(exchanges: Iterable[Exchange]) -> list[bytes]:
    return [msgspec.json.encode(to_json(exchange)) for exchange in exchanges]


def with_process(exchanges: Iterable[Exchange]) -> list[tuple[int, list[bytes]]]:
    return [(os.getpid(), lines(exchanges))]


@pytest.mark.slow
def test_the_same_exchanges_in_the_same_order(reader: ExchangeReader) -> None:
    expected = lines(ExchangeReader(reader.capture))
    shares = list(in_parallel(reader, every(reader), with_process, jobs=3))
    assert [line for _, share in shares for line in share] == expected
    assert len({process for process, _ in shares} - {os.getpid()}) == 3
    assert not active_children()


@pytest.mark.slow
def test_chosen_exchanges(reader: ExchangeReader) -> None:
    expected = lines(ExchangeReader(reader.capture))
    chosen = every(reader)[5::3]
    shares = list(in_parallel(reader, chosen, lines, jobs=2))
    assert shares == [expected[index] for index in chosen]


def test_little_work_and_one_processor_stay_in_this_process(reader: ExchangeReader) -> None:
    for indexes, jobs in ((every(reader)[:20], 4), (every(reader), 1)):
        assert {process for process, _ in in_parallel(reader, indexes, with_process, jobs)} == {os.getpid()}
    assert list(in_parallel(reader, every(reader)[:0], lines)) == []


def killed(_: Iterable[Exchange]) -> list[bytes]:
    os.kill(os.getpid(), signal.SIGKILL)
    return []


def failing(_: Iterable[Exchange]) -> list[bytes]:
    raise ZeroDivisionError("in a share")


@pytest.mark.parametrize(
    ("work", "error", "says"),
    [(killed, CaptureError, "killed"), (failing, ZeroDivisionError, "in a share")],
)
def test_what_goes_wrong_is_raised_here(
    reader: ExchangeReader, work: Callable[..., list[bytes]], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        list(in_parallel(reader, every(reader), work, jobs=2))
    assert not active_children()


def test_who_has_seen_enough_leaves_no_processes(reader: ExchangeReader) -> None:
    shares = in_parallel(reader, every(reader), lines, jobs=2)
    next(shares)
    assert len(active_children()) == 2
    shares.close()
    assert not active_children()


def one_by_one(exchanges: Iterable[Exchange]) -> Iterable[bytes]:
    for exchange in exchanges:
        yield msgspec.json.encode(exchange.number)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [1, 3])
def test_pieces_of_a_share_come_one_after_the_other(reader: ExchangeReader, jobs: int) -> None:
    pieces = list(in_parallel(reader, every(reader), one_by_one, jobs=jobs))
    assert pieces == [b"%d" % (at + 1) for at in range(len(reader))]
