"""Exchanges decoded in several processes: the same, in the same order, without leftovers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable
from multiprocessing import active_children, get_all_start_methods

import msgspec
import numpy as np
import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture, parallel
from captures.exchanges.columns import COLUMNS, ExchangeColumns, RaggedArray
from captures.exchanges.parallel import in_parallel, in_processes
from captures.json_objects import to_json
from captures.packets import CaptureError
from tests.captures.recorded import CAPTURES, FOLDER

pytestmark = pytest.mark.skipif(
    "fork" not in get_all_start_methods(), reason="without fork all is done in one process"
)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SHARE", 1 << 14)


@pytest.fixture
def reader() -> ExchangeReader:
    """Consumers of KIP-848; their topic names come from earlier exchanges."""
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
    reader.capture.jobs = 3
    shares = list(in_parallel(reader, every(reader), with_process))
    assert [line for _, share in shares for line in share] == expected
    assert len({process for process, _ in shares} - {os.getpid()}) == 3
    assert not active_children()


@pytest.mark.slow
def test_chosen_exchanges(reader: ExchangeReader) -> None:
    expected = lines(ExchangeReader(reader.capture))
    chosen = every(reader)[5::3]
    reader.capture.jobs = 2
    shares = list(in_parallel(reader, chosen, lines))
    assert shares == [expected[index] for index in chosen]


def test_little_work_and_one_processor_stay_in_this_process(reader: ExchangeReader) -> None:
    for indexes, jobs in ((every(reader)[:20], 4), (every(reader), 1)):
        reader.capture.jobs = jobs
        assert {process for process, _ in in_parallel(reader, indexes, with_process)} == {os.getpid()}
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
    reader.capture.jobs = 2
    with pytest.raises(error, match=says):
        list(in_parallel(reader, every(reader), work))
    assert not active_children()


def test_who_has_seen_enough_leaves_no_processes(reader: ExchangeReader) -> None:
    reader.capture.jobs = 2
    shares = in_parallel(reader, every(reader), lines)
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
    reader.capture.jobs = jobs
    pieces = list(in_parallel(reader, every(reader), one_by_one))
    assert pieces == [b"%d" % (at + 1) for at in range(len(reader))]


def large(share: int) -> Iterable[bytes]:
    return [b"%d" % share + bytes(1 << 16)] * 8


@pytest.mark.parametrize("ahead", [0, 1 << 17, 1 << 30])
def test_results_keep_their_order_however_much_may_wait(
    reader: ExchangeReader, monkeypatch: pytest.MonkeyPatch, ahead: int
) -> None:
    monkeypatch.setattr(parallel, "_AHEAD", ahead)
    reader.capture.jobs = 3
    shares = [piece.rstrip(b"\0") for piece in in_processes(reader.capture, range(7), large)]
    assert shares == [b"%d" % share for share in range(7) for _ in range(8)]
    assert not active_children()


def noting(share: int) -> Iterable[int]:
    raise_in = ValueError(f"share {share}")
    READERS[0].capture.faults.note(raise_in, "testing", share + 1)
    return [share]


READERS: list[ExchangeReader] = []


def test_faults_of_all_processes_are_told(reader: ExchangeReader) -> None:
    reader.capture.jobs = 2
    READERS[:] = [reader]
    assert list(in_processes(reader.capture, range(4), noting)) == [0, 1, 2, 3]
    assert reader.capture.faults.count == 4


# ---------------------------------------------------------------- columns
def values_of(columns: ExchangeColumns, name: str) -> object:
    column = columns[name]
    texts = columns.texts(name) if COLUMNS[name].coded else None
    if isinstance(column, RaggedArray):
        return column.values.tolist(), column.offsets.tolist(), texts
    return column.tolist(), texts


@pytest.mark.slow
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_columns_are_those_of_one_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.exchanges.columns._LEAST_SHARE", 16)
    capture = open_capture(str(FOLDER / name))
    capture.read()
    order = capture.table.order()
    alone = ExchangeColumns(capture, order)
    alone.prepare(COLUMNS)
    capture.jobs = 3
    together = ExchangeColumns(capture, order)
    together.prepare(COLUMNS)
    for column in COLUMNS:
        assert values_of(together, column) == values_of(alone, column), column
