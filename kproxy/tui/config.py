"""The UI's part of the configuration file: the table ``[ui]``, and the filters in ``[filters]``.

An invalid setting keeps its default, and is reported with the file, the setting and the allowed values; the others
apply. So the UI opens whatever the file contains.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from captures.filters import compile_filter
from captures.filters.context import MEANINGS
from captures.filters.errors import did_you_mean
from captures.filters.values import duration
from kproxy.configuration import FILE, Configuration, ConfigurationError, configuration_folder, load
from kproxy.saved_choices import ProfileColumn
from kproxy.session.summaries import SLOW
from kproxy.tui.profiles import Profile, profile
from kproxy.tui.row_colors import RowColor

FILTER_NAME = re.compile(r"[^\W\d][\w-]*")
_PLAIN = re.compile(r"[A-Za-z0-9_.-]+")
_PLACE = re.compile(r" - at `(?:key in )?\$(?P<path>.*)`$")


class Nanoseconds(int):
    """A duration in ns; the file has it as text with a unit, ``100ms``."""


class Config(msgspec.Struct, frozen=True):
    """What the file says; the names are those in it, but for ``_``, which is ``-`` there.

    :ivar theme: name of a theme; empty for the one that was chosen last
    :ivar color: whether there are colours; with ``auto``, unless NO_COLOR is set
    :ivar mouse: whether the mouse is used; without it the terminal selects text itself
    :ivar follow: whether live traffic is followed from the beginning
    :ivar layout: where list and details are at first
    :ivar footer: whether the line of keys is shown
    :ivar slow: latency, designed waiting left out, from which an exchange is slow
    :ivar coloring: whether lines of the list have the colours of rules from the beginning
    :ivar columns: name of the columns to begin with; empty for the usual ones
    :ivar colors: colours of the theme that are different, by their names in it
    :ivar keys: keys by the name of a command, several with commas between; empty for none
    :ivar filters: texts of filters by name: the table ``[filters]``, which all commands share
    :ivar column_sets: columns of the list by name
    :ivar row_colors: rules for the colours of lines, by name, in front of the usual ones
    """

    theme: str = ""
    color: Literal["auto", "always", "never"] = "auto"
    mouse: bool = True
    follow: bool = True
    layout: Literal["stacked", "beside", "list"] = "stacked"
    footer: bool = True
    slow: Nanoseconds = Nanoseconds(SLOW)
    coloring: bool = True
    columns: str = ""
    colors: dict[str, str] = {}
    keys: dict[str, str] = {}
    filters: dict[str, str] = {}
    column_sets: dict[str, Profile] = {}
    row_colors: dict[str, RowColor] = {}


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """The result of reading a configuration file.

    :ivar path: of the file, whether or not it exists
    :ivar problems: what is wrong with it, one line each
    """

    config: Config
    path: Path
    problems: tuple[str, ...] = ()


def settings_of(configuration: Configuration) -> LoadedConfig:
    """Return the UI's settings in a configuration."""
    file = configuration.path or configuration_folder() / FILE
    try:
        settings = {**configuration.table("ui"), "filters": configuration.table("filters")}
    except ConfigurationError as error:
        return LoadedConfig(Config(), file, (*configuration.notes, str(error)))
    config, problems = parsed(settings)
    return LoadedConfig(config, file, (*configuration.notes, *(f"{file}: {problem}" for problem in problems)))


def load_settings(file: Path | None = None) -> LoadedConfig:
    """Read the UI's settings from a configuration file.

    :param file: a file that must exist; None for the default one, which need not
    """
    try:
        return settings_of(load(file))
    except ConfigurationError as error:
        return LoadedConfig(
            Config(), file or configuration_folder() / FILE, (f"{error}. Nothing of it is used",)
        )


def parsed(settings: Mapping[str, Any]) -> tuple[Config, list[str]]:
    """Return the settings in a file's content, and its problems."""
    problems: list[str] = []
    values: dict[str, Any] = {}
    for key, value in settings.items():
        name = key.replace("-", "_")
        if name not in _SETTINGS or "_" in key:
            names = [each.replace("_", "-") for each in _SETTINGS if each != "filters"]
            hint = did_you_mean(key, names) or f"there are {', '.join(names)}"
            problems.append(f"ui.{key}: there is no such setting ({hint})")
        elif name in TABLES and isinstance(value, dict):
            values[name] = _table(name, _flat(value) if name == "keys" else value, problems)
        else:
            try:
                values[name] = msgspec.convert(value, _SETTINGS[name], dec_hook=_special)
            except msgspec.ValidationError as error:
                problems.append(_explained(_key(name), error, _SETTINGS[name]))
    return Config(**values), problems


def filter_name_problem(name: str) -> str:
    """Return why a name is invalid for a filter, empty if it is valid."""
    if not FILTER_NAME.fullmatch(name):
        return f"{name!r} is no name for a filter: letters, digits, _ - after a letter"
    if name in MEANINGS:
        return f"@{name} has a meaning of its own in filters"
    return ""


def _table(setting: str, settings: Mapping[str, Any], problems: list[str]) -> dict[str, Any]:
    """Return the valid entries of a table; append the problems of the others to `problems`."""
    kind, make = TABLES[setting]
    kept = {}
    for name, value in settings.items():
        at = f"{_key(setting)}.{name if _PLAIN.fullmatch(name) else repr(name)}"
        try:
            kept[name] = make(name, msgspec.convert(value, kind))
        except msgspec.ValidationError as error:
            problems.append(_explained(at, error))
        except ValueError as error:
            problems.append(f"{at}: {error}")
    return kept


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested table with dotted names: TOML makes tables of ``mark.toggle = "m"`` without quotes."""
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, dict):
            flat |= _flat(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat


def _filter(name: str, text: str) -> str:
    if problem := filter_name_problem(name):
        raise ValueError(problem)
    if "@" not in text:  # filters that name others are checked when used
        compile_filter(text)
    return text


def _rule(_: str, rule: RowColor) -> RowColor:
    compile_filter(rule.filter)
    return rule


def _unchanged(_: str, value: str) -> str:
    return value  # keymap and themes check commands and colours


_SETTINGS: dict[str, Any] = {field.name: field.type for field in msgspec.structs.fields(Config)}
TABLES: dict[str, tuple[Any, Callable[[str, Any], Any]]] = {
    "colors": (str, _unchanged),
    "keys": (str, _unchanged),
    "filters": (str, _filter),
    "row_colors": (RowColor, _rule),
    "column_sets": (tuple[ProfileColumn, ...], profile),
}
"""For each setting that is a table, the type of its entries, and what converts them."""


def _special(kind: type, value: object) -> object:
    """Convert a value to :class:`Nanoseconds`, for msgspec."""
    if kind is not Nanoseconds:
        raise NotImplementedError(kind)
    found = duration(value) if isinstance(value, str) else None
    if found is None or found < 0:
        raise ValueError(f"Expected a duration such as '100ms', got {value!r}")
    return Nanoseconds(found)


def _key(setting: str) -> str:
    """Return the name of a setting in the file."""
    return setting if setting == "filters" else f"ui.{setting.replace('_', '-')}"


def _explained(setting: str, error: msgspec.ValidationError, kind: Any = None) -> str:
    """Return msgspec's message after the place of the error, with TOML's names of types."""
    text = str(error)
    path = ""
    if found := _PLACE.search(text):
        text, path = text[: found.start()], found["path"]
    for theirs, ours in _WORDS.items():
        text = text.replace(theirs, ours)
    choices = get_args(kind) if text.startswith("Invalid value") else ()
    hint = f" (there are {', '.join(choices)})" if choices else ""
    return f"{setting}{path}: {text[:1].lower()}{text[1:]}{hint}"


_WORDS = {
    "`str`": "a text",
    "`bool`": "true or false",
    "`int`": "a whole number",
    "`int | null`": "a whole number",
    "`float`": "a number",
    "`array`": "a list",
    "`object`": "a table",
    "Object ": "The table ",
    "enum value": "value",
}
