"""The comparison of outputs finds differences, and lists similar lines once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lanes import outputs


def write(folder: Path, **texts: str) -> Path:
    """Write outputs to files named after their commands."""
    folder.mkdir()
    for command, text in texts.items():
        (folder / f"{command}@one.pcap").write_text(text)
    return folder


def test_equal_outputs_have_no_differences(tmp_path):
    """Equal outputs are not listed."""
    texts = {"read": "1 Fetch\n", "stats": "exchanges 1\n"}
    assert outputs.differences(write(tmp_path / "a", **texts), write(tmp_path / "b", **texts)) == {}


def test_changed_lines_are_listed_by_kind(tmp_path):
    """Lines that differ only in numbers are one kind; the command is listed with the number of changed outputs."""
    before = write(tmp_path / "a", read="took 1 s\ntook 2 s\nend\n", stats="same\n")
    after = write(tmp_path / "b", read="lasted 1 s\nlasted 2 s\nend\n", stats="same\n")
    assert outputs.differences(before, after) == {
        "read": {("=", ""): 1, ("-", "took # s"): 2, ("+", "lasted # s"): 2}
    }


def test_missing_outputs_are_no_equality(tmp_path):
    """A command that ran on one side only is an error; it is not skipped."""
    before, after = write(tmp_path / "a", read="x\n"), write(tmp_path / "b", stats="x\n")
    with pytest.raises(ValueError, match="other commands or captures"):
        outputs.differences(before, after)


def test_all_recordings_are_compared():
    """The recordings of the tests and the bundled capture are found."""
    captures = outputs.recorded_captures()
    assert len(captures) > 200
    assert any("samples" in each.parts for each in captures)
