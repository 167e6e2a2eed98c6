"""Questions about a whole capture, answered in the engine's thread: lines of text, linked to exchanges.

The answers equal the output of commands (``kproxy journey``, ``follow``, ``clients --settings``, ``compat``) for the
capture so far. Reading a large capture takes a while; more urgent jobs run first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from captures.exchanges import ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.filters.values import resolved
from captures.names import Names
from captures.packets import CaptureError
from kproxy.session.access import Access
from kproxy.session.engine import Steps
from kproxy.text.blocks import BLANK, Block, Code, Line, Paragraph, spaced, text_lines

if TYPE_CHECKING:
    from captures.analysis.comparison.side import Side
    from captures.analysis.groups.model import GroupTimeline

_TURN = 0.01  # seconds of work before more urgent jobs may run
_TOGETHER = 64  # exchanges of another capture that are added together
_JOURNEYS = 50
"""Most records that are shown, if one was produced more than once."""
_ANSWERING = "answering a question"
"""The activity named in error reports."""
_WINDOWS = re.compile(r"(\S*?)\.\.(\S*)\s+(\S*?)\.\.(\S*)")
_DIFFERENCES = 100


class QuestionError(Exception):
    """There is no answer; the message says why."""


@dataclass(frozen=True, slots=True)
class AnswerStyle:
    """The format of an answer.

    :ivar zone: time zone of times; None is the local one
    :ivar width: available columns
    """

    zone: tzinfo | None
    width: int


Question = Callable[[Access, str, AnswerStyle], Steps[Iterable[Block]]]
"""Returns the blocks of an answer; the text is as typed."""


def answer(question: Question, text: str, asked: AnswerStyle) -> Callable[[Access], Steps[list[Line]]]:
    """Return the job that answers a question.

    The job raises QuestionError if there is no answer.
    """

    def job(access: Access) -> Steps[list[Line]]:
        try:
            blocks = yield from question(access, text.strip(), asked)
            lines = list(text_lines(blocks, asked.width))
        except QuestionError:
            raise
        except Exception as error:
            access.capture.faults.note(error, _ANSWERING)
            raise QuestionError(
                "it cannot be answered, because of an internal error in kproxy: E shows it"
            ) from error
        return [line if isinstance(line, Line) else Line(line) for line in lines]

    return job


def _through(access: Access, work: Iterable[object]) -> Steps[None]:
    """Do all of some work in turns.

    :raises QuestionError: if exchanges were dropped meanwhile, as happens to the oldest ones of endless captures
    """
    first, began = access.plain.first, perf_counter()
    for _ in work:
        if perf_counter() - began > _TURN:
            yield
            if access.plain.first != first:
                raise QuestionError("the oldest exchanges were dropped meanwhile: ask again")
            began = perf_counter()


# ---------------------------------------------------------------- the questions
def journey(access: Access, text: str, asked: AnswerStyle) -> Steps[Iterable[Block]]:
    """The way of a record through the cluster: ``orders-3@120``."""
    from captures.analysis.journey import Journeys, place_of
    from kproxy.text.journey import JourneyText

    sought = place_of(text)
    if sought is None:
        raise QuestionError(f"{text!r} is not a record: write TOPIC-PARTITION@OFFSET, such as orders-3@120")
    journeys = Journeys(sought, access.plain.knowledge.topic_name, access.capture.table)
    yield from _through(access, journeys.read(access.plain))
    result = journeys.result(_JOURNEYS)
    if not result.journeys:
        raise QuestionError(f"{text} is not in what was captured")
    shown = JourneyText(asked.zone, show_all=True)
    return [block for each in result.journeys for block in (*shown.journey(each), BLANK)]


def party(access: Access, text: str, asked: AnswerStyle) -> Steps[Iterable[Block]]:
    """Everything that a client did, over all its connections."""
    from captures.analysis.client_trace import model
    from captures.analysis.client_trace.connections import find_client
    from captures.analysis.client_trace.log import PartyLog, rows_of
    from captures.analysis.client_trace.repeats import without_repeats
    from kproxy.text.follow import FollowText

    found = find_client(access.capture, model.Question(model.QuestionKind.CLIENT, text))
    if not found.ties:
        raise QuestionError(f"no client {text!r} was captured")
    log = PartyLog(found, access.capture, access.plain.knowledge.topic_name)
    # the session's numbers may be in another order than the table's
    rows = access.capture.table.order()[rows_of(access.capture, found)]
    indexes = np.flatnonzero(np.isin(access.plain.rows, rows)).tolist()

    def add() -> Iterator[None]:
        add_to_log = access.capture.faults.guarded(log.add, _ANSWERING)
        for exchange in access.plain.several(indexes):
            add_to_log(exchange)
            yield

    yield from _through(access, add())
    return FollowText(asked.zone, access.capture.names).blocks(found, without_repeats(log.result()))


def config(access: Access, text: str, asked: AnswerStyle) -> Steps[Iterable[Block]]:
    """The settings of a client, as far as they show; of all of them without a name."""
    from captures.analysis.clients.client_reader import read_clients
    from captures.analysis.clients.inventory import Clients
    from kproxy.text.clients import properties

    clients = Clients(access.capture)
    yield from _through(access, read_clients(access.plain, clients))
    chosen = [client for client in clients.result() if not text or client.name == text]
    if not chosen:
        raise QuestionError(f"no client {text!r} was captured")
    names: Names = access.capture.names
    return spaced(Code(list(properties(each, names, changed=False))) for each in chosen)


def compat(access: Access, text: str, asked: AnswerStyle) -> Steps[Iterable[Block]]:
    """What a broker of another release would refuse, or serve with older versions."""
    from captures.analysis.compat import Compatibility, Target
    from captures.analysis.negotiation import TAKEN, learn_versions
    from captures.analysis.releases import BrokerRelease
    from kproxy.text import compat as tables

    try:
        target = Target.of_release(BrokerRelease.of(text))
    except ValueError as error:
        raise QuestionError(str(error)) from None
    compatibility = Compatibility(target, access.capture)
    columns = ExchangeColumns(access.capture, access.plain.rows)
    yield from _through(access, columns.preparing(TAKEN))
    yield from _through(access, learn_versions(compatibility, access.plain, columns))
    report, names = compatibility.result(), access.capture.names
    found = (tables.client_table(report, names), tables.verdict_table(report, names, served=False))
    return spaced([Paragraph(tables.clients_sentence(report)), *(each for each in found if each.rows)])


def diff(access: Access, text: str, asked: AnswerStyle) -> Steps[Iterable[Block]]:
    """What differs from another capture to this one, or from one time of it to another: ``FILE``, or ``A..B C..D``."""
    from captures.analysis.comparison.compare import compare_sides
    from kproxy.text.diff import blocks

    windows = _WINDOWS.fullmatch(text)
    found = yield from (_of_file(access, text) if windows is None else _of_windows(access, windows, asked))
    comparison = compare_sides(*found)
    leading = ("good", "bad") if windows is not None else ("bad",)  # the UI cannot show the other capture
    return blocks(comparison, _DIFFERENCES, asked.zone, leading=leading)


def _of_file(access: Access, path: str) -> Steps[tuple[Side, Side]]:
    from captures.analysis.comparison.side import Side

    try:
        other = open_capture(path)
        for _ in other.updates():
            yield
    except CaptureError as error:
        raise QuestionError(str(error)) from None
    reader = ExchangeReader(other, annotate=False, summary=False)
    good = Side(path, other, reader.knowledge.topic_name)
    for _ in good.read(reader):
        yield
    bad = Side("this", access.capture, access.plain.knowledge.topic_name)
    yield from _through(access, bad.read(access.plain))
    return good, bad


def _of_windows(
    access: Access, windows: re.Match[str], asked: AnswerStyle
) -> Steps[tuple[Side, Side, Sequence[GroupTimeline]]]:
    from captures.analysis.comparison.side import Side, Window
    from captures.analysis.groups.history import HISTORIES, GroupHistories, needed

    names, capture = access.plain.knowledge.topic_name, access.capture
    first = int(capture.connections.first_time.min()) if len(capture.connections) else 0
    moments = [resolved(each, first, asked.zone) if each else None for each in windows.groups()]
    wrong = [each for each, moment in zip(windows.groups(), moments, strict=True) if each and moment is None]
    if wrong:
        raise QuestionError(f"{wrong[0]!r} is not a time: write 5s after the first packet, or 09:14:03")
    good = Side(f"{windows[1]}..{windows[2]}", capture, names, Window(*moments[:2]))
    bad = Side(f"{windows[3]}..{windows[4]}", capture, names, Window(*moments[2:]))
    # earlier membership explains a rebalance better than its window alone
    histories = GroupHistories(names, capture)
    keys = capture.table.column("api_key")[access.plain.rows]
    add = capture.faults.guarded(histories.add, HISTORIES)
    learning = map(add, access.plain.several(np.flatnonzero(needed(keys)).tolist()))
    for work in (learning, good.read(access.plain), bad.read(access.plain)):
        yield from _through(access, work)
    return good, bad, histories.result()
