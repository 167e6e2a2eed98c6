"""The texts of help, generated from the table of commands, the filter language and the settings.

A text is a list of sections, each with a table; the help screen shows and searches them, and docs/ui.md contains them.
"""

from __future__ import annotations

import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Literal, get_args, get_origin

import msgspec
from textual.keys import format_key

from captures.filters import reference
from kproxy.configuration import FILE, configuration_folder
from kproxy.saved_choices import choices_path, state_directory
from kproxy.tui.commands import COMMANDS, Command, Scope
from kproxy.tui.config import TABLES, Config, Nanoseconds
from kproxy.tui.keymap import RESERVED, keys_of

Row = tuple[str, ...]

NAME = "name"
"""Heading of the column of command names, which only the configuration file needs."""


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a text. Backticks enclose code.

    :ivar title: empty for none
    :ivar text: paragraphs
    :ivar header: of the table; empty for no table
    :ivar rows: rows of the table, with as many texts as ``header``
    """

    title: str
    text: tuple[str, ...] = ()
    header: Row = ()
    rows: tuple[Row, ...] = ()


def spelled(key: str) -> str:
    """Return a key in the usual notation: ``?`` for Textual's ``question_mark``."""
    modifiers, plus, last = key.rpartition("+")
    named = {"⏎": "enter", "␣": "space"}
    shown = format_key(last)
    return f"{modifiers}{plus}{named.get(shown, shown)}"


def key_sections(scopes: Sequence[Scope], keymap: Mapping[str, str]) -> list[Section]:
    """Return the sections that list keys and their commands.

    :param scopes: places that have the focus, the innermost first; their sections come first
    :param keymap: the changed keys, by command
    """
    inner = [scope for scope in scopes if scope is not Scope.SCREEN]
    order = dict.fromkeys((*inner, Scope.SCREEN, *Scope))
    return [section for scope in order if (section := _scope_section(scope, keymap)).rows] + [
        Section(
            "always", header=("key", "does"), rows=tuple((f"`{key}`", does) for key, does in RESERVED.items())
        )
    ]


def view_section(keymap: Mapping[str, str]) -> Section:
    """Return the section that lists the keys of views, short enough for the first page."""
    views = (command for command in COMMANDS if command.group == "view")
    rows = ((" ".join(f"`{spelled(key)}`" for key in keys_of(each, keymap)), each.title) for each in views)
    return Section("views", header=("key", "shows"), rows=tuple(rows))


def _scope_section(scope: Scope, keymap: Mapping[str, str]) -> Section:
    rows = tuple(_command_row(command, keymap) for command in COMMANDS if command.scope is scope)
    return Section(str(scope), header=("key", "does", "command", NAME), rows=rows)


def _command_row(command: Command, keymap: Mapping[str, str]) -> Row:
    keys = " ".join(f"`{spelled(key)}`" for key in keys_of(command, keymap))
    line = f"`:{command.line}{f' {command.argument}' if command.argument else ''}`" if command.line else ""
    return keys, command.doc, line, f"`{command.name}`"


def filter_sections() -> list[Section]:
    """Return the reference of the filter language."""
    return list(_sections(reference()))


def about_sections(
    facts: Iterable[tuple[str, str]] = (), problems: Sequence[str] = (), config: Path | None = None
) -> list[Section]:
    """Return versions, files of kproxy, and problems of the configuration file.

    :param facts: further facts about this run, as names and values
    :param problems: of the configuration file
    :param config: the configuration file, None for the default one
    """
    files = (
        ("configuration", str(config or configuration_folder() / FILE)),
        ("kept filters, columns, theme", str(choices_path())),
        ("history of what was typed", str(state_directory() / "history")),
    )
    versions = [(name, version(name)) for name in ("kproxy", "textual")] + [
        ("Python", platform.python_version())
    ]
    sections = [
        Section("kproxy", header=("", ""), rows=(*versions, *facts)),
        Section("files", header=("", ""), rows=files),
    ]
    if problems:
        sections.insert(0, Section("problems of the configuration file", text=tuple(problems)))
    return sections


def settings_section() -> Section:
    """Return the settings of the table ``[ui]`` in the configuration file."""
    docs = dict(re.findall(r"^\s*:ivar (\w+): (.*)$", Config.__doc__ or "", re.MULTILINE))
    rows = []
    for field in msgspec.structs.fields(Config):
        if field.name == "filters":
            continue
        kind = "table" if field.name in TABLES else _written(field.default)
        choices = get_args(field.type) if get_origin(field.type) is Literal else ()
        allowed = f": {', '.join(f'`{choice}`' for choice in choices)}" if choices else ""
        rows.append(
            (f"`{field.name.replace('_', '-')}`", kind, docs[field.name].replace("``", "`") + allowed)
        )
    return Section("", header=("setting", "default", "meaning"), rows=tuple(rows))


def _written(value: object) -> str:
    """Return a default as written in the configuration file."""
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    text = f"{value // 1_000_000}ms" if isinstance(value, Nanoseconds) else value
    return f'`"{text}"`'


def found(sections: Iterable[Section], search: str) -> list[Section]:
    """Return sections with only the rows and paragraphs that contain all words of a search."""
    words = search.casefold().split()
    if not words:
        return list(sections)

    def fits(*texts: str) -> bool:
        text = " ".join(texts).casefold()
        return all(word in text for word in words)

    kept = (
        replace(
            section,
            text=tuple(text for text in section.text if fits(text)),
            rows=tuple(row for row in section.rows if fits(section.title, *row)),
        )
        for section in sections
    )
    return [section for section in kept if section.rows or section.text]


def markdown(sections: Iterable[Section], level: int = 3) -> str:
    """Return sections as Markdown.

    :param level: of the headings
    """
    lines: list[str] = []
    for section in sections:
        if section.title:
            lines += [f"{'#' * level} {section.title[:1].upper()}{section.title[1:]}", ""]
        lines += [f"{text}\n" for text in section.text]
        if section.rows:
            lines += [
                _line(section.header),
                f"|{'---|' * len(section.header)}",
                *map(_line, section.rows),
                "",
            ]
    return "\n".join(lines)


def _line(cells: Row) -> str:
    escaped = (cell.replace("|", r"\|") for cell in cells)
    return f"| {' | '.join(escaped)} |"


def _sections(text: str) -> Iterator[Section]:
    """Yield sections from the Markdown of :func:`captures.filters.reference`."""
    for part in re.split(r"^#+ ", f"# \n{text}", flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        blocks = [block for block in body.strip().split("\n\n") if block]
        tables = [block for block in blocks if block.startswith("|")]
        lines = [_cells(line) for table in tables for line in table.splitlines()]
        paragraphs = (" ".join(block.split()) for block in blocks if not block.startswith("|"))
        yield Section(title, tuple(paragraphs), lines[0] if lines else (), tuple(lines[2:]))


def _cells(line: str) -> Row:
    return tuple(cell.strip() for cell in line.strip().strip("|").split(" | "))
