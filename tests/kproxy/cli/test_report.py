"""``kproxy report``: the destination of the page, and messages if there is none."""

from __future__ import annotations

import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from captures.export.markup import Markup
from captures.export.report import page
from captures.export.report.traffic import TRAFFIC
from kproxy.cli import main
from tests.captures.export.report.kit import exchange, failed, write


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "tables", exchanges=[exchange(1, 0), failed(2, 1, "UNKNOWN_TOPIC_OR_PARTITION")])


def run(*arguments: str | Path) -> tuple[int, str, str]:
    done = CliRunner().invoke(main, ["report", *map(str, arguments)])
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return done.exit_code, done.stdout, done.stderr


@pytest.mark.slow
def test_the_page_goes_into_the_folder(folder: Path) -> None:
    code, out, said = run(folder, "--utc")
    assert (code, out) == (0, "")
    assert said == f"The report is in {folder / 'report.html'}.\n"
    text = (folder / "report.html").read_text()
    assert text.startswith("<!DOCTYPE html>")
    assert "UNKNOWN_TOPIC_OR_PARTITION" in text
    assert "2026-09-21 14:13:20.000 to 2026-09-21 14:13:21.000 UTC" in text


@pytest.mark.slow
def test_the_page_goes_elsewhere(folder: Path, tmp_path: Path) -> None:
    assert run(folder, "-o", tmp_path / "page.html", "--title", "A & B")[0] == 0
    assert "<title>A &amp; B</title>" in (tmp_path / "page.html").read_text()
    code, out, said = run(folder, "-o", "-")
    assert (code, said) == (0, "")
    assert out.startswith("<!DOCTYPE html>")
    assert not (folder / "report.html").exists()


@pytest.mark.slow
def test_a_report_is_made_anew_and_nothing_else_overwritten(folder: Path, tmp_path: Path) -> None:
    assert run(folder, "--title", "first")[0] == 0
    assert run(folder, "--title", "second")[0] == 0
    assert "<title>second</title>" in (folder / "report.html").read_text()
    notes = tmp_path / "notes.html"
    notes.write_text("<p>mine</p>")
    code, _, said = run(folder, "-o", notes)
    assert code == 2
    assert "exists; --force overwrites it" in said
    assert notes.read_text() == "<p>mine</p>"
    assert run(folder, "-o", notes, "--force")[0] == 0
    assert notes.read_text().startswith("<!DOCTYPE html>")


def test_a_browser_shows_it(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr(click, "launch", shown.append)
    assert run(folder, "--open")[0] == 0
    assert shown == [(folder / "report.html").resolve().as_uri()]
    code, _, said = run(folder, "--open", "-o", "-")
    assert code == 2
    assert "--open needs a file" in said


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    code, out, said = run(tmp_path)
    assert (code, out) == (1, "")
    assert (
        said
        == f"kproxy: there are no tables in {tmp_path}; 'kproxy tables CAPTURE... -o {tmp_path}' writes them\n"
    )
    code, _, said = run(tmp_path / "nowhere")
    assert code == 1
    assert "there are no tables in" in said


def test_without_duckdb_the_command_that_helps_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    code, _, said = run(folder)
    assert code == 1
    assert said == "kproxy: a report needs DuckDB: pip install 'kproxy[report]'\n"
    assert not (folder / "report.html").exists()


def test_a_file_that_cannot_be_written_is_named(folder: Path, tmp_path: Path) -> None:
    code, _, said = run(folder, "-o", tmp_path / "nowhere" / "page.html")
    assert code == 1
    assert "page.html could not be written" in said


def test_a_section_that_cannot_be_made_ends_no_other(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(_: object) -> list[Markup]:
        raise KeyError("planted")

    sections = [replace(each, body=broken) if each is TRAFFIC else each for each in page._SECTIONS]
    monkeypatch.setattr(page, "_SECTIONS", tuple(sections))
    code, _, said = run(folder)
    assert code == 3
    assert f"kproxy: the section {TRAFFIC.title} failed: KeyError: 'planted'" in said
    text = (folder / "report.html").read_text()
    assert "This could not be made, because of an internal error in kproxy." in text
    assert "UNKNOWN_TOPIC_OR_PARTITION" in text
