"""Profiles: named sets of columns in order, as kept in the configuration file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from kproxy.saved_choices import ProfileColumn
from kproxy.tui.columns import COLUMNS, field_problem

WIDEST = 400


class Profile(msgspec.Struct, frozen=True):
    """The columns of the list, from left to right.

    :ivar name: empty if it is not saved
    """

    name: str
    columns: tuple[ProfileColumn, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields among its columns, which the session has to fill in."""
        return tuple(each.column for each in self.columns if each.column not in COLUMNS)

    def with_column(self, name: str) -> Profile:
        """Return the profile with a column inserted before the last; unchanged if it has the column."""
        if any(each.column == name for each in self.columns):
            return self
        return Profile("", (*self.columns[:-1], ProfileColumn(name), *self.columns[-1:]))

    def with_widths(self, widths: Mapping[str, int]) -> Profile:
        """Return the profile with widths for the columns that have none."""
        columns = (replace(each, width=each.width or widths.get(each.column)) for each in self.columns)
        return replace(self, columns=tuple(columns))

    def dated(self) -> Profile:
        """Return the profile with the day before the time of day."""
        columns = (replace(each, column="day") if each.column == "time" else each for each in self.columns)
        return replace(self, columns=tuple(columns))

    def with_width(self, name: str, width: int | None) -> Profile:
        """Return the profile with another width of a column, None for automatic."""
        columns = (replace(each, width=width) if each.column == name else each for each in self.columns)
        return Profile("", tuple(columns))


def profile(name: str, columns: Iterable[ProfileColumn]) -> Profile:
    """Return a profile of columns from a file.

    :raises ValueError: if a column does not exist or is repeated, or a width is invalid; the message says which
    """
    chosen: list[ProfileColumn] = []
    for number, each in enumerate(columns, 1):
        where, column, width = f"profile {name!r}, column {number}", each.column, each.width
        problem = "" if column in COLUMNS else field_problem(column)
        if problem:
            raise ValueError(f"{where}: {column!r} is no column, and no field: {problem}")
        if width is not None and not 0 < width <= WIDEST:
            raise ValueError(f"{where}: the width of {column} is cells, 1 to {WIDEST}, not {width}")
        if any(known.column == column for known in chosen):
            raise ValueError(f"{where}: {column} is there already")
        chosen.append(each)
    if not chosen:
        raise ValueError(f"profile {name!r} has no columns")
    return Profile(name, tuple(chosen))


def _built_in(name: str, columns: str) -> Profile:
    return Profile(name, tuple(map(ProfileColumn, columns.split())))


DEFAULT = _built_in("default", "number time latency client broker api summary size state")
BUILT_IN: Mapping[str, Profile] = {
    each.name: each
    for each in (
        DEFAULT,
        _built_in("timing", "number elapsed latency wait excess client broker api summary state"),
        _built_in("wire", "number time connection correlation_id client_address broker api size state"),
        _built_in("two texts", "number time latency client broker api request response state"),
    )
}
"""Built-in profiles."""
