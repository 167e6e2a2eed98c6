"""Profiles: sets of columns under a name, in their order, as the configuration file keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from kproxy.tui.columns import COLUMNS, field_problem

WIDEST = 400


@dataclass(frozen=True, slots=True)
class ProfileColumn:
    """A column of a profile.

    :ivar column: ID of a column, or a field
    :ivar width: cells, None for as many as its texts need and there is room for
    """

    column: str
    width: int | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """The columns of the list, from left to right.

    :ivar name: empty if it has not been kept
    """

    name: str
    columns: tuple[ProfileColumn, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of which it has columns: what the session has to fill in."""
        return tuple(each.column for each in self.columns if each.column not in COLUMNS)

    def with_column(self, name: str) -> Profile:
        """Return the same with one column more, before the last; the same if it is there already."""
        if any(each.column == name for each in self.columns):
            return self
        return Profile("", (*self.columns[:-1], ProfileColumn(name), *self.columns[-1:]))

    def with_widths(self, widths: Mapping[str, int]) -> Profile:
        """Return the same with widths for columns that have none of their own."""
        columns = (replace(each, width=each.width or widths.get(each.column)) for each in self.columns)
        return replace(self, columns=tuple(columns))

    def dated(self) -> Profile:
        """Return the same with the day in front of the time of day."""
        columns = (replace(each, column="day") if each.column == "time" else each for each in self.columns)
        return replace(self, columns=tuple(columns))

    def with_width(self, name: str, width: int | None) -> Profile:
        """Return the same with another width of a column, None for what it needs."""
        columns = (replace(each, width=width) if each.column == name else each for each in self.columns)
        return Profile("", tuple(columns))


def profile(name: str, columns: Iterable[tuple[str, int | None]]) -> Profile:
    """Return a profile of columns and their widths, as a configuration file or its user gives them.

    :raises ValueError: if there is no such column, it is there twice, or its width makes no sense; it says of which
    """
    chosen: list[ProfileColumn] = []
    for number, (column, width) in enumerate(columns, 1):
        where = f"profile {name!r}, column {number}"
        problem = "" if column in COLUMNS else field_problem(column)
        if problem:
            raise ValueError(f"{where}: {column!r} is no column, and no field: {problem}")
        if width is not None and not 0 < width <= WIDEST:
            raise ValueError(f"{where}: the width of {column} is cells, 1 to {WIDEST}, not {width}")
        if any(known.column == column for known in chosen):
            raise ValueError(f"{where}: {column} is there already")
        chosen.append(ProfileColumn(column, width))
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
"""Profiles that are always there."""
