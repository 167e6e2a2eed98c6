"""File formats; the tests of ``kproxy export`` and the UI check the content of the files."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pytest

from captures.exchanges import Capture, ExchangeReader, open_capture
from kproxy.export_files import (
    FORMATS,
    SUFFIXES,
    Layout,
    WrittenPackets,
    columns_of,
    format_of,
    packet_steps,
    write_exchanges,
)
from tests.kproxy.tui.kit import REBALANCE


@pytest.mark.parametrize("form", FORMATS)
def test_a_format_is_told_by_its_suffix(form: str) -> None:
    assert format_of(f"a.b{SUFFIXES[form].upper()}") == form  # type: ignore[index]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("out.pcap", "cannot hold comments"),
        ("out", "does not show the format"),
        ("out.txt", "one of the suffixes .pcapng"),
    ],
)
def test_a_name_that_tells_none_is_explained(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        format_of(name)


def test_only_tables_have_columns() -> None:
    assert {form: bool(columns_of(form)) for form in FORMATS} == {
        "pcapng": False,
        "json": False,
        "csv": True,
        "parquet": True,
        "mermaid": False,
    }


def _opened(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def _packets(capture: Capture, rows: np.ndarray, out: BinaryIO) -> tuple[list[int], WrittenPackets]:
    """Write packets; return the number of capture bytes processed after each step, and the result."""
    steps = packet_steps(capture, rows, out)
    done = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as end:
            return done, end.value


def test_packets_are_written_in_steps() -> None:
    capture, out = _opened(REBALANCE), BytesIO()
    done, written = _packets(capture, capture.table.order(), out)
    assert done == sorted(done)
    assert len(done) > 1
    assert written.exchanges == len(capture.table)
    assert written.notes[0].endswith(" packets")
    with pytest.raises(ValueError, match="packet_steps"):
        write_exchanges(capture, (), out, Layout("pcapng"))


@pytest.mark.parametrize(
    ("numbers", "more"),
    [([101], [8]), ([13, 101], [8]), ([8, 101], []), ([5, 99], []), (range(1, 403), [])],
    ids=["fetch", "later names", "with its names", "by name", "all"],
)
def test_a_part_keeps_the_names_of_its_topics(numbers: list[int], more: list[int], tmp_path: Path) -> None:
    capture = _opened(REBALANCE)
    rows = capture.table.order()[np.array(numbers) - 1]
    with (tmp_path / "part.pcapng").open("wb") as file:
        _, written = _packets(capture, rows, file)
    assert written.exchanges == len(numbers)
    assert written.notes[1:] == ("1 more exchange with the names of their topics",) * len(more)
    part = _opened(tmp_path / "part.pcapng")
    times = {at + 1: exchange.time for at, exchange in enumerate(ExchangeReader(capture))}
    found = list(ExchangeReader(part))
    assert [each.time for each in found] == sorted(times[each] for each in (*numbers, *more))
    fetched = [each.summary[1] for each in found if each.api == "Fetch" and each.time == times[101]]
    assert all("r2-java_eager_range-2" in text for text in fetched)
