"""Which tests run: without arguments the default ones, in three minutes on two cores.

``slow``
    is left out by default. So are, where a test is marked ``sample(n)``, all but ``n`` of its cases, which
    checksums of their names choose.
``quick``
    marks modules of the inner loop, one from every floor: ``pytest -m quick``.

What is asked for by name runs: a folder, a file, ``-k``, or a marker (``-m slow`` runs what the default leaves out).

In the gate, slow cases take turns: of those of one test function every fifth runs, and always at least one.

``turns(n)``
    says it otherwise: every ``n``-th, and with ``turns(1)`` all of them. These are for cases that check different
    things, and for what any change of a text can break: generated pages, and screens that are drawn (what asks for
    ``snap_compare`` never takes turns).

``.ci/run`` sets :data:`TURN`, which is the same for all commits of a day. Where the variable is not set or empty, every
case runs.
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

#: what takes seconds to make: a Spark session, key stores by Java, packages. Tests that need one are slow
SLOW_FIXTURES = frozenset({"spark", "java_stores", "build"})

#: how many examples a property is tried with, where it does not say itself; HYPOTHESIS_PROFILE chooses
EXAMPLES = {"default": 20, "ci": 100}

#: environment variable with the number of the turn
TURN = "TESTS_TURN"

#: how many turns the slow cases of a test take together, where it does not say itself
TURNS = 5

#: of tests with one of these all cases run in each turn
ALWAYS_FIXTURES = frozenset({"snap_compare"})


def configure(config: pytest.Config) -> None:
    """Choose the default tests where none are named, and how many examples properties get."""
    for name, examples in EXAMPLES.items():
        settings.register_profile(name, max_examples=examples, deadline=None)
    settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
    option = config.option
    if config.args_source is config.ArgsSource.TESTPATHS and not (option.markexpr or option.keyword):
        option.markexpr = DEFAULT


def is_left_out(path: Path, config: pytest.Config) -> bool:
    """Tell whether no test of a module is wanted, from its text, as importing all modules takes half a minute."""
    if not (path.name.startswith("test_") and path.suffix == ".py"):
        return False
    if config.option.markexpr == QUICK:
        return "\npytestmark = pytest.mark.quick\n" not in path.read_text(encoding="utf-8")
    if config.option.markexpr == DEFAULT:
        return "\npytestmark = pytest.mark.slow\n" in path.read_text(encoding="utf-8")
    return False


def leave_to_other_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow cases that other turns run; as many turns in a row as a test takes run all of its cases."""
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
    """Mark as slow what needs a slow fixture, and those cases of sampled tests that are not in the sample."""
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

    They are in the order of checksums of their names, so that neighbours are of no kind.

    :param default: the argument where a test has no such marker; None leaves these tests out
    """
    tests = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker(name)
        number = default if marker is None else marker.args[0]
        if number is not None:
            tests[item.nodeid.partition("[")[0], number].append(item)
    for (_, number), cases in tests.items():
        yield number, sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
