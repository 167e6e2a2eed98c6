"""The reference of the command line, generated from click's description of each command.

Usage, text and options are those of ``--help``; nothing is added here.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import click

from docs.tools.markdown import linked, slug
from kproxy.cli import main, program_context
from kproxy.cli.command import by_heading

VERBATIM = "\b"
"""click's mark in front of a paragraph that is not to be wrapped: examples, tables."""


def reference() -> str:
    """Return a table of all commands and a section for each, in Markdown."""
    found = list(all_commands(main, program_context()))
    rows = [
        f"| [`{context.command_path}`](#{slug(context.command_path)}) | {command.get_short_help_str(200)} |"
        for command, context in found
    ]
    sections = (f"## {context.command_path}\n\n{_section(command, context)}" for command, context in found)
    return "\n".join(["| command | what it does |", "|---|---|", *rows, "", "\n\n".join(sections)])


def all_commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    """Yield each visible command of a group and its subgroups, with its context."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, "it is in the list of commands"
        if command.hidden:
            continue
        inner = click.Context(command, info_name=name, parent=context)
        yield command, inner
        if isinstance(command, click.Group):
            yield from all_commands(command, inner)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"`{usage}`", text(inspect.cleandoc(command.help or "")), _options(command, context)]
    parts.append(text(inspect.cleandoc(command.epilog or "")))
    return "\n\n".join(part for part in parts if part)


def text(said: str) -> str:
    """Return the text of a command as Markdown: paragraphs that click does not rewrap become code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", said.strip()):
        lines = paragraph.split("\n")
        if lines[0].strip() == VERBATIM:
            paragraphs.append("\n".join(f"    {line}".rstrip() for line in lines[1:]))
        else:
            paragraphs.append(_prose(" ".join(paragraph.split())))
    return "\n\n".join(paragraph for paragraph in paragraphs if paragraph.strip())


def _options(command: click.Command, context: click.Context) -> str:
    tables = []
    for heading, options in by_heading(command.params).items():
        records = filter(None, (each.get_help_record(context) for each in options))
        rows = [f"| `{_cell(names)}` | {_cell(_prose(meaning))} |" for names, meaning in records]
        what = "option" if heading == "Options" else heading
        tables.append("\n".join([f"| {what} | meaning |", "|---|---|", *rows]))
    return "\n\n".join(tables)


def _prose(said: str) -> str:
    """Escape text that Markdown would read as a tag, and turn names of pages into links."""
    return linked(said.replace("<", r"\<").replace("*", r"\*"))


def _cell(said: str) -> str:
    return said.replace("|", r"\|")
