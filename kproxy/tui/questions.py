"""Questions about a whole capture, answered in the engine's thread: lines of text, and the exchanges they are about.

The same that the commands print (``kproxy journey``, ``follow``, ``clients --config``, ``compat``), of what is there by
now. Reading takes a while where there is much; what is more urgent goes first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple, Protocol

from captures.exchanges import Exchange
from captures.names import Names
from kproxy.tui.session.access import Access
from kproxy.tui.session.engine import Steps

if TYPE_CHECKING:
    from captures.analysis.comparison.side import Side
    from captures.analysis.groups.model import GroupTimeline

_TURN = 0.01  # seconds of work between two looks at what is more urgent
_TOGETHER = 64  # exchanges of another capture that are added at once
_JOURNEYS = 50
_ANSWERING = "answering a question"
"""What is being done, for faults."""
"""Records that are told of at most, where one was produced more than once."""
_WINDOWS = re.compile(r"(\S*?)\.\.(\S*)\s+(\S*?)\.\.(\S*)")
_SIDE = re.compile(r"\s*(good|bad) ")
_DIFFERENCES = 100
_NUMBER = re.compile(r"(?:#|exchanges? )(\d[\d,]*)")


class QuestionError(Exception):
    """There is no answer; its text says why."""


class Learner(Protocol):
    """What exchanges are added to."""

    def add(self, exchange: Exchange) -> None:
        """Learn from one exchange."""


class AnswerLine(NamedTuple):
    """A line of an answer.

    :ivar number: of the first exchange that it names; None if it names none
    """

    text: str
    number: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """How an answer is to be put.

    :ivar zone: of times; None is the local one
    :ivar width: columns that there are for it
    """

    zone: tzinfo | None
    width: int


Question = Callable[[Access, str, Asked], Steps[list[str]] | Steps[list[AnswerLine]]]
"""Makes the lines of an answer; the text is what is asked for, as it was typed."""


def answer(question: Question, text: str, asked: Asked) -> Callable[[Access], Steps[list[AnswerLine]]]:
    """Return the job that answers a question.

    The job raises QuestionError if there is no answer.
    """

    def job(access: Access) -> Steps[list[AnswerLine]]:
        try:
            lines = yield from question(access, text.strip(), asked)
        except QuestionError:
            raise
        except Exception as error:
            access.capture.faults.note(error, _ANSWERING)
            raise QuestionError("it cannot be answered, by a fault of kproxy: E shows it") from error
        return [line if isinstance(line, AnswerLine) else AnswerLine(line, _number(line)) for line in lines]

    return job


def _number(line: str) -> int | None:
    found = _NUMBER.search(line)
    return None if found is None else int(found[1].replace(",", ""))


def _through(access: Access, work: Iterable[object]) -> Steps[None]:
    """Do all of some work in turns.

    :raises QuestionError: if exchanges were dropped meanwhile, as those that never end do with their oldest
    """
    first, began = access.plain.first, perf_counter()
    for _ in work:
        if perf_counter() - began > _TURN:
            yield
            if access.plain.first != first:
                raise QuestionError("the oldest exchanges were dropped meanwhile: ask again")
            began = perf_counter()


# ---------------------------------------------------------------- the questions
def journey(access: Access, text: str, asked: Asked) -> Steps[list[str]]:
    """The way of a record through the cluster: ``orders-3@120``."""
    from captures.analysis.journey import Journeys, place_of
    from kproxy.cli.journey_text import JourneyText

    sought = place_of(text)
    if sought is None:
        raise QuestionError(f"{text!r} is no record: write TOPIC-PARTITION@OFFSET, such as orders-3@120")
    journeys = Journeys(sought, access.plain.knowledge.topic_name, access.capture.table)
    yield from _through(access, journeys.read(access.plain))
    result = journeys.result(_JOURNEYS)
    if not result.journeys:
        raise QuestionError(f"{text} is not in what was captured")
    shown = JourneyText(asked.zone, asked.width, color=False, show_all=True)
    return [line for each in result.journeys for line in (*shown.journey(each), "")]


def party(access: Access, text: str, asked: Asked) -> Steps[list[str]]:
    """Everything that a client did, over all its connections."""
    import numpy as np

    from captures.analysis.party import model
    from captures.analysis.party.finding import find_party
    from captures.analysis.party.log import PartyLog, rows_of
    from captures.analysis.party.repeats import without_repeats
    from kproxy.cli.follow_text import FollowText

    found = find_party(access.capture, model.Question(model.Asked.CLIENT, text))
    if not found.ties:
        raise QuestionError(f"no client {text!r} was captured")
    log = PartyLog(found, access.capture, access.plain.knowledge.topic_name)
    # numbers here are those of the session, whose order may be another than that of the table
    rows = access.capture.table.order()[rows_of(access.capture, found)]
    indexes = np.flatnonzero(np.isin(access.plain.rows, rows)).tolist()

    def add() -> Iterator[None]:
        add_to_log = access.capture.faults.guarded(log.add, _ANSWERING)
        for exchange in access.plain.several(indexes):
            add_to_log(exchange)
            yield

    yield from _through(access, add())
    shown = FollowText(asked.width, asked.zone, access.capture.names, color=False)
    return list(shown.lines(found, without_repeats(log.result())))


def config(access: Access, text: str, asked: Asked) -> Steps[list[str]]:
    """The settings of a client, as far as they show; of all of them without a name."""
    from captures.analysis.clients.inventory import Clients
    from captures.analysis.clients.reading import read_clients
    from kproxy.cli.clients_text import properties

    clients = Clients(access.capture)
    yield from _through(access, read_clients(access.plain, clients))
    chosen = [client for client in clients.result() if not text or client.name == text]
    if not chosen:
        raise QuestionError(f"no client {text!r} was captured")
    names: Names = access.capture.names
    return [line for each in chosen for line in (*properties(each, names, changed=False, color=False), "")]


def compat(access: Access, text: str, asked: Asked) -> Steps[list[str]]:
    """What a broker of another release would refuse, or serve with older versions."""
    import numpy as np

    from captures.analysis.compat import NEEDS, Compatibility
    from captures.analysis.compat_model import Target
    from captures.analysis.releases import BrokerRelease
    from captures.exchanges.projected import ProjectedExchanges
    from kproxy.cli import compat_tables as tables

    try:
        target = Target.of_release(BrokerRelease.of(text))
    except ValueError as error:
        raise QuestionError(str(error)) from None
    compatibility = Compatibility(target, access.capture)

    def add() -> Iterator[None]:
        everything = np.arange(len(access.plain), dtype=np.int64)
        learn = access.capture.faults.guarded(compatibility.add, _ANSWERING)
        for _, exchange in ProjectedExchanges(access.plain, NEEDS).read(everything):
            learn(exchange)
            yield

    yield from _through(access, add())
    report, names = compatibility.result(), access.capture.names
    out = [tables.clients_sentence(report)]
    for table in (tables.client_table(report, names), tables.verdict_table(report, names, served=False)):
        if table.rows:
            out += ["", *table.lines(asked.width, None, color=False)]
    return out


def diff(access: Access, text: str, asked: Asked) -> Steps[list[AnswerLine]]:
    """What differs from another capture to this one, or from one time of it to another: ``FILE``, or ``A..B C..D``."""
    from captures.analysis.comparison.compare import compare_sides
    from kproxy.cli.diff_text import lines

    windows = _WINDOWS.fullmatch(text)
    found = yield from (_of_file(access, text) if windows is None else _of_windows(access, windows, asked))
    comparison = compare_sides(*found)
    shown = lines(comparison, asked.width, _DIFFERENCES, asked.zone, color=False)
    if windows is not None:
        return [AnswerLine(line, _number(line)) for line in shown]
    return list(_of_this_side(shown))


def _of_this_side(lines: Iterable[str]) -> Iterator[AnswerLine]:
    """Yield lines with the numbers of this capture only; those of the other one lead nowhere here."""
    other = False
    for line in lines:
        side = _SIDE.match(line)
        other = side[1] == "good" if side is not None else other and bool(line.strip())
        yield AnswerLine(line, None if other else _number(line))


def _all_of(access: Access, learners: Sequence[Learner]) -> Steps[None]:
    def add() -> Iterator[None]:
        adders = [access.capture.faults.guarded(each.add, _ANSWERING) for each in learners]
        for exchange in access.plain.several(range(len(access.plain))):
            for learn in adders:
                learn(exchange)
            yield

    yield from _through(access, add())


def _of_file(access: Access, path: str) -> Steps[tuple[Side, Side]]:
    from captures.analysis.comparison.side import Side
    from captures.exchanges import ExchangeReader, open_capture
    from captures.packets import CaptureError

    try:
        other = open_capture(path)
        for _ in other.updates():
            yield
    except CaptureError as error:
        raise QuestionError(str(error)) from None
    reader = ExchangeReader(other, annotate=False, gist=False)
    good = Side(path, other, reader.knowledge.topic_name)
    learn = access.capture.faults.guarded(good.add, _ANSWERING)
    for done, exchange in enumerate(reader):
        learn(exchange)
        if not done % _TOGETHER:
            yield
    bad = Side("this", access.capture, access.plain.knowledge.topic_name)
    yield from _all_of(access, [bad])
    return good, bad


def _of_windows(
    access: Access, windows: re.Match[str], asked: Asked
) -> Steps[tuple[Side, Side, Sequence[GroupTimeline]]]:
    from captures.analysis.comparison.side import Side, Window
    from captures.analysis.groups.history import GroupHistories
    from kproxy.cli.times import resolve

    names, capture = access.plain.knowledge.topic_name, access.capture
    first = int(capture.connections.first_time.min()) if len(capture.connections) else 0
    moments = [resolve(each, first, asked.zone) if each else None for each in windows.groups()]
    wrong = [each for each, moment in zip(windows.groups(), moments, strict=True) if each and moment is None]
    if wrong:
        raise QuestionError(f"{wrong[0]!r} is no time: write 5s after the first packet, or 09:14:03")
    good = Side(f"{windows[1]}..{windows[2]}", capture, names, Window(*moments[:2]))
    bad = Side(f"{windows[3]}..{windows[4]}", capture, names, Window(*moments[2:]))
    # who was a member before tells more of a rebalance than its window alone does
    histories = GroupHistories(names, capture)
    yield from _all_of(access, [good, bad, histories])
    return good, bad, histories.result()
