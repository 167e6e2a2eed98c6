"""Exporting the exchanges of a session to a file."""

from __future__ import annotations

import asyncio
import csv
import json
from pathlib import Path
from typing import get_args

import numpy as np
import pytest

from captures.arrays import Int64s
from captures.exchanges import ExchangeReader, open_capture
from captures.export.mermaid import MAX_EXCHANGES
from captures.export.parquet import ParquetMissing
from kproxy.export_files import SUFFIXES, FileFormat, Layout, columns_of
from kproxy.session import Session
from kproxy.session.access import Access
from kproxy.session.export import Export, ExportError
from kproxy.session.published import numbered
from tests.kproxy.tui.kit import REBALANCE, read_session
from tests.waiting import until

FORMATS: tuple[FileFormat, ...] = get_args(FileFormat)


def export(
    session: Session, path: Path, form: FileFormat, numbers: Int64s | None = None, **how: bool
) -> Export:
    chosen = session.shown.all() if numbers is None else numbers
    return Export(session, chosen, path, Layout(form, columns_of(form)), **how)


def out_of(folder: Path, form: FileFormat) -> Path:
    return folder / f"out{SUFFIXES[form]}"


async def test_all_that_is_shown_is_there_and_in_its_order(tmp_path: Path) -> None:
    async with read_session() as session:
        numbers = session.shown.all()[::-1]
        written = await export(session, tmp_path / "out.jsonl", "json", numbers).run()
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert [json.loads(line)["number"] for line in lines] == numbers.tolist()
    assert (written.exchanges, written.size) == (len(numbers), (tmp_path / "out.jsonl").stat().st_size)


async def test_csv_has_the_columns_of_the_command(tmp_path: Path) -> None:
    async with read_session() as session:
        await export(session, tmp_path / "out.csv", "csv").run()
        rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
        assert rows[0][:3] == ["number", "time", "latency_ns"]
        assert len(rows) == session.status.exchanges + 1


@pytest.mark.slow
@pytest.mark.parametrize("synthetic", [False, True])
async def test_packets_read_back(synthetic: bool, tmp_path: Path) -> None:
    async with read_session() as session:
        made = export(session, tmp_path / "out.pcapng", "pcapng", synthetic=synthetic)
        written = await made.run()
        assert made.progress == 1.0
        assert written.exchanges == session.status.exchanges
        assert ("synthetic" in written.notes[0]) is synthetic
    capture = open_capture(str(tmp_path / "out.pcapng"))
    capture.read()
    again = [each.summary for each in ExchangeReader(capture)]
    original = open_capture(str(REBALANCE))
    original.read()
    assert sorted(again) == sorted(each.summary for each in ExchangeReader(original))


@pytest.mark.parametrize("form", FORMATS)
async def test_a_file_that_could_not_be_written_is_not_there(form: FileFormat, tmp_path: Path) -> None:
    out = out_of(tmp_path / "nowhere", form)
    async with read_session() as session:
        with pytest.raises(ExportError, match="nowhere"):
            await export(session, out, form).run()
    assert not out.exists()


async def test_a_disk_that_fails_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    full = OSError(28, "No space left on device")

    def fail(*_: object, **__: object) -> int:
        raise full

    for form, name in (("json", "write_exchanges"), ("pcapng", "packet_steps")):
        monkeypatch.setattr(f"kproxy.session.export.{name}", fail)
        async with read_session() as session:
            with pytest.raises(ExportError, match="No space left on device"):
                await export(session, out_of(tmp_path, form), form).run()  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


async def test_without_pyarrow_it_is_said_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def missing(*_: object) -> int:
        raise ParquetMissing

    monkeypatch.setattr("kproxy.session.export.write_exchanges", missing)
    async with read_session() as session:
        with pytest.raises(ExportError, match="needs pyarrow"):
            await export(session, tmp_path / "out.parquet", "parquet").run()


@pytest.mark.parametrize("form", ["json", "csv", "parquet", "mermaid"])
async def test_being_cancelled_on_the_way_leaves_no_file(form: FileFormat, tmp_path: Path) -> None:
    async with read_session() as session:
        made = export(session, out_of(tmp_path, form), form, np.tile(session.shown.all(), 500))
        running = asyncio.create_task(made.run())
        await until(lambda: made.progress > 0)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        await until(lambda: not list(tmp_path.iterdir()))


async def test_packets_are_written_in_steps_that_can_be_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kproxy.session.export._STEP", 0.0)
    out = tmp_path / "out.pcapng"
    async with read_session() as session:

        def half(access: Access) -> list[str]:
            job = export(session, out, "pcapng")._packets(access)
            next(job)
            there = [path.suffixes[-1] for path in tmp_path.iterdir()]
            job.close()
            return there

        assert len(await session.run(half)) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
async def test_a_diagram_says_how_much_it_leaves_out(tmp_path: Path) -> None:
    async with read_session() as session:
        many = np.tile(session.shown.all(), 50)[: MAX_EXCHANGES + 7]
        written = await export(session, tmp_path / "out.mmd", "mermaid", many).run()
    assert written.exchanges == MAX_EXCHANGES + 7
    assert "7 later exchanges are left out" in (tmp_path / "out.mmd").read_text()


async def test_exchanges_that_were_dropped_are_left_out(tmp_path: Path) -> None:
    async with read_session() as session:
        written = await export(session, tmp_path / "out.jsonl", "json", numbered([3, 999_999])).run()
    assert written.exchanges == 1


async def test_no_capture_that_is_shown_is_written_over(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(REBALANCE.read_bytes())
    (tmp_path / "b.csv").symlink_to(path)
    async with read_session(path) as session:
        with pytest.raises(ExportError, match="is one of the captures"):
            await export(session, tmp_path / "b.csv", "csv").run()
    assert path.read_bytes() == REBALANCE.read_bytes()


async def test_of_a_capture_that_grows_packets_are_made_anew(tmp_path: Path) -> None:
    capture = open_capture(str(REBALANCE), follow=True)
    session = Session(capture, title="growing", live=True)
    session.start()
    try:
        await until(lambda: session.status.exchanges > 300)
        chosen = session.shown.all()
        written = await export(session, tmp_path / "out.pcapng", "pcapng", chosen).run()
        assert written.exchanges == len(chosen)
        assert "synthetic" in written.notes[0]
        assert not session.status.finished
    finally:
        session.close()
