"""The tests that run by default, with a marker, and when named."""

from __future__ import annotations

import re

import pytest

from tests.packaging.tree import ROOT
from tests.selection import QUICK, TURN, TURNS

pytest_plugins = ("pytester",)

#: the plugin has one folder per process, and ends with it
_ALONE = ("-p", "no:textual-snapshot")

_CONFTEST = """
from tests.conftest import pytest_collection_modifyitems, pytest_configure, pytest_ignore_collect
"""
_CASES = 12
_MIXED = f"""
import pytest
def test_plain(): pass
@pytest.mark.slow
def test_long(): pass
@pytest.mark.sample(2)
@pytest.mark.parametrize("one", range({_CASES}))
def test_many(one): pass
"""
_INNER = f"""
import pytest
pytestmark = pytest.mark.{QUICK}
def test_inner(): pass
"""
_LONG = f"""
import pytest
pytestmark = pytest.mark.{"slow"}
def test_long(): pass
"""


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    """A project that selects its tests like this one: a mixed module, one of the inner loop, one of slow tests."""
    given = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[tool.pytest.ini_options]")
    pytester.makepyprojecttoml("".join(given[1:]).partition("\n[tool.ruff]")[0])
    tests = pytester.mkdir("tests")
    for name, text in {
        "conftest": _CONFTEST,
        "test_mixed": _MIXED,
        "test_inner": _INNER,
        "test_long": _LONG,
    }.items():
        (tests / f"{name}.py").write_text(text)
    return pytester


@pytest.mark.turns(1)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("arguments", "passed"),
    [
        ((), 1 + 2 + 1),
        (("-m", "quick"), 1),
        (("-m", "slow"), 1 + (_CASES - 2) + 1),
        (("-k", "long"), 2),
        (("tests",), 1 + 1 + _CASES + 1 + 1),
        (("tests/test_mixed.py::test_long",), 1),
    ],
    ids=["default", "quick", "slow", "word", "folder", "test"],
)
def test_what_runs(
    project: pytest.Pytester, arguments: tuple[str, ...], passed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(TURN, raising=False)  # set by the gate
    done = project.runpytest_inprocess(*_ALONE, *arguments)
    assert done.parseoutcomes()["passed"] == passed
    assert done.ret == 0


_TURNS = """
import pytest
@pytest.mark.sample(2)
@pytest.mark.turns(3)
@pytest.mark.parametrize("one", range(12))
def test_many(one): pass
@pytest.mark.slow
@pytest.mark.parametrize("one", range(7))
def test_unmarked(one): pass
@pytest.mark.slow
@pytest.mark.parametrize("one", range(2))
def test_few(one): pass
@pytest.mark.turns(1)
@pytest.mark.slow
@pytest.mark.parametrize("one", range(4))
def test_different(one): pass
@pytest.mark.slow
def test_alone(): pass
def test_plain(): pass
"""
#: for each of these tests: its cases, those that run by default, and the number of turns that run all its slow ones
_TURNED = {
    "many": (12, 2, 3),
    "unmarked": (7, 0, TURNS),
    "few": (2, 0, 2),
    "different": (4, 0, 1),
    "alone": (1, 0, 1),
}


@pytest.mark.slow
def test_turns_run_everything_together_and_something_of_all_each(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.path / "tests" / "test_turns.py").write_text(_TURNS)

    def named(turn: str, *arguments: str) -> set[str]:
        monkeypatch.setenv(TURN, turn)
        done = project.runpytest_inprocess(*_ALONE, "--collect-only", "-q", *arguments)
        return {line for line in done.outlines if "test_turns.py::" in line}

    every, default = named("", "tests"), named("", "tests", "-m", "not slow")
    turns = [named(str(number), "tests") for number in range(7, 7 + 2 * TURNS)]
    assert named("7", "tests") == turns[0]
    for name, (cases, sample, count) in _TURNED.items():

        def of(tests: set[str], name: str = name) -> set[str]:
            return {test for test in tests if f"::test_{name}" in test}

        assert (len(of(every)), len(of(default))) == (cases, sample)
        slow = [of(ran) - default for ran in turns]
        for ran in slow:
            assert (cases - sample) // count <= len(ran) <= -((sample - cases) // count)
        for first in range(len(turns) - count + 1):
            assert set.union(*slow[first : first + count]) == of(every) - default
    assert all(default <= ran for ran in turns)


@pytest.mark.slow
def test_default_and_slow_tests_are_all_tests(project: pytest.Pytester) -> None:
    def named(*arguments: str) -> list[str]:
        done = project.runpytest_inprocess(*_ALONE, "--collect-only", "-q", *arguments)
        return [line for line in done.outlines if "::" in line]

    assert sorted(named() + named("-m", "slow")) == sorted(named("tests"))


def test_the_inner_loop_is_of_every_floor() -> None:
    quick = {
        path.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").rglob("test_*.py")
        if re.search(r"^pytestmark = pytest\.mark\.quick$", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert {"dissectors", "captures", "kproxy"} <= quick
