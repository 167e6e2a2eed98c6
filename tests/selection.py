"""Which tests run: without arguments the default ones, in three minutes on two cores.

``slow``
    is left out by default. So are, where a test is marked ``sample(n)``, all but ``n`` of its cases, which
    checksums of their names choose.
``quick``
    marks modules of the inner loop, one from every floor: ``pytest -m quick``.

What is asked for by name runs: a folder, a file, ``-k``, or a marker (``-m slow`` runs what the default leaves out).
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

#: how many examples a property is tried with, where it does not say itself; HYPOTHESIS_PROFILE chooses
EXAMPLES = {"default": 20, "ci": 100}


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
        for item in sorted(all_of_it, key=lambda item: crc32(item.nodeid.encode()))[wanted:]:
            item.add_marker("slow")
