"""The guard that counts work: its counts and messages, and that kproxy does no more than the stored counts."""

from __future__ import annotations

import dataclasses
import json
import textwrap
from functools import cache
from pathlib import Path

import pytest

from benchmarks import work
from benchmarks.work import JobWork, KeptCounts, MeasuredJob, compare, count, measured, not_linear

#: all jobs, in parts of about equal length that run side by side
LOTS = (
    ("table by ranges", "records", "records of large batches", "messages"),
    ("tables", "frame in pieces", "proxy that rewrites", "table of tiny messages"),
    (
        "diagnose",
        "columns of the list, and filters",
        "read --json",
        "messages traced",
        "proxy",
        "proxy, many partitions fetched",
        "proxy that records",
    ),
    (
        "table of steady traffic",
        "table of a damaged capture",
        "frame in pieces, captured",
        "proxy that rewrites what comes in pieces",
        "proxy that records bufferfuls",
    ),
)
KEPT = KeptCounts.load()


# ---------------------------------------------------------------- what is guarded
@pytest.mark.turns(1)
@pytest.mark.slow
@pytest.mark.parametrize("lot", LOTS, ids=lambda lot: lot[0])
def test_no_more_work_is_done_than_is_kept_and_twice_the_traffic_is_twice_the_work(
    lot: tuple[str, ...],
) -> None:
    found = measured(lot, twice=True)
    assert set(found) == set(lot)
    wrong = compare(KEPT, {name: each.found for name, each in found.items()})
    for name, each in found.items():
        assert each.double is not None
        assert each.double.units >= 1.9 * each.found.units
        wrong += not_linear(name, each.found, each.double)
    assert not wrong, "\n\n" + "\n\n".join(wrong)


def test_every_job_is_kept_and_guarded() -> None:
    every = work.jobs()
    assert list(KEPT.jobs) == list(every)
    assert sorted(name for lot in LOTS for name in lot) == sorted(every)
    for name, job in KEPT.jobs.items():
        assert set(job.counts) == set(work.COUNTS), name
        assert job.unit == every[name]
        for each in work.BY_FUNCTION:
            assert 0 < len(job.functions[each]) <= 15
            assert sum(job.functions[each].values()) <= job.counts[each]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["table of tiny messages", "messages", "proxy that records", "proxy that rewrites", "read --json"]
)
def test_figures_are_the_same_in_every_process(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = measured([name])[name].found
    for variable, value in {
        "PYTHONHASHSEED": "12345",
        "LC_ALL": "C",
        "TZ": "Asia/Kathmandu",
        "COLUMNS": "40",
        "PYTHONMALLOC": "malloc",
        "PYTHONTRACEMALLOC": "3",
    }.items():
        monkeypatch.setenv(variable, value)
    elsewhere = tmp_path / "a folder with a longer name than others have, in which files are counted too"
    elsewhere.mkdir()
    again = measured([name], folder=str(elsewhere))[name].found
    for each in work.COUNTS:
        if each in work.MEMORY:
            assert again.counts[each] == pytest.approx(first.counts[each], rel=0.001, abs=32), each
        else:
            assert again.counts[each] == first.counts[each], each
    for each in ("calls", "other calls", "lines"):
        assert again.functions[each] == first.functions[each], each


@cache
def _before() -> JobWork:
    """Return the counts of the unmodified job; cached for all additions to it."""
    return measured(["proxy"])["proxy"].found


#: additional work for each buffer that a proxy reads
ADDED = {
    "calls": "self.unsent",
    "other calls": "len(data)",
    "lines": "\n".join("_ = 0" for _ in range(8)),
    "allocated": "_ = data[1:]",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ADDED)
def test_work_added_for_each_exchange_is_caught(name: str) -> None:
    # as if it were in half.py: the function's code is compiled again, in place, with an addition
    more = f"""
        import inspect, textwrap
        from kproxy.proxy import half
        source = textwrap.dedent(inspect.getsource(half.Half._write))
        head, body = source.split("\\n", 1)
        added = textwrap.indent({ADDED[name]!r}, "    ")
        code = compile(head + "\\n" + added + "\\n" + body, half.__file__, "exec")
        scope = {{}}
        exec(code, half.__dict__, scope)
        half.Half._write.__code__ = scope["_write"].__code__
    """
    here = dataclasses.replace(KEPT, jobs={})  # the bounds that hold where counts were kept
    before = _before()
    after = measured(["proxy"], first=textwrap.dedent(more))["proxy"].found
    kept = dataclasses.replace(KEPT, jobs={"proxy": before.largest()})
    assert compare(kept, {"proxy": before}, here) == []
    told = compare(kept, {"proxy": after}, here)
    assert any(each.startswith(f"proxy: {name} ") for each in told), told
    assert any("_write" in each or "Half.unsent" in each or "builtins.len" in each for each in told), told


# ---------------------------------------------------------------- what is counted
SOURCE = """
def helper(data):
    return len(data)

def whole(data):
    total = 0
    for at in range(10):
        piece = data[at:]
        total += helper(piece)
    return [total]
"""


def _own_code() -> dict[str, object]:
    scope: dict[str, object] = {}
    exec(compile(SOURCE, str(work.ROOT / "kproxy" / "made_up.py"), "exec"), scope)
    return scope


@pytest.mark.slow
def test_what_is_counted() -> None:
    whole = _own_code()["whole"]
    data = bytes(100_000)
    found = count(lambda: whole(data), "piece", 10)  # type: ignore[operator]
    assert found.counts["calls"] == 11
    # helper asks for the length; range is a class, which is no call
    assert found.counts["other calls"] == 10
    assert found.functions["calls"] == {"kproxy/made_up.py: helper": 10, "kproxy/made_up.py: whole": 1}
    assert found.functions["other calls"] == {"built-in method builtins.len": 10}
    # each round has three lines, and each call of the helper one; then what is before the loop, its end and behind it
    assert found.counts["lines"] == 10 * 4 + 3
    copied = sum(len(data) - at for at in range(1, 10))  # all of it is the same object
    assert copied <= found.counts["allocated"] < copied + 2_000
    assert 100_000 < found.counts["peak"] < 250_000  # one piece, and the next before that is gone
    # its room for items, the only item, and the list itself unless Python had kept one for being used again
    assert found.counts["kept"] in (2, 3)
    assert found.counts["read"] == found.counts["checked"] == 0
    assert found.each("calls") == 1.1


@pytest.mark.slow
def test_bytes_read_and_checked_are_counted(tmp_path: Path) -> None:
    import crc32c

    from captures.packets import open_source

    path = tmp_path / "some.pcap"
    path.write_bytes(bytes(1000))

    def run() -> None:
        with open_source(str(path)) as source:
            crc32c.crc32c(source.read(100, 400))

    counts = count(run, "run", 1).counts
    assert counts["checked"] == 400
    assert 400 <= counts["read"] <= 500  # and what tells the format


@pytest.mark.slow
def test_only_calls_and_lines_are_counted_where_that_is_enough() -> None:
    whole = _own_code()["whole"]
    every = count(lambda: whole(bytes(100)), "piece", 10)  # type: ignore[operator]
    some = count(lambda: whole(bytes(100)), "piece", 10, memory=False)  # type: ignore[operator]
    assert some.counts == {name: every.counts[name] for name in ("calls", "other calls", "lines")}


@pytest.mark.slow
def test_a_process_that_fails_is_told() -> None:
    with pytest.raises(RuntimeError, match=r"counting failed:(.|\n)*ZeroDivisionError"):
        measured(["messages"], first="1 / 0")


# ---------------------------------------------------------------- messages
def _counted(units: int = 1000, **counts: int) -> JobWork:
    functions = {name: {"kproxy/a.py: old": counts.get(name, 0)} for name in work.BY_FUNCTION}
    every = dict.fromkeys(work.COUNTS, 10_000) | {
        name.replace("_", " "): value for name, value in counts.items()
    }
    return JobWork("exchange", units, every, functions)


def _kept(job: JobWork, python: str = "3.11", numpy: str = "2.0") -> KeptCounts:
    return KeptCounts(python, {"numpy": numpy}, {"a job": job})


HERE = KeptCounts("3.11", {"numpy": "2.0"}, {})


def test_what_is_within_the_bounds_is_well() -> None:
    kept = _kept(_counted())
    for value in (9_100, 10_000, 10_390):
        assert compare(kept, {"a job": _counted(calls=value)}, HERE) == []
    # one exchange more or less does not matter
    assert compare(kept, {"a job": _counted(2000, **dict.fromkeys(work.COUNTS, 20_000))}, HERE) == []


def test_more_work_is_told_with_the_functions_that_do_it() -> None:
    now = _counted(calls=11_500)
    now.functions["calls"] = {"kproxy/a.py: old": 10_500, "kproxy/b.py: new": 1_000}
    kept = _counted(calls=10_000)
    (told,) = compare(_kept(kept), {"a job": now}, HERE)
    assert told.splitlines() == [
        "a job: calls 11.5 for one exchange, kept 10 (+15.0%, allowed +4%)",
        "  kproxy/b.py: new is called 1 times for one exchange, was at most 0",
        "  kproxy/a.py: old is called 10.5 times for one exchange, was 10",
        "  if that work has to be done: python -m benchmarks.work --write",
    ]


def test_of_functions_that_are_not_kept_the_least_is_told() -> None:
    kept = _counted(calls=16_000)
    kept.functions["calls"] = {f"kproxy/a.py: f{number:02}": 1_000 for number in range(16)}
    kept = kept.largest()
    assert len(kept.functions["calls"]) == 15
    now = _counted(calls=18_000)
    now.functions["calls"] = {f"kproxy/a.py: f{number:02}": 1_000 for number in range(15)} | {
        "kproxy/a.py: f15": 3_000
    }
    (told,) = compare(_kept(kept), {"a job": now}, HERE)
    assert told.splitlines()[1:-1] == ["  kproxy/a.py: f15 is called 3 times for one exchange, was at most 1"]


def test_less_work_has_to_be_kept() -> None:
    (told,) = compare(_kept(_counted()), {"a job": _counted(lines=8_900)}, HERE)
    assert told == (
        "a job: lines 8.9 for one exchange, kept 10 (-11.0%): less work than before, which is kept by "
        "python -m benchmarks.work --write"
    )


def test_work_where_there_was_none_is_told() -> None:
    (told,) = compare(_kept(_counted(checked=0)), {"a job": _counted(checked=500)}, HERE)
    assert told.startswith("a job: checked 0.5 for one exchange, kept 0 (new, allowed +4%)")
    assert compare(_kept(_counted(checked=0)), {"a job": _counted(checked=60)}, HERE) == []


def test_bounds_are_wide_with_another_version() -> None:
    other = _kept(_counted(), python="3.14")
    assert compare(other, {"a job": _counted(calls=11_400, lines=5_000)}, HERE) == []
    (told,) = compare(other, {"a job": _counted(calls=11_600)}, HERE)
    assert "(+16.0%, allowed +15%)" in told
    # memory depends on numpy, calls do not
    newer = _kept(_counted(), numpy="3.0")
    assert compare(newer, {"a job": _counted(allocated=11_400)}, HERE) == []
    assert len(compare(newer, {"a job": _counted(allocated=11_400, calls=11_400)}, HERE)) == 1


def test_a_job_that_is_not_kept_is_told() -> None:
    assert compare(_kept(_counted()), {"another": _counted()}, HERE) == [
        "another: no counts are kept of it: python -m benchmarks.work --write"
    ]


def test_what_grows_faster_than_the_traffic_is_told() -> None:
    once, twice = _counted(calls=10_000), _counted(2000, calls=20_400, lines=21_000)
    assert not_linear("a job", once, twice) == ["a job: twice the traffic takes 2.10 times the lines"]


# ---------------------------------------------------------------- the command
@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "work.json"
    monkeypatch.setattr(work, "KEPT", path)
    return path


def _answer(monkeypatch: pytest.MonkeyPatch, calls: int) -> None:
    monkeypatch.setattr(
        work, "measured", lambda names: {name: MeasuredJob(_counted(calls=calls), None) for name in names}
    )


def test_write_keeps_all_and_then_some(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(monkeypatch, 10_000)
    with pytest.raises(SystemExit, match="count all jobs together"):
        work.main(["--write", "proxy"])
    assert not made.exists()
    work.main(["--write"])
    kept = KeptCounts.load(made)
    assert list(kept.jobs) == list(work.jobs())
    _answer(monkeypatch, 20_000)
    work.main(["--write", "read --json"])
    changed = {name for name, job in KeptCounts.load(made).jobs.items() if job.counts["calls"] == 20_000}
    assert changed == {"read --json"}


def test_the_table_and_what_is_wrong_are_printed(
    made: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _answer(monkeypatch, 10_000)
    work.main(["--write"])
    capsys.readouterr()
    _answer(monkeypatch, 20_000)
    work.main(["diagnose"])
    lines = capsys.readouterr().out.splitlines()
    assert (
        " ".join(lines[0].split()) == "job for one calls other calls lines allocated peak kept read checked"
    )
    assert lines[1].split() == ["diagnose", "exchange", "20", *["10"] * 7]
    assert lines[3].startswith("diagnose: calls 20 for one exchange, kept 10 (+100.0%")
    work.main(["diagnose", "--json"])
    shape = json.loads(capsys.readouterr().out)
    assert shape["jobs"]["diagnose"]["counts"]["calls"] == 20_000


def test_there_has_to_be_such_a_job(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        work.main(["nothing like it"])
    assert "there is no such job; there are: table of steady traffic, " in capsys.readouterr().err


def test_figures_have_three_digits() -> None:
    rows = work.table(_kept(_counted(calls=0, lines=1_234_567, read=12_345, peak=4)))
    assert rows[1] == ("a job", "exchange", "0", "10", "1,235", "10", "0.004", "10", "12.3", "10")
