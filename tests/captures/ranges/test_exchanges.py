"""The exchanges that one range gives out."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest

from captures.exchanges import ExchangeReader, ExchangeTable, open_capture
from captures.exchanges.notes import Note, Notes
from captures.ranges.edges import unpack
from captures.ranges.exchanges import NotesOfRows
from captures.ranges.headers import headers_of
from captures.ranges.jobs import Input, MergeResult, read_exchanges, read_here
from captures.ranges.plan import make_plan
from tests.captures.exchanges.talk import Talk, mixed
from tests.captures.packets.kit import pcap
from tests.captures.ranges.both import same
from tests.captures.ranges.made import packets, traffic

pytestmark = pytest.mark.slow


@pytest.fixture
def made(tmp_path: Path) -> tuple[str, MergeResult]:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*traffic(Random(21), connections=3, trouble=0)], nano=True))
    return str(path), read_here(Input(make_plan([str(path)], 12_000), buckets=2))


def test_numbers_and_connections_count_over_the_whole_capture(made: tuple[str, MergeResult]) -> None:
    path, read = made
    parts = [read_exchanges(read.given, context, read.numbered.facts) for context in read.numbered.contexts]
    assert len(parts) > 3
    numbers = np.concatenate([part.numbers for part in parts])
    assert numbers.tolist() == list(range(1, read.numbered.exchanges + 1))
    capture = open_capture([path])
    capture.read()
    connections = np.concatenate([part.connections for part in parts])
    order = capture.table.order()
    assert connections.tolist() == capture.table.column("connection")[order].tolist()
    for part in parts:
        assert [each.number for each in part.exchanges()] == part.numbers.tolist()


def test_some_exchanges_by_index_and_by_api(made: tuple[str, MergeResult]) -> None:
    path, read = made
    capture = open_capture([path])
    capture.read()
    keys = {each.number: each.api_key for each in ExchangeReader(capture)}
    for context in read.numbered.contexts:
        part = read_exchanges(read.given, context, read.numbered.facts)
        some = np.arange(0, len(part), 3)
        assert [each.number for each in part.exchanges(some)] == part.numbers[some].tolist()
        wanted = [number for number in part.numbers.tolist() if keys[number] in (1, 3)]
        assert [each.number for each in part.exchanges(apis=(1, 3))] == wanted


def test_headers_alone_are_the_same(made: tuple[str, MergeResult]) -> None:
    _, read = made
    for context, finished in zip(read.numbered.contexts, read.finished, strict=True):
        part = read_exchanges(read.given, context, read.numbered.facts)
        headers = headers_of(unpack(finished), context)
        assert headers.numbers.tolist() == part.numbers.tolist()
        assert headers.connections.tolist() == part.connections.tolist()
        for name in ("api_key", "correlation_id", "flags", "packet", "request_first", "response_last"):
            mine, theirs = headers.capture.table.column(name), part.capture.table.column(name)
            assert mine[headers.rows].tolist() == theirs[part.rows].tolist()


@pytest.mark.parametrize("client_id", ["consu\0er-1", "\x1b[2J", "a\ufffdb"], ids=ascii)
def test_client_ids_that_are_no_text(tmp_path: Path, client_id: str) -> None:
    """A connection that uses one is in step where a range begins, as it is in one reading."""
    conversations = []
    for number in range(2):
        talk, rng = Talk(number), Random(number)
        for correlation_id in range(60):
            talk.exchange(correlation_id, client_id=client_id)
        conversations.append(packets(talk, rng, most=200))
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap([*mixed(conversations, Random(3))], nano=True))
    read = same([path], 3000)
    assert len(read.numbered.contexts) > 3
    assert read.numbered.exchanges == 120


def test_notes_of_exchanges_that_cross_edges_are_among_all_notes() -> None:
    notes = NotesOfRows(Notes(ExchangeTable(), lambda connection: 2 * connection))
    notes.given = {0: (Note(comment="slow", marked=True), None), 1: (None, None)}
    assert notes.all() == {0: notes.of(0)} == {0: Note(comment="slow", marked=True)}
