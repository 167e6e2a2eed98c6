"""Fuzzing without coverage: inputs are mutated and run, alone or together, and failures are reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from fuzz import plain
from fuzz.cases import Cases
from fuzz.engine import running
from fuzz.plain import Runs
from fuzz.target import Target, check, together, whole


def runs(tmp_path: Path, target: Target, inputs: Sequence[bytes] = (b"abcdefgh", b"12345678")) -> Runs:
    cases = Cases(tmp_path / "made.cases", tmp_path / "found")
    return Runs(target, cases, inputs, Random(1), tmp_path / "current")


def test_inputs_are_changed_and_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[bytes] = []
    runs(tmp_path, Target("made", seen.append, lambda: iter(()), "", 16)).go(float("inf"), 200)
    assert len(seen) == 200
    assert len(set(seen)) > 100
    assert max(map(len, seen)) <= 16
    assert "stat::number_of_executed_units: 200\n" in capsys.readouterr().out


def test_a_mutator_is_asked_more_often_than_not(tmp_path: Path) -> None:
    seen: list[bytes] = []
    target = Target("made", seen.append, lambda: iter(()), "", 16, mutate=lambda data, other, rng: b"mine")
    runs(tmp_path, target).go(float("inf"), 200)
    assert 100 < seen.count(b"mine") < 200


def test_a_case_does_not_end_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = 0

    def run(data: bytes) -> None:
        nonlocal count
        count += 1
        check(count % 2, "every second one")

    runs(tmp_path, Target("made", run, lambda: iter(()), "", 16)).go(float("inf"), 50)
    assert count == 50
    assert capsys.readouterr().out.count("Test unit written to") == 1
    assert len(list((tmp_path / "found").iterdir())) == 1


def test_of_several_the_one_that_breaks_is_found(tmp_path: Path) -> None:
    """Inputs run several at a time; only the failing one, 1 in 20, is kept."""

    def run(data: bytes) -> None:
        check(data != b"bad", "bad")

    def several(inputs: Sequence[bytes]) -> None:
        for data in inputs:
            run(data)

    def mutate(data: bytes, other: bytes, rng: Random) -> bytes:
        return b"bad" if rng.random() < 0.05 else b"good"

    target = Target("made", run, lambda: iter(()), "", 16, several=several, mutate=mutate)
    runs(tmp_path, target).go(float("inf"), 320)
    assert [path.read_bytes() for path in (tmp_path / "found").iterdir()] == [b"bad"]


def test_what_several_break_only_together_is_kept_as_one(tmp_path: Path) -> None:
    def several(inputs: Sequence[bytes]) -> None:
        check(len(set(inputs)) < 3, "three that differ")

    target = Target("made", lambda data: None, lambda: iter(()), "", 64, several=several)
    runs(tmp_path, target).go(float("inf"), 64)
    (path,) = (tmp_path / "found").iterdir()
    with pytest.raises(Exception, match="three that differ"):
        whole(target)(path.read_bytes())
    whole(target)(together([b"a", b"a", b"b"]))


def test_inputs_of_a_kind_are_run_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plain, "_BY_HAND", 0)
    batches: list[list[bytes]] = []
    target = Target(
        "made",
        lambda data: None,
        lambda: iter(()),
        "",
        64,
        mutate=lambda data, other, rng: data,
        several=lambda inputs: batches.append(list(inputs)),
        kin=lambda data: data[:1],
        alike=lambda inputs: [data[:4] for data in inputs],
    )
    runs(tmp_path, target, [b"aaaaaa", b"abaaaa", b"baaaaa"]).go(float("inf"), 160)
    assert len(batches) == 5
    for batch in batches:
        assert set(batch) <= {b"aaaa", b"abaa"} or set(batch) == {b"baaa"}


def test_what_was_being_run_is_told_by_a_process_that_died(tmp_path: Path) -> None:
    noted: list[bytes] = []

    def run(data: bytes) -> None:
        noted.extend(running((tmp_path / "current").read_bytes()))
        assert noted[-1] == data

    runs(tmp_path, Target("made", run, lambda: iter(()), "", 16)).go(float("inf"), 5)
    assert len(noted) == 5
