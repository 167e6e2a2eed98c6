"""Exchanges that went through rows are the same, wherever their frames are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from captures.exchanges.notes import Note
from captures.interventions import Change, Intervention, Interventions
from captures.names import Names
from captures.packets import CaptureError
from captures.ranges.exchanges import NotesOfRows
from captures.ranges.jobs import Input, read_exchanges, read_here
from captures.ranges.plan import make_plan
from captures.spark.located_exchanges import LocatedCapture, located, located_schema
from tests.captures.export.files import DATA, SAMPLE

TLS = DATA / "24_k430_tls13_franz.pcap"
KEYLOG = DATA / "24_k430_tls13_franz.keylog"


def check(path: Path, size: int, keylog: bytes = b"") -> None:
    """Fail if an exchange, or what is told of its file, is another one behind its row.

    :raises AssertionError: if it is
    """
    read = read_here(Input(make_plan([str(path)], size), keylog))
    count = 0
    for context in read.numbered.contexts:
        part = read_exchanges(read.given, context, read.numbered.facts)
        rows = located(part, np.arange(len(part)))
        assert rows.schema == located_schema()
        here = LocatedCapture(read.given.plan.source(), rows, Names())
        expected = list(part.exchanges(annotate=False, summary=False))
        for one, other in zip(expected, here.exchanges(read.numbered.facts), strict=True):
            one.row = other.row = 0
            assert one == other
            count += 1
        if not keylog:
            assert [part.path_of(each.number) for each in expected] == [
                here.file_of(each.number) for each in expected
            ]
    assert count == read.numbered.exchanges > 0


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("22_k430_java_commit_abort.pcap", 4_000),  # cut in ranges
        ("09_snaplen128.pcap", 1 << 30),  # frames of which the end is missing
        ("30_k0822_scala_acks0_partial.pcap", 1 << 30),
        ("09_loss3pct_before_tap.pcap.zst", 1 << 30),  # compressed
    ],
)
def test_exchanges_behind_their_rows(name: str, size: int) -> None:
    check(DATA / name, size)


@pytest.mark.slow
def test_a_capture_cut_everywhere() -> None:
    check(SAMPLE, 20_000)


def test_encrypted_ones_bring_their_payload() -> None:
    check(TLS, 1 << 30, KEYLOG.read_bytes())


def test_notes_and_what_kproxy_did_come_along() -> None:
    read = read_here(Input(make_plan([str(DATA / "22_k430_java_commit_abort.pcap")], 1 << 30)))
    part = read_exchanges(read.given, read.numbered.contexts[0], read.numbered.facts)
    done = Interventions((Intervention(changed=(Change("acks", -1, 1),), rule="set acks 1", altered=True),))
    part.capture.notes = notes = NotesOfRows(part.capture.notes)
    row = int(part.rows[3])
    notes.given[row] = Note("look at this", marked=True), done
    here = LocatedCapture(read.given.plan.source(), located(part, np.arange(len(part))), Names())
    exchanges = list(here.exchanges(read.numbered.facts))
    assert (exchanges[3].note, exchanges[3].interventions) == (Note("look at this", marked=True), done)
    assert not any(
        each.note or each.interventions for each in exchanges if each.number != exchanges[3].number
    )


def test_bytes_that_are_gone_are_an_error(tmp_path: Path) -> None:
    path = tmp_path / "gone.pcap"
    path.write_bytes((DATA / "22_k430_java_commit_abort.pcap").read_bytes())
    read = read_here(Input(make_plan([str(path)], 1 << 30)))
    (context,) = read.numbered.contexts
    part = read_exchanges(read.given, context, read.numbered.facts)
    rows = located(part, np.arange(len(part)))
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CaptureError, match=r"gone\.pcap"):
        list(LocatedCapture(read.given.plan.source(), rows, Names()).exchanges(read.numbered.facts))
