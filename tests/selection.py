"""Which tests run: without arguments the default ones, in three minutes on two cores.

``slow``
    is left out by default. So are, where a test is marked ``sample(n)``, all but ``n`` of its cases, which
    checksums of their names choose.
``quick``
    marks modules of the inner loop, one from every floor: ``pytest -m quick``.

What is asked for by name runs: a folder, a file, ``-k``, or a marker (``-m slow`` runs what the default leaves out).

``turns(n)``
    takes turns in the gate: of the slow cases of such a test, every ``n``-th runs. ``.ci/run`` sets :data:`TURN` to a
    number that it makes of the commit. Where the variable is not set or empty, every case runs.
"""

from __future__ import annotations

import os
from collections import defaultdict
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


def turn() -> int | None:
    """Return the number of the turn; ``None`` if every case runs."""
    number = os.environ.get(TURN, "")
    return int(number) if number else None


def leave_to_other_turns(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the slow cases of tests marked ``turns`` that other turns run; any n turns in a row run all of them."""
    number = turn()
    if number is None:
        return
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("turns") is not None and item.get_closest_marker("slow") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    left = set()
    for of_test in cases.values():
        marker = of_test[0].get_closest_marker("turns")
        assert marker is not None
        (count,) = marker.args
        wanted = set(_in_order(of_test)[number % count :: count])
        left |= set(of_test) - wanted
    if left:
        config.hook.pytest_deselected(items=[item for item in items if item in left])
        items[:] = [item for item in items if item not in left]


def _in_order(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return cases in the order of checksums of their names, so that neighbours are of no kind."""
    return sorted(items, key=lambda item: crc32(item.nodeid.encode()))


def mark_slow(items: list[pytest.Item]) -> None:
    """Mark as slow what needs a slow fixture, and those cases of sampled tests that are not in the sample."""
    cases = defaultdict(list)
    for item in items:
        if not SLOW_FIXTURES.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker("slow")
        if item.get_closest_marker("sample") is not None:
            cases[item.nodeid.partition("[")[0]].append(item)
    for all_of_it in cases.values():
        marker = all_of_it[0].get_closest_marker("sample")
        assert marker is not None
        (wanted,) = marker.args
        for item in _in_order(all_of_it)[wanted:]:
            item.add_marker("slow")
