"""Formats of files; what is written is tested with those who write, ``kproxy export`` and the UI."""

from __future__ import annotations

from io import BytesIO

import pytest

from captures.exchanges import open_capture
from kproxy.export_files import (
    FORMATS,
    SUFFIXES,
    Layout,
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


def test_packets_are_written_in_steps() -> None:
    capture = open_capture(str(REBALANCE))
    capture.read()
    out = BytesIO()
    steps = packet_steps(capture, capture.table.order(), out)
    done = []
    while True:
        try:
            done.append(next(steps))
        except StopIteration as end:
            written = end.value
            break
    assert done == sorted(done)
    assert len(done) > 1
    assert written.exchanges == len(capture.table)
    assert written.notes[0].endswith(" packets")
    with pytest.raises(ValueError, match="packet_steps"):
        write_exchanges(capture, (), out, Layout("pcapng"))
