"""Analyses of arbitrary exchanges, with complete results, not through commands that show a part.

The first byte of an input selects the analysis. The rest are exchanges, in the format of :mod:`fuzz.targets.exchanges`.

* Nothing raises, whether or not users would see the error, and all results can be written as JSON.
* Results refer only to exchanges and connections that exist.
* Tables and exports have a row for each exchange.
* A capture does not differ from itself.
* A diagnosis, and the histories of groups, can be asked for repeatedly while a capture grows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC
from functools import cache
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any

from msgspec import json

from captures.analysis.client_trace.connections import find_client
from captures.analysis.client_trace.log import PartyLog, rows_of
from captures.analysis.client_trace.model import Question, QuestionKind
from captures.analysis.clients import inventory
from captures.analysis.clients.client_reader import read_clients
from captures.analysis.comparison.compare import compare_sides
from captures.analysis.comparison.side import Side
from captures.analysis.compat import ClientCompatibility, Compatibility, Target
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.groups.history import GroupHistories
from captures.analysis.journey import Journeys
from captures.analysis.journey.record_query import RecordQuery
from captures.analysis.lag import LagStats
from captures.analysis.negotiation import Negotiation, learn_versions
from captures.analysis.releases import BrokerRelease, line_of
from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.exchanges.columns import ExchangeColumns
from captures.export.group_html import page
from captures.export.group_mermaid import lines as group_lines
from captures.json_objects import to_json
from captures.names import Names
from captures.tables.exchange_rows import ExchangeTables
from captures.tables.schema import TABLES
from captures.tables.whole_rows import WholeTables
from fuzz.target import Input, check
from fuzz.targets import exchanges, packets
from kproxy.export_files import FileFormat, Layout, columns_of, packet_steps, write_exchanges

LONGEST = 16384
SECONDS = 30

_SOUGHT = (
    RecordQuery(),
    RecordQuery(topic="orders"),
    RecordQuery(contains=b"a"),
    RecordQuery(key=b""),
    RecordQuery("orders", 0, 0),
)
_QUESTIONS = (
    *(
        Question(QuestionKind.CLIENT, "app"),
        Question(QuestionKind.CLIENT, "*"),
        Question(QuestionKind.CONNECTION, "0"),
    ),
    *(
        Question(QuestionKind.MEMBER, ""),
        Question(QuestionKind.TRANSACTION, "app"),
        Question(QuestionKind.PRODUCER, "0"),
    ),
)
_FORMATS: tuple[FileFormat, ...] = ("json", "csv", "parquet", "mermaid")


def run(data: bytes) -> None:
    """Make the capture and analyse it."""
    several((data,))


def several(inputs: Sequence[bytes]) -> None:
    """Analyse the exchanges of several inputs as one capture, with the analysis of the first input."""
    analysis = ANALYSES[inputs[0][0] % len(ANALYSES) if inputs[0] else 0]
    capture = exchanges.capture_of([list(exchanges.said_of(Input(data[1:]))) for data in inputs])
    packets.on_disk(capture, analysis)


def every(data: bytes) -> None:
    """Analyse the capture in all ways."""
    capture = exchanges.capture_of([list(exchanges.said_of(Input(data[1:])))])
    for analysis in ANALYSES:
        packets.on_disk(capture, analysis)


def alike(inputs: Sequence[bytes]) -> list[bytes]:
    """Return the inputs changed to select the analysis of the first one."""
    return [inputs[0][:1] + data[1:] for data in inputs]


def mutate(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return an input with changed exchanges or another analysis."""
    return exchanges.mutate(data, other, rng, len(ANALYSES))


# ---------------------------------------------------------------- reading
def opened(path: Path) -> Capture:
    """Read a capture."""
    capture = open_capture(str(path))
    capture.read()
    return capture


def shown_to(path: Path, *makers: Callable[[Capture, Any], Any]) -> tuple[Capture, ExchangeReader, list[Any]]:
    """Read a capture, and feed its exchanges to an accumulator; return both."""
    capture = opened(path)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    learners = [make(capture, reader.knowledge.topic_name) for make in makers]
    for exchange in reader:
        for learner in learners:
            learner.add(exchange)
    return capture, reader, learners


def encoded(found: Iterable[Any]) -> None:
    """Check that results can be written as JSON."""
    for each in found:
        json.encode(to_json(each))


# ---------------------------------------------------------------- the analyses
def diagnosed(path: Path) -> None:
    """Check the diagnosis and the histories of groups."""
    capture, reader, (diagnosis,) = shown_to(path, Diagnosis)
    findings = diagnosis.findings()
    encoded(findings)
    for finding in findings:
        check(finding.sentence and finding.advice and finding.count > 0, "a finding says nothing:", finding)
        check(finding.first <= finding.last, "found", finding.first, "to", finding.last)
        check(all(1 <= each <= len(reader) for each in finding.evidence), "evidence", finding.evidence)
        connections = len(capture.connections)
        check(
            all(0 <= each < connections for each in finding.connections), "connections", finding.connections
        )
    check(all(each.why for each in diagnosis.blind()), "a rule that could not judge does not say why")


def grouped(path: Path) -> None:
    """Check the histories of groups as JSON, page and diagram."""
    _, _, (histories,) = shown_to(path, lambda capture, names: GroupHistories(names, capture))
    timelines = histories.result()
    for timeline in timelines:
        encoded(timeline.rebalances)
    told = [(timeline, timeline.rebalances) for timeline in timelines]
    check("</html>" in page(told, names=Names(), zone=UTC, source="fuzz"), "the page has no end")
    check(next(iter(group_lines(told, UTC))).startswith("sequenceDiagram"), "no diagram")


def grown(path: Path) -> None:
    """Check the diagnosis of a growing capture after each step."""
    capture = Capture(open_capture(str(path)).source, max(path.stat().st_size // 4, 256))
    reader = ExchangeReader(capture, annotate=False, summary=False, live=True)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    for rows in capture.updates():
        for exchange in reader.take(rows.tolist()):
            diagnosis.add(exchange)
        encoded(diagnosis.findings(now=capture.latest))
        diagnosis.blind()
    encoded(diagnosis.findings())


def versions(path: Path) -> None:
    """Check the offered and used versions, and their compatibility with other releases."""
    capture, reader, (negotiation,) = shown_to(path, lambda capture, _: Negotiation(capture))
    encoded((negotiation.result(),))
    columns = ExchangeColumns(capture, reader.rows)
    for target in targets():
        clients = Compatibility(target, capture)
        deque(learn_versions(clients, reader, columns), maxlen=0)
        encoded(clients.result().clients)
    for release in ("0.11.0", "4.0"):
        brokers = ClientCompatibility(line_of(release), capture)
        deque(learn_versions(brokers.negotiation, reader, columns), maxlen=0)
        encoded(brokers.result())


@cache
def targets() -> tuple[Target, ...]:
    """Return other broker releases to compare with."""
    releases = tuple(Target.of_release(BrokerRelease.of(each)) for each in ("2.0", "4.3"))
    return *releases, Target.of_ranges("brokers", [{0: (0, 3), 1: (2, 1), 18: (0, 4)}])


def positions(path: Path) -> None:
    """Check the lag of groups."""
    _, _, (stats,) = shown_to(path, lambda _, names: LagStats(names))
    encoded(stats.result())


def followed(path: Path) -> None:
    """Check clients, the log of each client, and journeys of records."""
    capture = opened(path)
    reader = ExchangeReader(capture, annotate=False, summary=False)
    clients = inventory.Clients(capture)
    for _ in read_clients(reader, clients):
        pass
    encoded(clients.result())
    for question in _QUESTIONS:
        party = find_client(capture, question)
        if not party.ties:
            continue
        log = PartyLog(party, capture, reader.knowledge.topic_name)
        for exchange in reader.several(rows_of(capture, party).tolist()):
            log.add(exchange)
        encoded((party, *log.result()))
    reader.learn(len(reader))
    for sought in _SOUGHT:
        journeys = Journeys(sought, reader.knowledge.topic_name, capture.table)
        for _ in journeys.read(reader):
            pass
        encoded((journeys.result(),))


def compared(path: Path) -> None:
    """Check that a capture does not differ from itself."""
    sides = []
    for _ in range(2):
        reader = ExchangeReader(opened(path), annotate=False, summary=False)
        side = Side("it", reader.capture, reader.knowledge.topic_name)
        deque(side.read(reader), maxlen=0)
        sides.append(side)
    comparison = compare_sides(*sides)
    encoded((comparison,))
    check(
        not comparison.differences,
        "it differs from itself:",
        [to_json(each) for each in comparison.differences],
    )


def tabled(path: Path) -> None:
    """Check all tables with all columns."""
    capture = opened(path)
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    names = reader.knowledge.topic_name
    every_column = {"exchanges": [column.name for column in TABLES["exchanges"].columns]}
    rows = ExchangeTables(TABLES, names=names, run=1, columns=every_column)
    whole = WholeTables(capture, names, list(TABLES), run=1)
    for exchange in reader:
        rows.add(exchange)
        whole.add(exchange)
    made = rows.take()
    count = made["exchanges"].num_rows if made else 0
    check(count == len(reader), "rows:", count, "of", len(reader))
    for batch in (*made.values(), *dict(whole.batches()).values()):
        batch.validate(full=True)


def written(path: Path) -> None:
    """Check exports of exchanges with all columns."""
    capture = opened(path)
    for format_ in _FORMATS:
        reader = ExchangeReader(capture, annotate=format_ != "mermaid")
        layout = Layout(format_, columns_of(format_))
        count = write_exchanges(capture, iter(reader), BytesIO(), layout)
        check(count == len(reader), format_, "has", count, "of", len(reader), "exchanges")


def packed(path: Path) -> None:
    """Check exports of packets: original, scrubbed and synthetic."""
    capture = opened(path)
    rows = capture.table.order()
    for scrub, synthetic in ((True, False), (True, True), (False, True)):
        for _ in packet_steps(capture, rows, BytesIO(), scrub=scrub, synthetic=synthetic):
            pass


ANALYSES: tuple[Callable[[Path], None], ...] = (
    *(diagnosed, grouped, grown, versions, positions, followed, compared, tabled, written, packed),
)


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield seeds for each analysis: conversations of the sample, and all APIs with arbitrary values."""
    return exchanges.seeds([analysis.__name__ for analysis in ANALYSES])
