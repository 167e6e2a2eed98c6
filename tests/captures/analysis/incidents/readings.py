"""The incidents and rebalances of a capture, from each way to read it.

Exchanges of a growing capture are numbered as they complete, so numbers in its answers are translated to those of one
reading. Which exchange shows a finding first also depends on that order, so the evidence of findings is not compared.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np

from captures.analysis.clusters import Clusters
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.call_reader import pending_calls
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.incidents.model import Incident
from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.json_objects import to_json
from kproxy.session import Session
from kproxy.session.folds import SessionFold
from kproxy.tui.views.findings import FindingsFold
from kproxy.tui.views.groups import GroupFold
from tests.captures.spark.judged import built
from tests.captures.spark.test_judged import by_one
from tests.kproxy.tui.kit import read_session, session_of

Answers = dict[str, list[Any]]
"""JSON objects of the incidents and rebalances."""
_TABLES = ("incidents", "rebalances")
_RANGE = 60_000
"""Bytes of a range, as Spark reads them."""
_TASKS = 4
_BLOCK = 1 << 14
"""Bytes of a growing capture that are read at a time."""
_LOOKS = 8
"""Blocks from one look at the answers so far to the next."""
_MENTIONED = re.compile(r"(?<=#)\d+")
_NUMBERS = ("evidence", "number", "exchange")
"""JSON keys of exchange numbers."""


async def differences(path: Path, folder: Path) -> list[str]:
    """Return the readings of a file that differ from a reading by columns, and the tables of its byte ranges.

    :param folder: for temporary files
    """
    expected = _sorted(by_columns(path))
    readings = {
        "exchange by exchange": by_exchanges(path),
        "followed": followed(path, folder),
        "UI": await in_session(path),
        "UI, live": await in_live_session(path, folder),
    }
    tables = by_one(path, tables=_TABLES), built([path], _RANGE, _TASKS, _TABLES)
    return [
        *(
            f"{name}: {kind}"
            for name, found in readings.items()
            for kind in _differing(_sorted(found), expected)
        ),
        *(f"byte ranges: {name}" for name in _differing(*tables)),
    ]


def _differing(found: Mapping[str, object], expected: Mapping[str, object]) -> list[str]:
    return [name for name in expected.keys() | found.keys() if found.get(name) != expected.get(name)]


def by_columns(path: Path) -> Answers:
    """Return the answers of ``kproxy incidents`` and ``kproxy groups`` for a file."""
    reader = _read(path)
    diagnosis = _diagnosis(reader)
    columns = ExchangeColumns(reader.capture, reader.rows)
    for _ in diagnosis.add_all(reader, columns, np.arange(len(reader))):
        pass
    return _answers_of(diagnosis)


def by_exchanges(path: Path) -> Answers:
    """Return the answers of the tables, to which exchanges are added one by one."""
    reader = _read(path)
    diagnosis = _diagnosis(reader)
    for exchange in reader:
        diagnosis.add(exchange)
    return _answers_of(diagnosis)


def followed(path: Path, folder: Path) -> Answers:
    """Return the last answers of ``--follow`` for a file that arrives through a pipe, made in `folder`."""
    identities: dict[int, object] = {}
    with _piped(path, folder) as pipe:
        capture = open_capture(str(pipe), _BLOCK)
        reader = ExchangeReader(capture, annotate=False, summary=False, live=True)
        diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
        for index, rows in enumerate(capture.updates()):
            for exchange in reader.take(rows.tolist()):
                identities[exchange.number] = _identity(exchange)
                diagnosis.add(exchange)
            if index % _LOOKS == 0:
                pending = pending_calls(capture, reader.knowledge)
                diagnosis.findings(now=capture.latest or None, pending=pending)
    return _as_numbered(path, _answers_of(diagnosis), identities)


async def in_session(path: Path) -> Answers:
    """Return the answers of the views of incidents and groups in the terminal UI."""
    async with read_session(path) as session:
        return await _of_views(session)


async def in_live_session(path: Path, folder: Path) -> Answers:
    """Return the last answers of the views, while open, for a file that arrives through a pipe, made in `folder`."""
    with _piped(path, folder) as pipe:
        session = session_of(pipe)
        session.start()
        try:
            _folds(session)
            while not (session.status.finished or session.status.failure):
                await asyncio.sleep(0.005)
            answers = await _of_views(session)
            identities = await session.run(
                lambda access: {
                    each.number: _identity(each)
                    for each in access.exchanges(range(1, session.status.exchanges + 1))
                }
            )
        finally:
            session.close()
    return _as_numbered(path, answers, identities)


def _folds(session: Session) -> tuple[SessionFold[FindingsFold], SessionFold[GroupFold]]:
    folds = session.fold("findings", FindingsFold, everything=True), session.fold("groups", GroupFold)
    for fold in folds:
        fold.want(True)
    return folds


async def _of_views(session: Session) -> Answers:
    findings, groups = _folds(session)
    await session.idle()
    assert findings.progress == groups.progress == 1
    incidents = await findings.read(
        lambda fold, access: fold.compute(access.capture.latest, (), live=False).incidents
    )
    timelines = await groups.read(lambda fold, access: fold.compute(access.capture.latest, (), live=False))
    return _answers(incidents, timelines.values())


@contextmanager
def _piped(path: Path, folder: Path) -> Iterator[Path]:
    """Write a file to a pipe while the caller reads from it."""
    pipe = folder / f"{path.stem}.pipe"
    os.mkfifo(pipe)
    # a daemon, which does not keep the process alive if the reader fails before it opens the pipe
    writer = Thread(target=pipe.write_bytes, args=(path.read_bytes(),), daemon=True)
    writer.start()
    yield pipe
    writer.join()
    pipe.unlink()


def _read(path: Path) -> ExchangeReader:
    capture = open_capture(str(path))
    capture.read()
    return ExchangeReader(capture, annotate=False, summary=False)


def _diagnosis(reader: ExchangeReader) -> Diagnosis:
    reader.learn(len(reader))
    clusters = Clusters(reader.capture, reader.knowledge.facts)
    return Diagnosis(reader.capture, reader.knowledge.topic_name, clusters=clusters)


def _answers_of(diagnosis: Diagnosis) -> Answers:
    diagnosis.findings()
    return _answers(diagnosis.incidents, diagnosis.groups.result())


def _as_numbered(path: Path, answers: Answers, identities: Mapping[int, object]) -> Answers:
    """Return answers with the numbers that the exchanges have in one reading of `path`."""
    numbers = {_identity(exchange): exchange.number for exchange in _read(path)}
    return _translated(answers, {number: numbers[identity] for number, identity in identities.items()})


def _answers(incidents: Iterable[Incident], timelines: Iterable[GroupTimeline]) -> Answers:
    answers = {
        "incidents": [to_json(each) for each in incidents],
        "rebalances": [to_json(each) for timeline in timelines for each in timeline.rebalances],
    }
    for incident in answers["incidents"]:
        for effect in incident["consequences"]:
            if effect["rule"]:
                effect["evidence"] = []
    found: Answers = json.loads(json.dumps(answers))
    return found


def _sorted(answers: Answers) -> Answers:
    return _translated(answers, {})


def _identity(exchange: Exchange) -> object:
    return exchange.connection, exchange.time, exchange.correlation_id, exchange.request_size


def _translated(answers: Any, numbers: Mapping[int, int]) -> Any:
    """Return answers with other numbers of exchanges, and evidence in the order of numbers."""
    if isinstance(answers, dict):
        return {
            key: _renumbered(value, numbers) if key in _NUMBERS else _translated(value, numbers)
            for key, value in answers.items()
        }
    if isinstance(answers, list):
        return [_translated(each, numbers) for each in answers]
    return _renumbered(answers, numbers) if isinstance(answers, str) else answers


def _renumbered(value: Any, numbers: Mapping[int, int]) -> Any:
    if isinstance(value, list):
        return sorted(_renumbered(each, numbers) for each in value)
    if isinstance(value, str):
        return _MENTIONED.sub(lambda found: str(numbers.get(int(found[0]), int(found[0]))), value)
    return numbers.get(value, value)
