"""The manual pages, ``kproxy.1`` and one per command, generated from click's description of each command.

They are written in man(7), and both groff and mandoc accept them without a warning. Commands of a group (``kproxy ctl
hold``) are sections of its page. Usage, text and options are those of ``--help``; only text about kproxy as a whole is
added here.
"""

from __future__ import annotations

import inspect
import re
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from docs.tools.commands import VERBATIM, all_commands
from kproxy.cli import main, program_context
from kproxy.cli.command import by_heading

_PROGRAM = "kproxy"
_PROJECT = Path(__file__).parents[2] / "pyproject.toml"
_OWN_SECTIONS = {"Examples:": "EXAMPLES", "Exit codes:": "EXIT STATUS"}
"""Beginnings of paragraphs that are sections of a manual page."""

_NAMES = re.compile(r"^-{1,2}[\w-]+(?: / -{1,2}[\w-]+)?")

_ENVIRONMENT = {
    "NO_COLOR": "If it is set to anything, nothing is coloured.",
    "TMPDIR": "Where captures that cannot be read twice are kept meanwhile. Default: /var/tmp.",
    "KPROXY_COMMAND_OPTION": "Sets an option, such as KPROXY_READ_UTC=true; the command line goes before it.",
    "KPROXY_CONFIG, KPROXY_PROFILE": "As --config and --profile.",
    "XDG_CONFIG_HOME": "Holds kproxy/kproxy.toml, unless there is one in the current folder. Default: ~/.config.",
    "XDG_STATE_HOME": "Where the terminal UI keeps its history. Default: ~/.local/state.",
    "JAVA_HOME": "The Java that Spark runs on.",
}


def pages() -> dict[str, str]:
    """Return the text of each manual page by path relative to ``docs``."""
    root = program_context()
    found = [(command, context) for command, context in all_commands(main, root) if context.parent is root]
    names = [_PROGRAM, *(_name(context) for _, context in found)]
    made = {f"man/{_PROGRAM}.1": _page(main, root, names[1:])}
    for command, context in found:
        made[f"man/{_name(context)}.1"] = _page(command, context, [_PROGRAM])
    return made


def _name(context: click.Context) -> str:
    return context.command_path.replace(" ", "-")


def _page(command: click.Command, context: click.Context, others: list[str]) -> str:
    """Return one page.

    :param others: pages for the section SEE ALSO
    """
    name = _name(context)
    summary = command.get_short_help_str(200) if context.parent else _description()
    lines = [
        '.\\" Made by python -m docs.generate.',
        # no date, so that the same sources give the same page
        f'.TH {_escaped(name.upper())} 1 "" "{_PROGRAM} {_version()}" "User Commands"',
        ".SH NAME",
        f"{_escaped(name)} \\- {_escaped(summary[0].lower() + summary[1:].rstrip('.'))}",
        ".SH SYNOPSIS",
        *_usage(command, context),
        ".SH DESCRIPTION",
        *_text(command.help or ""),
        ".SH OPTIONS",
        *_options(command.get_params(context), context),
    ]
    if isinstance(command, click.Group):
        lines += [
            ".SH COMMANDS",
            *(_listed(context, command) if context.parent is None else _inner(context, command)),
        ]
    lines += _text(command.epilog or "")
    if context.parent is None:
        lines += [".SH ENVIRONMENT"]
        for variable, meaning in _ENVIRONMENT.items():
            lines += [".TP", f".B {variable}", _escaped(meaning)]
    lines += [".SH SEE ALSO", *_see(others)]
    return "\n".join(lines) + "\n"


def _usage(command: click.Command, context: click.Context) -> list[str]:
    pieces = command.collect_usage_pieces(context)
    return [".nh", ".ad l", f".B {_escaped(context.command_path)}", _escaped(" ".join(pieces)), ".ad", ".hy"]


def _text(said: str) -> list[str]:
    """Return the text of a command; paragraphs that click does not rewrap stay unchanged."""
    lines: list[str] = []
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(said)):
        first, *rest = paragraph.strip("\n").split("\n")
        if first.strip() != VERBATIM:
            if paragraph.strip():
                lines += [*([".PP"] if lines else []), _escaped(" ".join(paragraph.split()))]
            continue
        section = next((each for each in _OWN_SECTIONS if rest[0].startswith(each)), None)
        if section is not None:
            lines.append(f".SH {_OWN_SECTIONS[section]}")
            head = rest.pop(0).removeprefix(section).strip()
            rest = [head, *rest] if head else rest
            begin = min(len(line) - len(line.lstrip()) for line in rest)
            rest = [line[begin:] for line in rest]
        else:
            lines.append(".PP")
        lines += [".nf", *map(_escaped, rest), ".fi"]
    return lines


def _options(parameters: Iterable[click.Parameter], context: click.Context) -> list[str]:
    lines = []
    for heading, options in by_heading(parameters).items():
        lines += [] if heading == "Options" else [f'.SS "{_escaped(heading)}"']
        for names, meaning in filter(None, (each.get_help_record(context) for each in options)):
            lines += [".TP", _names(names), _escaped(meaning)]
    return lines


def _names(names: str) -> str:
    r"""Return the names of an option in bold, and its argument: ``\fB\-c\fP, \fB\-\-count\fP N``."""
    shown = []
    for part in names.split(", "):
        match = _NAMES.match(part)
        if match is None:
            shown.append(_escaped(part))
        else:
            shown.append(f"\\fB{_escaped(match[0])}\\fP{_escaped(part[match.end() :])}")
    return ", ".join(shown)


def _listed(context: click.Context, group: click.Group) -> Iterator[str]:
    """Yield a line per command, which has its own page."""
    for command, inner in all_commands(group, context):
        if inner.parent is context:
            yield from (".TP", f".BR {_escaped(_name(inner))} (1)", _escaped(command.get_short_help_str(200)))


def _inner(context: click.Context, group: click.Group) -> Iterator[str]:
    """Yield the descriptions of the commands in a group."""
    for command, inner in all_commands(group, context):
        yield f'.SS "{_escaped(" ".join([inner.command_path, *command.collect_usage_pieces(inner)]))}"'
        yield from _text(command.help or "")
        yield from _options(command.params, inner)  # without --help, which the group documents


def _see(others: list[str]) -> list[str]:
    shown = [f".BR {_escaped(name)} (1)" for name in others]
    return [".nh", ".ad l", *(f"{line}," if line != shown[-1] else line for line in shown)]


def _escaped(text: str) -> str:
    """Return literal text: hyphens are ASCII, and no line is a request of troff."""
    escaped = (
        text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("'", "\\(aq").rstrip()
    )
    return f"\\&{escaped}" if escaped.startswith(".") else escaped


def _version() -> str:
    version: str = tomllib.loads(_PROJECT.read_text())["project"]["version"]
    return version


def _description() -> str:
    description: str = tomllib.loads(_PROJECT.read_text())["project"]["description"]
    return description
