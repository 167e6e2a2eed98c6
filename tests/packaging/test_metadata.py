"""The dependencies and Python versions in ``pyproject.toml``, and the page of licences."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.packaging.tree import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
USED = [*PROJECT["dependencies"], *(each for extra in EXTRAS if extra != "dev" for each in EXTRAS[extra])]
LICENCES = (ROOT / "docs" / "licences.md").read_text()
_ROW = re.compile(r"^\| (?P<name>[\w.-]+) \| (?P<licence>[^|]+) \| (?P<by>[^|]+) \|$", re.MULTILINE)
BROUGHT = {"rich": "textual"}
"""Transitive dependencies that are listed with the pinned package that requires them."""
UNDECLARED = {"pytest", "_typeshed", *sys.stdlib_module_names}
"""Modules that need no declaration: pytest loads a part of kproxy as its plugin, type checkers have ``_typeshed``."""


@pytest.mark.parametrize("requirement", USED)
def test_dependencies_are_bounded_on_both_sides(requirement: str) -> None:
    operators = {each.operator for each in Requirement(requirement).specifier}
    assert operators == {"=="} or (">=" in operators and "<" in operators)


@pytest.mark.slow
def test_what_is_imported_is_declared() -> None:
    declared = {canonicalize_name(Requirement(each).name) for each in USED}
    own = {"kproxy", "captures", "dissectors"}
    by_module = packages_distributions()
    for package in own:
        for path in (ROOT / package).rglob("*.py"):
            for module in imported(ast.parse(path.read_text())) - own - UNDECLARED:
                brings = {canonicalize_name(each) for each in by_module.get(module, [module])}
                assert brings & declared or BROUGHT.get(module) in declared, f"{path} imports {module}"


def imported(tree: ast.Module) -> set[str]:
    """Return the first part of the names of all imported modules."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {each.name.partition(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add((node.module or "").partition(".")[0])
    return found


def test_the_classifiers_exist() -> None:
    known = pytest.importorskip(
        "trove_classifiers", reason="trove-classifiers comes with hatchling: '.[dev]'"
    )
    assert set(PROJECT["classifiers"]) <= known.classifiers


def test_this_python_is_one_of_those_named() -> None:
    named = {each.rpartition(" ")[2] for each in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", each)}
    assert PROJECT["requires-python"] == f">={min(named, key=lambda each: int(each[2:]))}"
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in named


def test_every_extra_and_dependency_is_on_the_page_of_licences() -> None:
    listed = {canonicalize_name(row["name"]): row for row in _ROW.finditer(LICENCES)}
    declared = [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    missing = {canonicalize_name(Requirement(each).name) for each in declared} - set(listed)
    assert not missing, "run python -m docs.tools.licences"
    assert all(row["licence"].strip() not in ("", "UNKNOWN") for row in listed.values())
    for extra in set(EXTRAS) - {"dev", "fuzz"}:
        assert f"## With `kproxy[{extra}]`" in LICENCES


def test_nothing_is_on_the_page_that_nobody_asks_for() -> None:
    declared = {
        canonicalize_name(Requirement(each).name)
        for each in [*PROJECT["dependencies"], *(each for extra in EXTRAS.values() for each in extra)]
    }
    for row in _ROW.finditer(LICENCES):
        if "kproxy" in row["by"].split(", "):
            assert canonicalize_name(row["name"]) in declared, "run python -m docs.tools.licences"
