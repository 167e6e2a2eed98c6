"""Which tests run: without arguments the default ones, in three minutes on two cores.

``slow``
    is left out by default. So are, where a test is marked ``sample(n)``, all but ``n`` of its cases, which
    checksums of their names choose.
``quick``
    marks modules of the inner loop, one from every floor: ``pytest -m quick``.

What is asked for by name runs: a folder, a file, ``-k``, or a marker (``-m slow`` runs what the default leaves out).

``turns(n)``
    takes turns in the gate: of the slow cases of such a test, every ``n``-th runs. ``.ci/run`` sets :data:`TURN` to the
    number of commits. Where the variable is not set or empty, every case runs.
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

#: how many examples a property is tried with, where it does not say itself; HYPOTHESIS_PROFILE chooses. The gate tries
#: other ones for each commit
EXAMPLES = {"default": 20, "gate": 30, "ci": 100}

#: environment variable with the number of the turn
TURN = "TESTS_TURN"


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
    """Deselect the slow cases of tests marked ``turns`` that other turns run; any n turns in a row run all of them."""
    turn = os.environ.get(TURN)
    if not turn:
        return
    slow = [item for item in items if item.get_closest_marker("slow") is not None]
    left = {
        case
        for count, cases in _cases(slow, "turns")
        for place, case in enumerate(cases)
        if (place - int(turn)) % count
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


def _cases(items: list[pytest.Item], name: str) -> Iterator[tuple[int, list[pytest.Item]]]:
    """Yield the argument of each test's marker `name`, and the test's cases.

    They are in the order of checksums of their names, so that neighbours are of no kind.
    """
    tests = defaultdict(list)
    for item in items:
        if (marker := item.get_closest_marker(name)) is not None:
            tests[item.nodeid.partition("[")[0], *marker.args].append(item)
    for (_, number), cases in tests.items():
        yield number, sorted(cases, key=lambda item: crc32(item.nodeid.encode()))
