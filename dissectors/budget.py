"""What foreign bytes may cost: every limit by its name, and what is left of it for one piece of work.

Rules of this file:

* Every limit of the house is a row of :data:`LIMITS`, whichever floor keeps to it; docs/limits.md is made from it.
* A :class:`Budget` is handed down to whatever does the work: for one message, one connection, or the process. It counts
  work (bytes, records, objects), never time, so that the same bytes always give the same answer.
* What goes over a limit is left undecided and says which limit it was (:class:`LimitReached`); it ends nothing else.
* Limits are changed for a whole run, by ``kproxy --limit NAME=VALUE`` or the environment variable
  :data:`ENVIRONMENT`, which processes that are started by this one inherit.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from dissectors.errors import DecodeError

ENVIRONMENT = "KPROXY_LIMITS"
"""``name=value`` pairs, separated by commas."""

KIB, MIB = 1 << 10, 1 << 20

_MULTIPLES = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": KIB, "MI": MIB, "GI": 1 << 30}


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit.

    :ivar unit: what is counted
    :ivar scope: what of it is counted together
    :ivar about: what it bounds and what happens beyond it, for docs/limits.md
    """

    name: str
    default: int
    unit: Literal["bytes", "records", "objects", "times", "characters"]
    scope: Literal["batch", "message", "connection", "file", "process", "line"]
    about: str


LIMITS: Mapping[str, Limit] = {
    each.name: each
    for each in (
        Limit("batch_bytes", 128 * MIB, "bytes", "batch", "decompressed bytes of one record batch"),
        Limit("batch_records", 1_000_000, "records", "batch", "records decoded from one batch"),
        Limit(
            "message_bytes", 256 * MIB, "bytes", "message", "decompressed bytes of all batches of a message"
        ),
        Limit(
            "message_records",
            1_000_000,
            "records",
            "message",
            "records decoded from all batches of a message",
        ),
        # ---- what is printed
        Limit(
            "line_characters", 16_384, "characters", "line", "characters of a printed line; it is cut there"
        ),
        Limit(
            "notice_characters",
            2_048,
            "characters",
            "line",
            "characters of a line on standard error; it is cut there",
        ),
    )
}


class LimitSettingError(ValueError):
    """There is no such limit, or its value is no number."""


class LimitReached(DecodeError):  # noqa: N818  # says what happened, reads well at the raise
    """Work ended because a limit was reached.

    :ivar limit: name of the limit
    """

    def __init__(self, limit: str, what: str, offset: int = -1, field_path: str = "") -> None:
        self.limit = limit
        super().__init__(f"{what} would go over the limit {shown(limit)}", offset, field_path)


class Budget:
    """What is left of some limits for one piece of work.

    :param names: limits that begin in full with this piece of work
    :param within: the budget of what this is a part of; everything spent here is spent there too, where it counts the
        same limit
    """

    __slots__ = ("_left", "_within")

    def __init__(self, *names: str, within: Budget | None = None) -> None:
        self._left = {name: limit(name) for name in names}
        self._within = within

    def left(self, name: str) -> int:
        """Return how much of a limit may still be spent."""
        mine = self._left.get(name)
        if self._within is None:
            return limit(name) if mine is None else mine
        above = self._within.left(name)
        return above if mine is None else min(mine, above)

    def spend(self, name: str, amount: int, what: str = "this") -> None:
        """Take from what is left.

        :param what: for the error: what the amount is needed for
        :raises LimitReached: if that is more than is left; nothing is taken then
        """
        if amount > self.left(name):
            raise LimitReached(name, what)
        self._take(name, amount)

    def give_back(self, name: str, amount: int) -> None:
        """Return what was held and is held no longer."""
        self._take(name, -amount)

    def _take(self, name: str, amount: int) -> None:
        if name in self._left:
            self._left[name] -= amount
        if self._within is not None:
            self._within._take(name, amount)


def limit(name: str) -> int:
    """Return the value of a limit that is in force."""
    return _in_force[name]


def shown(name: str) -> str:
    """Return a limit with its value, for messages: ``message_records (1,000,000 records)``."""
    return f"{name} ({limit(name):,} {LIMITS[name].unit})"


def configure(settings: Iterable[str]) -> None:
    """Change limits, here and in processes that this one will start.

    :param settings: ``name=value``, where values may end in K, M, G (powers of 1000) or KiB, MiB, GiB
    :raises LimitSettingError: what is wrong with one of them; nothing is changed then
    """
    changed = dict(_parsed(setting) for setting in settings)
    _in_force.update(changed)
    given = {name: value for name, value in _in_force.items() if value != LIMITS[name].default}
    if given:
        os.environ[ENVIRONMENT] = ",".join(f"{name}={value}" for name, value in given.items())
    else:
        os.environ.pop(ENVIRONMENT, None)


def _parsed(setting: str) -> tuple[str, int]:
    name, _, value = (part.strip() for part in setting.partition("="))
    if name not in LIMITS:
        raise LimitSettingError(f"no limit is called {name!r}: there are {', '.join(LIMITS)}")
    digits = value.rstrip("KMGiIbBkmg")
    factor = _MULTIPLES.get(value[len(digits) :].upper().removesuffix("B"))
    if not digits.isdecimal() or factor is None:
        raise LimitSettingError(f"limit {name}: {value!r} is no number such as 500000, 64M or 64MiB")
    return name, int(digits) * factor


def _from_environment() -> dict[str, int]:
    given = (part for part in os.environ.get(ENVIRONMENT, "").split(",") if part.strip())
    return {name: each.default for name, each in LIMITS.items()} | dict(map(_parsed, given))


_in_force = _from_environment()
