"""``kproxy config``: the value of each option, and its origin; how the configuration file sets options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import click
from click.core import ParameterSource

from kproxy.cli.command import Option, argument, command, option, options, options_of, path_of
from kproxy.cli.common import usage_errors
from kproxy.cli.options import CLUSTER_NAME
from kproxy.configuration import Configuration, ConfigurationError, load
from kproxy.output import echo, echo_json, terminal_width

_OTHERS = ("clusters", "common", "filters", "ui")
"""Tables of the file that belong to no command."""
_META = "kproxy.configuration"
_EXAMPLE_TABLES = """
[filters]
# slow = "latency > 1s"  # kproxy read -Y '@slow and api == Fetch'

[ui]
# theme = "nord"  # docs/ui.md has all settings

# [clusters.east]  # of kproxy proxy: docs/proxy.md
# listen = "127.0.0.1:9192"

[profile.staging.proxy]  # kproxy --profile staging proxy
# bootstrap-server = "staging:9092\""""
_PRIVATE = "(not shown)"


def current() -> Configuration:
    """Return the configuration of the running command.

    :raises click.UsageError: if the file is invalid
    """
    context = click.get_current_context(silent=True)
    found = None if context is None else context.meta.get(_META)
    return found if isinstance(found, Configuration) else _loaded(None, None)


def defaults(ctx: click.Context, file: str | None, profile: str | None) -> dict[str, Any]:
    """Return the values that the configuration file gives to a command's options, by parameter name.

    :param file: value of ``--config``; None for the previously given or the default file
    :param profile: value of ``--profile``
    :raises click.UsageError: if the file is invalid
    """
    if file or profile or _META not in ctx.meta:
        before = ctx.meta.get(_META) or Configuration()
        ctx.meta[_META] = _loaded(file or before.path, profile or before.profile)
    configuration: Configuration = ctx.meta[_META]
    if configuration.path is None:
        return {}
    with usage_errors(ConfigurationError):
        return dict(_values(configuration, ctx))


def _loaded(file: str | Path | None, profile: str | None) -> Configuration:
    with usage_errors(ConfigurationError):
        configuration = load(None if file is None else Path(file), profile or "")
    for note in configuration.notes:
        echo(f"kproxy: {note}", err=True)
    return configuration


# ---------------------------------------------------------------- the file
def _values(configuration: Configuration, ctx: click.Context) -> Iterator[tuple[str, Any]]:
    """Yield the parameter names and values of options set for a command, those of ``[common]`` first.

    :raises ConfigurationError: if a key or value is invalid
    """
    for keys, each in _set_options(configuration, ctx):
        yield each.name or "", _value(configuration, each, ctx, *keys)


def _set_options(
    configuration: Configuration, ctx: click.Context
) -> Iterator[tuple[tuple[str, ...], Option]]:
    """Yield the keys that set options of a command, with the options.

    :raises ConfigurationError: if a key is unknown
    """
    path = path_of(ctx)
    known = {each.key: each for each in options_of(ctx.command) if each.configurable}
    group = ctx.command if isinstance(ctx.command, click.Group) else None
    inner = [] if group is None else [*group.list_commands(ctx), *(() if path else _OTHERS)]
    table = configuration.table(*path)
    common = configuration.table("common") if path else {}
    for key in common.keys() & known.keys() - table.keys():
        yield ("common", key), known[key]
    for key in table:
        if key in known:
            yield (*path, key), known[key]
        elif key not in inner:
            what = f"option {'or command ' if inner else ''}of {' '.join(('kproxy', *path))}"
            raise configuration.unknown(what, [*known, *inner], *path, key)


def cluster_options(configuration: Configuration, ctx: click.Context) -> dict[str, dict[str, Any]]:
    """Return the options of ``kproxy proxy`` set in each table ``[clusters.NAME]``, by parameter name.

    :param ctx: of that command
    :raises ConfigurationError: if a name, key or value is invalid
    """
    known = {each.key: each for each in options_of(ctx.command) if each.of_cluster}
    found: dict[str, dict[str, Any]] = {}
    for cluster in configuration.table("clusters"):
        if not CLUSTER_NAME.fullmatch(cluster):
            raise configuration.error("invalid name for a cluster", "clusters", cluster)
        found[cluster] = {}
        for key in configuration.table("clusters", cluster):
            if key not in known:
                raise configuration.unknown("option of a cluster", known, "clusters", cluster, key)
            value = _value(configuration, known[key], ctx, "clusters", cluster, key)
            found[cluster][known[key].name or ""] = known[key].type_cast_value(ctx, value)
    return found


def _value(configuration: Configuration, option: Option, ctx: click.Context, *keys: str) -> Any:
    """Return the value of an option in the form it has on the command line.

    :raises ConfigurationError: if it is invalid
    """
    table = configuration.table(*keys[:-1])
    setting = table[keys[-1]]
    if option.is_bool_flag:
        if not isinstance(setting, bool):
            raise configuration.error(f"expected true or false, got {setting!r}", *keys)
        return setting
    items = setting if option.multiple and isinstance(setting, list) else [setting]
    number = isinstance(option.type, click.types.IntParamType)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int if number else str | int | float):
            what = "a whole number" if number else "a text in quotes"
            several = f", or a list: [{what}, ...]" if option.multiple else ""
            raise configuration.error(f"expected {what}{several}, got {item!r}", *keys)
    texts = [_expanded(option, str(item)) for item in items]
    value = texts if option.multiple else texts[0]
    try:
        option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise configuration.error(error.message, *keys) from None
    return value


def _expanded(option: Option, text: str) -> str:
    """Return a path with ``~`` expanded, which no shell has done; other texts unchanged."""
    return os.path.expanduser(text) if isinstance(option.type, click.Path) else text  # noqa: PTH111


def problems(configuration: Configuration) -> Iterator[str]:
    """Yield problems with options in a configuration file, a sentence each; only the first of each command."""
    known = set()
    for ctx in _contexts():
        known |= {each.key for each in options_of(ctx.command) if each.configurable}
        try:
            dict(_values(configuration, ctx))
            if path_of(ctx) == ("proxy",):
                cluster_options(configuration, ctx)
        except ConfigurationError as error:
            yield str(error)
    try:
        for key in configuration.table("common").keys() - known:
            yield str(configuration.unknown("option", known, "common", key))
    except ConfigurationError:
        pass  # each command has reported it


def _contexts() -> Iterator[click.Context]:
    """Yield a context for each command, kproxy itself first."""
    from kproxy.cli import program_context

    waiting = [program_context()]
    while waiting:
        ctx = waiting.pop(0)
        yield ctx
        if isinstance(ctx.command, click.Group):
            for name in ctx.command.list_commands(ctx):
                inner = ctx.command.get_command(ctx, name)
                assert inner is not None
                waiting.append(click.Context(inner, info_name=name, parent=ctx))


# ---------------------------------------------------------------- settings
class Setting(NamedTuple):
    """The value of an option, a filter or a setting of the UI.

    :ivar command: names of the command, or the table of the file
    :ivar value: in command-line form; None if there is none
    :ivar source: ``environment``, ``file``, ``UI`` or ``default``; never the command line
    :ivar place: the variable, or file, line and key
    """

    command: str
    key: str
    value: Any
    source: str
    place: str


def settings(configuration: Configuration) -> Iterator[Setting]:
    """Yield the settings of all commands' options and of the UI, and the saved filters.

    :raises ConfigurationError: if the file is invalid
    """
    from kproxy.saved_choices import choices_path, saved_filters

    common = set()
    for ctx in _contexts():
        keys = {option.name: keys for keys, option in _set_options(configuration, ctx)}
        ctx.default_map = dict(_values(configuration, ctx))
        for each in filter(lambda option: option.configurable, options_of(ctx.command)):
            _, origin = each.consume_value(ctx, {})
            path, value, source, location = path_of(ctx), each.initial, "default", ""
            if origin is ParameterSource.ENVIRONMENT:
                source, location = "environment", each.variable(ctx)
                value = os.environ[location]
            elif origin is ParameterSource.DEFAULT_MAP:
                *table, key = keys[each.name]
                if table == ["common"]:
                    path = ("common",)
                    if key in common:
                        continue
                    common.add(key)
                source, location = "file", configuration.location(*table, key)
                value = configuration.table(*table)[key]
            if each.private and source != "default":
                value = _PRIVATE
            yield Setting(" ".join(path), each.key, value, source, location)
    for name, text in saved_filters(configuration).items():
        written = name in configuration.table("filters")
        location = configuration.location("filters", name) if written else str(choices_path())
        yield Setting("filters", name, text, "file" if written else "UI", location)
    for cluster in configuration.table("clusters"):
        for key, value in configuration.table("clusters", cluster).items():
            location = configuration.location("clusters", cluster, key)
            yield Setting("clusters", f"{cluster}.{key}", value, "file", location)
    for key, value in configuration.table("ui").items():
        yield Setting("ui", key, value, "file", configuration.location("ui", key))


@options
class ConfigOptions:
    """Options of ``kproxy config``."""

    commands: tuple[str, ...] = argument("[COMMAND]...", required=False)
    everything: bool = option("--all", help="Show defaults too.")
    example: bool = option("--example", help="Print a configuration file with every option, as comments.")
    as_json: bool = option("--json", help="Print one JSON object (docs/configuration.md).")


@command(ConfigOptions, short_help="Show the value of each option, and where it comes from.")
def config(options: ConfigOptions) -> None:
    """Show the settings in the configuration file and the environment, or with --all the value of every option.

    COMMAND, such as proxy or ctl drain, limits the output to that command; clusters, filters and ui are tables of the
    file. The whole file is checked: any error in it is reported, and the exit code is 1. docs/configuration.md explains
    the file.
    """
    configuration = current()
    if options.example:
        for line in example():
            echo(line, wait=True)
        return
    wrong = list(problems(configuration))
    for problem in wrong:
        echo(f"kproxy: {problem}", err=True)
    if wrong:
        raise SystemExit(1)
    wanted = " ".join(options.commands)
    shown = [
        each
        for each in settings(configuration)
        if (options.everything or each.source != "default") and (not wanted or each.command == wanted)
    ]
    if options.as_json:
        from kproxy.cli.results import ConfigurationResult

        path = None if configuration.path is None else str(configuration.path)
        echo_json(ConfigurationResult(path, configuration.profile or "", shown))
        return
    _print(configuration, shown)


def _print(configuration: Configuration, shown: list[Setting]) -> None:
    from kproxy.text.tables import Column, Table

    profile = f", profile {configuration.profile}" if configuration.profile else ""
    title = f"{configuration.path or 'no configuration file'}{profile}"
    table = Table.of(
        title,
        shown,
        [
            (Column("command"), lambda each: each.command or "kproxy"),
            (Column("option"), lambda each: each.key),
            (Column("value", least=10), lambda each: _written(each.value)),
            (Column("from", least=10, rank=1), lambda each: each.place or each.source),
        ],
    )
    for line in table.lines(terminal_width()):
        echo(line)
    if not shown:
        echo("  nothing is set: the defaults hold, --all shows them")


def _written(value: Any) -> str:
    """Return a value in TOML syntax, on one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{name} = {_written(each)}' for name, each in value.items())} }}"
    if value is None or isinstance(value, int | float):
        return "" if value is None else str(value)
    import json

    return json.dumps(str(value), ensure_ascii=False)


# ---------------------------------------------------------------- an example
def example() -> Iterator[str]:
    """Yield a configuration file in which every option is a comment, with its default or its metavar."""
    yield "# kproxy.toml: what is not set here has its default (docs/configuration.md)"
    for ctx in _contexts():
        found = [each for each in options_of(ctx.command) if each.configurable]
        if found and (path := path_of(ctx)):
            yield from ("", f"# {ctx.command.get_short_help_str(200)}", f"[{'.'.join(path)}]")
        for each in found:
            value = each.initial
            if value is None or value == "":
                value = [each.make_metavar(ctx)] if each.multiple else each.make_metavar(ctx)
            yield f"# {each.key} = {_written(value)}  # {each.help}"
    yield from _EXAMPLE_TABLES.split("\n")
