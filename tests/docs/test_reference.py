"""The reference pages agree with the code: field paths and their versions, environment variables, exit codes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from captures.filters import paths as filter_paths
from dissectors import wire
from dissectors.apis import NAMES, Api, api
from dissectors.schema import Message
from docs.build import DOCS
from docs.tools.messages import page_of, paths

ROOT = DOCS.parent
APIS = [found for key in range(len(NAMES)) if (found := api(key)) is not None]
_ROW = re.compile(r"^\| `([\w.]+)` \| ([^|]+) \| ([\d-]+) \|", re.MULTILINE)


def rows(found: Api, side: str) -> dict[str, str]:
    """Return the versions of each field on an API's page, by path."""
    request, _, response = (DOCS / page_of(found.name)).read_text().partition("\n## Response\n")
    return {path: versions for path, _, versions in _ROW.findall(request if side == "request" else response)}


def on_the_wire(con: object, above: str = "") -> Iterator[str]:
    """Yield the paths of the decoded fields in one version."""
    if isinstance(con, wire.Array):
        yield from on_the_wire(con.element, above)
    elif isinstance(con, wire.NullableStruct):
        yield from on_the_wire(con.struct, above)
    elif isinstance(con, wire.Struct):
        for member in con.all_members:
            yield f"{above}{member.name}"
            yield from on_the_wire(member.con, f"{above}{member.name}.")


@pytest.mark.parametrize("side", ["request", "response"])
def test_fields_are_there_in_the_versions_that_are_told(side: str) -> None:
    """The page of each API has exactly the fields that each version has on the wire."""
    for found in APIS:
        message: Message = getattr(found, side)
        told = rows(found, side)
        for version in message.versions:
            flexible = version in message.flexible
            expected = set(on_the_wire(message.struct.bound(version, flexible=flexible)))
            shown = {path for path, versions in told.items() if version in _versions(versions)}
            assert shown == expected, (found.name, side, version)


def _versions(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@pytest.mark.slow
def test_field_paths_are_those_of_the_filter_language() -> None:
    for found in APIS:
        for side, message in (("request", found.request), ("response", found.response)):
            for path, field, _ in paths(message):
                known = filter_paths.find(f"{side}.{path}")
                assert found.key in known.apis, path
                assert field in known.leaves, path


def variables() -> set[str]:
    """Return the environment variables named in the sources."""
    found = set()
    for package in ("kproxy", "captures", "dissectors"):
        for source in (ROOT / package).rglob("*.py"):
            text = source.read_text()
            if "environ" not in text:
                continue
            for node in ast.walk(ast.parse(text)):
                if (
                    isinstance(node, ast.Constant)
                    and isinstance(node.value, str)
                    and _is_variable(node.value)
                ):
                    found.add(node.value)
    return found


def _is_variable(text: str) -> bool:
    return text in WORDS or re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)+_?", text) is not None


WORDS = {"COLORTERM", "DISPLAY", "HOME", "PATH", "STY", "TEMP", "TERM", "TMP", "TMPDIR", "TMUX"}
"""Variables that cannot be distinguished from other words in capitals."""


NOT_VARIABLES = {
    "JAVA_VERSION",  # a line in the file `release` of a JDK
    "TEXTUAL_DRIVER",  # set by textual-serve for pages of kproxy serve, not by users
}
"""Names that look like variables beside others, but are not set by users."""


@pytest.mark.slow
def test_environment_variables_are_those_of_the_page() -> None:
    page = (DOCS / "configuration.md").read_text().partition("## Environment variables")[2]
    cells = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    told = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}
    assert variables() - told - NOT_VARIABLES == set(), "docs/configuration.md lacks these"
    assert told - variables() == set(), "nothing looks at these"


def test_exit_codes_are_those_of_the_page() -> None:
    page = (DOCS / "exit-codes.md").read_text()
    told = {int(code) for code in re.findall(r"^\|(?: [^|]*\|)? (\d) \|", page, re.MULTILINE)}
    used = {0, 2}  # success, and click's code for wrong usage
    for source in (ROOT / "kproxy" / "cli").glob("*.py"):
        used |= {int(code) for code in re.findall(r"^EXIT_\w+ = (\d)$", source.read_text(), re.MULTILINE)}
    assert told == used


def test_the_readme_counts_what_there_is() -> None:
    layouts = sum(len(list(side.versions)) for found in APIS for side in (found.request, found.response))
    counted = f"{len(NAMES)} APIs, {layouts} layouts"
    assert counted in (ROOT / "README.md").read_text(encoding="utf-8")
