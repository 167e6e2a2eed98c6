"""The command, and its handling of libFuzzer's output."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from fuzz import engine
from fuzz import target as target_module
from fuzz.__main__ import main
from fuzz.engine import Outcome, replay
from fuzz.target import NAMES, Input, Target, Violation, check, chunk, limited, load

# atheris 3.0.0, python -m fuzz embedded --runs 3000, shortened
QUIET = """\
INFO: Using preloaded libfuzzer
INFO: Instrumenting dissectors.errors
INFO: seed corpus: files: 85 min: 7b max: 302b total: 10912b rss: 75Mb
#86	INITED cov: 2077 ft: 4019 corp: 83/10Kb exec/s: 0 rss: 88Mb
#512	NEW    cov: 2301 ft: 4400 corp: 84/10Kb lim: 302 exec/s: 256 rss: 88Mb L: 92/302 MS: 1 ChangeBit-
#3000	DONE   cov: 2310 ft: 4500 corp: 90/11Kb lim: 302 exec/s: 250 rss: 90Mb
Done 3000 runs in 12 second(s)
stat::number_of_executed_units: 3000
stat::average_exec_per_sec:     250
stat::new_units_added:          7
stat::slowest_unit_time_sec:    0
stat::peak_rss_mb:              91
"""
# the same with a deliberately broken target
BROKEN = """\
#86	INITED cov: 2077 ft: 4019 corp: 83/10Kb exec/s: 0 rss: 88Mb

 === Uncaught Python exception: ===
Violation: a problem at -7
Traceback (most recent call last):
  File "fuzz/targets/embedded.py", line 60, in run
==4711== ERROR: libFuzzer: fuzz target exited
SUMMARY: libFuzzer: fuzz target exited
artifact_prefix='fuzz/found/embedded/'; Test unit written to fuzz/found/embedded/crash-0a1b
stat::number_of_executed_units: 91
"""


def outcome_of(text: str) -> Outcome:
    outcome = Outcome("embedded", seconds=12)
    for line in text.splitlines():
        outcome.take(line)
    return outcome


def test_a_run_without_a_case() -> None:
    outcome = outcome_of(QUIET)
    assert (outcome.executions, outcome.before, outcome.after) == (3000, 2077, 2310)
    assert (outcome.inputs, outcome.megabytes, outcome.cases, outcome.told) == (7, 91, [], [])
    assert not outcome.failed
    assert (
        "3,000 executions in 12 s (250/s), 2,310 edges (+233), 7 new inputs, 91 MB: no case"
        in outcome.summary()
    )


def test_a_case_is_told_with_its_file_and_its_traceback() -> None:
    outcome = outcome_of(BROKEN)
    assert outcome.failed
    assert outcome.cases == [Path("fuzz/found/embedded/crash-0a1b")]
    assert "Violation: a problem at -7" in outcome.told
    assert "cases: fuzz/found/embedded/crash-0a1b" in outcome.summary()


def test_files_are_run_without_atheris(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = tmp_path / "good"
    good.write_bytes(b"api == Fetch")
    assert main(["filters", str(good)]) == 0
    assert capsys.readouterr().out == "filters: 1 inputs, 0 cases\n"
    assert main(["filters", str(tmp_path / "nothing")]) == 2
    assert main(["all", str(good)]) == 2


def test_a_broken_input_is_a_case(tmp_path: Path) -> None:
    def run(data: bytes) -> None:
        check(data != b"bad", "it is", "bad")

    paths = [tmp_path / name for name in ("bad", "fine")]
    for path in paths:
        path.write_bytes(path.name.encode())
    broken = replay(Target("made", run, lambda: iter(()), "", 9), paths)
    assert list(broken) == [paths[0]]
    assert "Violation: it is bad" in broken[paths[0]]


def test_an_input_that_takes_too_long_is_a_case(tmp_path: Path) -> None:
    path = tmp_path / "slow"
    path.write_bytes(b"")
    target = Target("made", lambda data: None, lambda: iter(()), "", 9, seconds=-1)
    assert "allowed are -1" in replay(target, [path])[path]


def test_an_input_for_which_the_process_grows_too_much_is_a_case(monkeypatch: pytest.MonkeyPatch) -> None:
    largest = iter([90, 100, 100, 100 + 300])  # MiB: before and after each input

    def usage(_: int) -> SimpleNamespace:
        return SimpleNamespace(ru_maxrss=(next(largest) << 20) // target_module.RESIDENT_UNIT)

    monkeypatch.setattr(target_module, "getrusage", usage)
    run = limited(Target("made", lambda data: None, lambda: iter(()), "", 9, megabytes=256))
    run(b"")
    with pytest.raises(Violation, match="it took 300 MB, allowed are 256"):
        run(b"x")


def test_without_atheris_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(engine, "find_spec", lambda name: None)
    assert main(["filters", "--corpus", str(tmp_path)]) == 2
    assert "pip install -e '.[fuzz]'" in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_targets_say_what_must_hold(name: str) -> None:
    target = load(name)
    assert "\n\n" in target.about
    assert target.longest >= 256
    assert target.megabytes >= 256


def test_a_process_that_fails_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child cannot import atheris: its output is shown, and it counts as failed."""
    monkeypatch.setattr(engine, "need_atheris", lambda: None)
    monkeypatch.setattr(engine, "FOUND", tmp_path / "found")
    (tmp_path / "atheris.py").write_text("raise ImportError('no fuzzer here')")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(__file__).parents[2]}")
    outcome = engine.fuzz("filters", tmp_path / "work", runs=1)
    assert outcome.failed
    assert "ImportError: no fuzzer here" in outcome.told
    assert "did not run" in outcome.summary()


def test_input_is_read_to_its_end_and_beyond() -> None:
    given = Input(b"\x01\x02\x03" + chunk(b"abc") + b"rest")
    assert (given.number(), given.number(2), given.chunk(), given.rest()) == (1, 0x203, b"abc", b"rest")
    assert not given
    assert (given.number(4), given.take(3), given.chunk()) == (0, b"", b"")


@pytest.mark.parametrize(("name", "told"), [("filters", True), ("records", False)])
def test_a_dictionary_is_given_where_there_are_words(
    name: str, told: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libFuzzer does not start with an empty one."""
    given: list[str] = []
    monkeypatch.setattr(engine, "need_atheris", lambda: None)
    monkeypatch.setattr(engine, "FOUND", tmp_path / "found")
    monkeypatch.setattr(
        engine, "_ended", lambda name, module, progress: given.extend(module) or Outcome(name)
    )
    engine.fuzz(name, tmp_path / "work", runs=7)
    dictionaries = [Path(option.partition("=")[2]) for option in given if option.startswith("-dict=")]
    assert [path.stat().st_size > 0 for path in dictionaries] == [True] * told
    assert "-runs=7" in given
    assert not [option for option in given if option.startswith("-max_total_time")]
    assert not (tmp_path / "found" / name).exists()


def test_merging_tells_what_was_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = tmp_path / "corpus" / "tls"
    corpus.mkdir(parents=True)
    (corpus / "seed-one").write_bytes(b"1")
    given: list[str] = []

    def added(name: str, module: list[str], progress: object) -> Outcome:
        given.extend(module)
        (corpus / "0a1b").write_bytes(b"2")
        return Outcome(name)

    monkeypatch.setattr(engine, "need_atheris", lambda: None)
    monkeypatch.setattr(engine, "_ended", added)
    for module in (engine, target_module):
        monkeypatch.setattr(module, "CORPUS", tmp_path / "corpus")
    monkeypatch.setattr(target_module, "FOUND", tmp_path / "found")
    assert main(["tls", "--merge", "--corpus", str(tmp_path / "work")]) == 0
    assert capsys.readouterr().out.split() == ["tls", "1", "inputs", "added", "to", "1"]
    assert given[-3:] == ["-merge=1", str(corpus), str(tmp_path / "work" / "tls")]


def test_words_are_written_as_libfuzzer_reads_them() -> None:
    assert engine.escaped(b'a"\\\n') == r"\x61\x22\x5c\x0a"
    assert b"latency" in list(load("filters").words())


def test_check() -> None:
    check([1], "nothing")
    with pytest.raises(Violation, match="3 of 2"):
        check(0, 3, "of", 2)
