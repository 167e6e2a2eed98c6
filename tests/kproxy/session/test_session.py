from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import numpy as np
import pytest

from captures.arrays import Int64s
from captures.exchanges import Capture, Exchange, ExchangeReader, ExchangeTable, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.export.capture_file import CaptureFileWriter
from captures.export.selection import Selection
from captures.filters import Context, FilterError, compile_filter
from captures.packets import open_files
from captures.packets.spool import DEFAULT_SPOOL
from dissectors.api_keys import ApiKey
from dissectors.session_context import OBSERVED_APIS
from kproxy.session import Access, Order, Session, ShownExchanges, State, Status, Steps, folds
from kproxy.session.folds import Activity
from kproxy.session.listed import ListedExchanges
from tests.conftest import DATA
from tests.kproxy.tui.kit import REBALANCE, read_session, session_of
from tests.waiting import until

CAPTURES = (
    REBALANCE,
    DATA / "20_k430_ck_zstd.pcap",
    DATA / "09_snaplen128.pcap",
    DATA / "06_noida_acks0_java.pcap",
    DATA / "21_k430_share_group.pcap.zst",
)
FILTERS = ("error", "latency > 1ms", "topic ~ r2 or group", "api == Fetch and records > 0", "not response")


@pytest.mark.sample(3)
@pytest.mark.parametrize("path", CAPTURES, ids=lambda path: path.name)
async def test_the_numbers_are_those_of_other_commands(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    expected = {each.number: (each.api, each.summary, each.latency) for each in ExchangeReader(capture)}
    async with read_session(path) as session:
        assert session.status.exchanges == len(session.shown) == len(expected)
        assert session.status.finished
        assert not session.status.failure
        made = await session.run(
            lambda access: {
                each.number: (each.api, each.summary, each.latency)
                for each in access.exchanges(range(1, len(expected) + 1), annotated=True)
            }
        )
    assert made == expected


@pytest.mark.sample(3)
@pytest.mark.parametrize("text", FILTERS)
@pytest.mark.parametrize("path", CAPTURES[:3], ids=lambda path: path.name)
async def test_a_filter_shows_what_it_selects_elsewhere(path: Path, text: str) -> None:
    capture = open_capture(str(path))
    capture.read()
    wanted = compile_filter(text)
    expected = (wanted.select(ExchangeReader(capture)) + 1).tolist()
    async with read_session(path) as session:
        await session.set_filter(compile_filter(text))
        assert session.shown.all().tolist() == expected
        assert session.status.shown == len(expected)
        assert session.status.filter is not None
        await session.set_filter(None)
        assert len(session.shown) == len(capture.table)


async def test_a_filter_takes_the_place_of_one_that_is_under_way() -> None:
    async with read_session() as session:
        both = asyncio.gather(
            session.set_filter(compile_filter('topic ~ "nothing"')),
            session.set_filter(compile_filter("api == Fetch")),
        )
        await both
        assert session.status.filter is not None
        assert session.status.filter.text == "api == Fetch"
        made = await session.run(
            lambda access: {each.api for each in access.exchanges(access.shown().tolist())}
        )
    assert made == {"Fetch"}


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("column", "key"),
    [
        ("latency", lambda each: each.latency),
        ("client", lambda each: each.client.casefold()),
        ("api", lambda each: each.api.casefold()),
        ("response_size", lambda each: each.response_size),
        ("excess", lambda each: None if each.latency is None else each.latency - each.wait),
        (
            "request.group_id",
            lambda each: (each.request.value or {}).get("group_id") if each.request else None,
        ),
    ],
)
@pytest.mark.parametrize("descending", [False, True])
async def test_the_list_is_ordered_by_a_column(column: str, key: object, *, descending: bool) -> None:
    async with read_session() as session:
        await session.set_order(Order(column, descending))
        exchanges = await session.run(lambda access: list(access.exchanges(access.shown().tolist())))
    assert sorted(each.number for each in exchanges) == list(range(1, 403))
    keys = [key(each) for each in exchanges]  # type: ignore[operator]
    there = [each for each in keys if each is not None]
    assert there == sorted(there, reverse=descending)
    assert keys[len(there) :] == [None] * (len(keys) - len(there))


async def test_what_is_no_column_is_refused_and_changes_nothing() -> None:
    async with read_session() as session:
        with pytest.raises(FilterError):
            await session.set_order(Order("request.nothing"))
        assert session.status.order is None
        assert session.shown.number(0) == 1


async def test_marks_are_shown_alone_and_taken_away() -> None:
    async with read_session() as session:
        await session.mark([3, 5, 400])
        assert session.status.marked == 3
        await session.set_marked_only(True)
        assert session.shown.all().tolist() == [3, 5, 400]
        await session.mark([5])  # the second time removes the mark
        assert session.shown.all().tolist() == [3, 400]
        await session.set_marked_only(False)
        await session.set_filter(compile_filter("@marked"))
        assert session.shown.all().tolist() == [3, 400]
        await session.unmark_all()
        assert session.shown.all().tolist() == []


async def test_a_comment_is_kept_and_can_be_looked_for() -> None:
    async with read_session() as session:
        await session.comment(7, "look here")
        assert (await session.exchange(7)).note.comment == "look here"
        await session.set_filter(compile_filter('comment ~ "look"'))
        assert session.shown.all().tolist() == [7]
        await session.comment(7, "")
        assert session.shown.all().tolist() == []


async def test_marks_in_the_capture_are_there(tmp_path: Path) -> None:
    capture = _read(REBALANCE)
    capture.notes.mark(int(capture.table.order()[11]))
    path = tmp_path / "marked.pcapng"
    with path.open("wb") as file:
        CaptureFileWriter(file).write(Selection(capture))
    async with read_session(path) as session:
        assert session.marked == [12]
        assert session.status.marked == 1


async def test_summaries_are_made_of_what_is_wanted() -> None:
    async with read_session() as session:
        assert session.summaries.get(20) is None
        before = session.summaries.version
        session.summaries.want([20, 21])
        await session.idle()
        exchange = await session.exchange(20)
        made = session.summaries.get(20)
        assert made is not None
        assert (made.request, made.response) == exchange.summary
        assert made.state is State.OK
        assert session.summaries.version > before
        assert session.summaries.get(22) is None


async def test_summaries_are_made_again_only_if_something_was_learned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with read_session() as session:
        cleared: list[bool] = []
        monkeypatch.setattr(session.summaries, "clear", lambda: cleared.append(True))
        informative = np.flatnonzero(np.isin(session._capture.table.column("api_key"), sorted(OBSERVED_APIS)))
        knowledge = session._access.reader.knowledge

        async def learn() -> int:
            session._informative.append(informative)
            await session.run(session._learn)
            return len(cleared)

        assert await learn() == 0
        knowledge._clusters["another connection"] = "cluster"  # no summary depends on it
        assert await learn() == 0
        knowledge.learn_topic("new", "name")
        assert await learn() == 1


async def test_fields_are_shown_as_cells() -> None:
    async with read_session() as session:
        session.summaries.show_fields(["request.group_id", "no such field"])
        number = int((compile_filter("api == JoinGroup").select(ExchangeReader(_read(REBALANCE))) + 1)[0])
        session.summaries.want([number])
        await session.idle()
        made = session.summaries.get(number)
        assert made is not None
        assert set(made.cells) == {"request.group_id"}
        assert made.cells["request.group_id"] == "gr2-java_eager_range"


class CountingFold:
    """Counts the exchanges added."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def add(self, exchange: Exchange) -> None:
        """Store the number."""
        self.numbers.append(exchange.number)


async def test_a_fold_counts_what_is_shown_once() -> None:
    async with read_session() as session:
        folding = session.fold("numbers", lambda _: CountingFold())
        assert session.fold("numbers", lambda _: CountingFold()) is folding
        folding.want(True)
        await session.idle()
        assert folding.progress == 1.0
        assert await folding.read(lambda fold, _: fold.numbers) == list(range(1, 403))
        version = folding.version
        await session.set_filter(compile_filter("api == Heartbeat"))
        await session.idle()
        assert folding.version > version
        assert await folding.read(lambda fold, _: fold.numbers) == session.shown.all().tolist()


async def test_marked_exchanges_that_get_other_numbers_at_the_end_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    extend, in_order = ListedExchanges.extend, ExchangeTable.in_order

    def extend_reversed(listed: ListedExchanges, *, fits: bool) -> int:
        with monkeypatch.context() as patch:
            patch.setattr(ExchangeTable, "in_order", lambda table, rows: in_order(table, rows)[::-1])
            return extend(listed, fits=fits)

    monkeypatch.setattr(ListedExchanges, "extend", extend_reversed)
    session = session_of()
    session._capture.notes.mark(11)
    session._marked_only = True
    folding = session.fold("numbers", lambda _: CountingFold())
    folding.want(True)
    session.start()
    await session.idle()
    assert await folding.read(lambda fold, _: fold.numbers) == session.shown.all().tolist() == session.marked
    assert len(session.marked) == 1
    session.close()


async def test_a_fold_that_nobody_wants_waits() -> None:
    async with read_session() as session:
        folding = session.fold("numbers", lambda _: CountingFold())
        await session.idle()
        assert await folding.read(lambda fold, _: fold.numbers) == []
        folding.want(True)
        await session.idle()
        assert len(await folding.read(lambda fold, _: fold.numbers)) == 402


class WholeFold(CountingFold):
    """A fold that adds a file as a whole."""

    TAKEN = ("topics",)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        for done in range(len(columns)):
            self.numbers.append(-done)
            yield done + 1


async def counted(session: Session, *, wanted: bool = True) -> list[int]:
    """Return the numbers that a fold has counted once the session is idle."""
    folding = session.fold("numbers", lambda _: WholeFold(), everything=True)
    folding.want(wanted)
    await session.idle()
    assert (folding.progress == 1) == wanted
    return await folding.read(lambda fold, _: fold.numbers)


async def test_a_file_is_added_as_a_whole_once_it_is_read_however_early_it_is_wanted() -> None:
    async with read_session() as session:
        assert await counted(session, wanted=False) == []
        late = await counted(session)
    session = session_of()
    folding = session.fold("numbers", lambda _: WholeFold(), everything=True)
    folding.want(True)
    session.start()
    early = await counted(session)
    session.close()
    assert early == late == [-done for done in range(402)]


async def test_live_traffic_is_added_as_it_comes() -> None:
    async with read_session(live=True) as session:
        assert sorted(await counted(session)) == list(range(1, 403))


async def test_a_fold_that_restarts_meanwhile_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folds, "_TURN", 0)  # a step per exchange
    restarts = iter([True])

    class RestartingFold(WholeFold):
        def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
            for done in super().add_all(access, columns, indexes):
                if done == 100 and next(restarts, False):
                    assert folding.progress == pytest.approx(0.5 + 99 / 402 / 2, abs=0.01)  # the second pass
                    assert folding.look(lambda fold: fold.numbers) == []
                    folding.restart()
                yield done

    async with read_session() as session:
        without = (ApiKey.HEARTBEAT,)
        folding = session.fold("numbers", lambda _: RestartingFold(), everything=True, without=without)
        assert len(await counted(session)) == 402
        assert next(restarts, False) is False


@pytest.mark.parametrize(
    "text", ["client_id == m1", "error == REBALANCE_IN_PROGRESS", "group == gr2-java_eager_range"]
)
async def test_the_moments_of_what_fits_a_filter_are_those_of_the_list(text: str) -> None:
    async with read_session() as session:
        wanted = compile_filter(text)
        moments = await session.run(Activity(session, wanted, everything=True).renewed)
        await session.set_filter(wanted)
        await session.idle()
        numbers = session.shown.all().tolist()
        assert sorted(moments) == sorted([(await session.exchange(number)).time for number in numbers])
        shown = await session.run(Activity(session, None, everything=False).renewed)
        assert sorted(shown) == sorted(moments)


async def test_the_moments_of_what_comes_are_added_once() -> None:
    session = session_of(live=True)
    activity = Activity(session, compile_filter("api == Fetch"), everything=True)
    session.start()
    for _ in range(3):
        await session.run(activity.renewed)
    await session.idle()
    assert len(await session.run(activity.renewed)) == 127
    session.close()


async def test_apis_that_tell_nothing_are_left_out_of_a_count() -> None:
    async with read_session() as session:
        folding = session.fold("numbers", lambda _: CountingFold(), without=(ApiKey.FETCH, ApiKey.PRODUCE))
        folding.want(True)
        await session.idle()
        assert folding.progress == 1.0
        found = await folding.read(
            lambda fold, access: [access.exchange(number).api for number in fold.numbers]
        )
        assert len(found) == 201
        assert {"Fetch", "Produce"}.isdisjoint(found)


async def test_observers_see_every_exchange_whatever_is_shown() -> None:
    seen: list[int] = []
    session = session_of()
    session.observe(lambda _: lambda exchange: seen.append(exchange.number))
    session.start()
    await session.set_filter(compile_filter("api == Heartbeat"))
    await session.idle()
    session.close()
    assert sorted(seen) == list(range(1, 403))


async def test_values_that_were_met_are_known() -> None:
    async with read_session() as session:
        assert "r2-java_eager_range" in await session.known("topic")
        assert "mk" in await session.known("client_id")
        assert "JoinGroup" in await session.known("api")
        assert "127.0.0.1:10101" in await session.known("broker")
        assert list(await session.known("latency")) == []


async def test_what_is_damaged_is_told() -> None:
    async with read_session(DATA / "09_snaplen128.pcap") as session:
        made = await session.run(lambda access: [each.flag.names for each in access.exchanges(range(1, 10))])
    assert any("response_damaged" in flags for flags in made)


async def test_what_is_no_kafka_is_told(recorded_garbage: Path) -> None:
    async with read_session(recorded_garbage) as session:
        assert any("looks like" in note for note in session.status.notes)


async def test_a_capture_that_ends_inside_a_packet_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "cut.pcap"
    path.write_bytes(REBALANCE.read_bytes()[:100_000])
    async with read_session(path) as session:
        assert 100 < session.status.exchanges < 402
        assert any("the file ends inside packet" in note for note in session.status.notes)


# ------------------------------------------------------------ growing captures
class GrowingFile:
    """A capture file that is written piece by piece."""

    def __init__(self, path: Path, whole: bytes) -> None:
        self.path = path
        self._whole = whole
        self._written = 0
        self.path.write_bytes(b"")

    def write(self, end: int) -> None:
        """Write up to a position."""
        with self.path.open("ab") as file:
            file.write(self._whole[self._written : end])
        self._written = end


@pytest.fixture
def growing(tmp_path: Path) -> GrowingFile:
    made = GrowingFile(tmp_path / "growing.pcap", REBALANCE.read_bytes())
    made.write(60_000)
    return made


@pytest.fixture
def followed(growing: GrowingFile) -> Iterator[Session]:
    source = open_files([str(growing.path)], follow=True, spool=DEFAULT_SPOOL)
    session = Session(Capture(source), title="growing", live=True)
    session.start()
    yield session
    session.close()


@pytest.mark.slow
async def test_what_comes_is_listed_and_requests_in_flight_too(
    growing: GrowingFile, followed: Session
) -> None:
    await until(lambda: followed.status.exchanges > 50)
    before = followed.status.exchanges
    growing.write(120_000)
    await until(lambda: followed.status.exchanges > before + 50)
    size = REBALANCE.stat().st_size
    for end in range(120_000, size, 9_000):
        growing.write(end)
        await asyncio.sleep(0.01)
    growing.write(size)
    await until(lambda: followed.status.exchanges == 402)
    followed._capture.source.stop()
    await until(lambda: followed.status.finished)
    assert followed.status.in_flight == 0


@pytest.mark.slow
async def test_order_filter_and_marks_stay_consistent_while_rows_arrive(
    growing: GrowingFile, followed: Session
) -> None:
    rng = random.Random(6)
    wanted = compile_filter("latency > 800us or topic ~ r2")
    size = REBALANCE.stat().st_size
    marked: set[int] = set()
    for end in [*sorted(rng.sample(range(60_000, size), 12)), size]:
        growing.write(end)
        await asyncio.sleep(0.02)
        action = rng.choice(["filter", "none", "order", "mark", "number"])
        if action == "filter":
            await followed.set_filter(wanted)
        elif action == "none":
            await followed.set_filter(None)
        elif action == "order":
            await followed.set_order(Order("latency", True))
        elif action == "number":
            await followed.set_order(None)
        else:
            await until(lambda: followed.status.exchanges > 0)
            number = rng.randint(1, followed.status.exchanges)
            await followed.mark([number], True)
            marked.add(number)
        shown = followed.shown
        numbers = shown.all().tolist()
        assert len(set(numbers)) == len(numbers) == len(shown)
        for index in rng.sample(range(len(numbers)), min(len(numbers), 20)):
            assert shown.index_of(numbers[index]) == index
    await until(lambda: followed.status.exchanges == 402)
    followed._capture.source.stop()
    await until(lambda: followed.status.finished)
    await followed.set_filter(wanted)
    await followed.set_order(None)
    context_free = await followed.run(
        lambda access: [each.number for each in access.exchanges(range(1, 403)) if _fits(each, access)]
    )
    assert followed.shown.all().tolist() == context_free
    assert set(followed.marked) == marked


def _fits(exchange: Exchange, access: Access) -> bool:
    wanted = compile_filter("latency > 800us or topic ~ r2")
    return wanted.match(exchange, Context(access.reader.knowledge.topic_name, start=0))


@pytest.mark.slow
async def test_the_oldest_are_forgotten_and_numbers_stay(growing: GrowingFile) -> None:
    source = open_files([str(growing.path)], follow=True, spool=DEFAULT_SPOOL)
    session = Session(Capture(source, 4096), title="growing", live=True, kept=100)
    counted = session.fold("numbers", lambda _: CountingFold(), everything=True)
    counted.want(True)
    session.start()
    try:
        size = REBALANCE.stat().st_size
        for end in range(60_000, size, 6_000):
            growing.write(end)
            await asyncio.sleep(0.02)
        growing.write(size)
        await until(lambda: session.status.first + session.status.exchanges == 403)
        session._capture.source.stop()
        await until(lambda: session.status.finished)
        assert session.status.exchanges <= 200
        first = session.status.first
        assert first > 1
        assert session.shown.number(0) == first
        exchange = await session.exchange(402)
        assert exchange.number == 402
        with pytest.raises(LookupError):
            await session.exchange(first - 1)
        await session.set_filter(compile_filter("number >= 350"))
        assert session.shown.all().tolist() == list(range(350, 403))
    finally:
        session.close()


# ------------------------------------------------------------ cancelling
async def test_a_job_of_a_session_can_be_cancelled() -> None:
    async with read_session() as session:
        steps: list[int] = []

        def job(_: Access) -> Steps[None]:
            for step in range(1_000_000):
                steps.append(step)
                yield

        task = asyncio.create_task(session.run(job))
        await until(lambda: steps)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await session.idle()
        assert len(steps) < 1_000_000


def _read(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def test_shown_finds_lines_by_number() -> None:
    everything = ShownExchanges(1, 5, first=10)
    assert [everything.index_of(number) for number in (9, 10, 14, 15)] == [None, 0, 4, None]
    assert everything.numbers(3, 99) == [13, 14]
    some = ShownExchanges(2, 3, numbers=np.array([4, 8, 15]))
    assert some.nearest(9) == 2
    assert some.index_of(8) == 1
    ordered = ShownExchanges(3, 3, numbers=np.array([8, 4, 15]), rising=False)
    assert ordered.index_of(4) == 1
    assert ordered.index_of(5) is None


def test_closing_leaves_the_rest_of_a_file_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    capture = open_capture(str(REBALANCE))
    monkeypatch.setattr(capture, "updates", lambda: repeat(np.empty(0, np.int64)))
    session = Session(capture, title="endless")
    session.start()
    session.close()
    assert not session._reading.is_alive()


def test_a_rate_is_0_when_nothing_was_published_for_a_while() -> None:
    assert Status(rate=7.0, published=time.monotonic()).current_rate == 7.0
    assert Status(rate=7.0, published=time.monotonic() - 60).current_rate == 0.0
