"""Selects which tests run. Without arguments pytest runs the default ones, in three minutes on two cores.

``slow``
    marks tests that do not run by default. A test marked ``sample(n)`` runs ``n`` of its cases by default, chosen by
    the checksums of their names; its other cases are slow.
``quick``
    marks modules of the inner loop, one from every floor: ``pytest -m quick``.

Tests that are named always run: by folder, by file, by ``-k`` or by marker (``-m slow`` runs those that the default
leaves out).

In the gate, slow cases take turns: one in five cases of each test function runs, and at least one.

``turns(n)``
    runs one in ``n`` instead, so ``turns(1)`` runs all. It is for cases that check different things, and for output
    that any change of wording can break: generated pages and screens. Tests with the fixture ``snap_compare`` never
    take turns.

``.ci/run`` sets :data:`TURN`, which is the same for all commits of a day. Without the variable, or if it is empty,
every case runs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import settings

DEFAULT, QUICK = "not slow", "quick"

#: fixtures that take seconds to set up (a Spark session, key stores made by Java, packages): their tests are slow
SLOW_FIXTURES = frozenset({"spark", "java_stores", "build"})

#: default number of examples of a property test, by HYPOTHESIS_PROFILE
EXAMPLES = {"default": 20, "ci": 100}

#: the environment variable that holds the number of the turn
TURN = "TESTS_TURN"

#: default number of turns that cover all slow cases of a test
TURNS = 5

#: tests with one of these fixtures run all cases in each turn
ALWAYS_FIXTURES = frozenset({"snap_compare"})


def configure(config: pytest.Config) -> None:
    """Select the default tests if none are named, and the number of examples of property tests."""
    for name, examples in EXAMPLES.items():
        settings.register_profile(name, max_examples=examples, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
    option = config.option
    if config.args_source is config.ArgsSource.TESTPATHS and not (option.markexpr or option.keyword):
        option.markexpr = DEFAULT


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Return whether to skip a whole module, judged by its text: importing all modules takes half a minute."""
    if not (path.name.startswith("test_") and path.suffix == ".py"):
        return False
    if config.option.markexpr == QUICK:
        return "\npytestmark = pytest.mark.quick\n" not in path.read_text(encoding="utf-8")
    if config.option.markexpr == DEFAULT:
        return "\npytestmark = pytest.mark.slow\n" in path.read_text(encoding="utf-8")
    return False


def leave_to_other_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow cases that other turns run. With ``turns(n)``, ``n`` turns in a row run all cases."""
    turn = os.environ.get(TURN)
    if not turn:
        return
    slow = [
        item
        for item in items
        if item.get_closest_marker("slow") is not None
        and ALWAYS_FIXTURES.isdisjoint(getattr(item, "fixturenames", ()))
    ]
    left = {
        case
        for count, cases in _cases(slow, "turns", TURNS)
        for place, case in enumerate(cases)
        if (place - int(turn)) % min(count, len(cases))
    }
    if left:
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark as slow the tests that need a slow fixture, and the cases of sampled tests outside the sample."""
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
    for wanted, cases in _cases(items, "sample"):
        for case in cases[wanted:]:
            case.add_marker("slow")


def _cases(
    items: list[pytest.Item], name: str, default: int | None = None
) -> Iterator[tuple[int, list[pytest.Item]]]:
    """Yield the argument of each test's marker `name`, and the test's cases.

    Cases are sorted by the checksums of their names, so that neighbouring cases are unrelated.

    :param default: the argument for tests without the marker; None skips these tests
    """
    tests = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker(name)
        number = default if marker is None else marker.args[0]
        if number is not None:
            tests[item.nodeid.partition("[")[0], number].append(item)
    for (_, number), cases in tests.items():
        yield number, sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
