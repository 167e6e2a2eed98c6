"""Rules as they are written: ``FILTER => ACTION [, p=0.1] [, count=5] [, for=2m]``.

::

    rule     = [("request" | "response") ":"] filter "=>" action { "," option }
    action   = "delay" (duration | duration ".." duration | distribution)
             | "throttle" size "/s"
             | "error" (name | number)
             | "truncate" size | "corrupt" [offset]
             | "drop" | "reset" | "blackhole"
    distribution = "normal(" mean "," deviation ")" | "exponential(" mean ")" | "lognormal(" median "," p99 ")"
    option   = "p=" (0.1 | 10%) | "count=" number | "for=" duration

The filter is of the project's filter language. No action has an arrow in it, so the last one of the text is the rule's.
Whatever is wrong is a :class:`~captures.filters.FilterError` with its place in the whole text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from captures.filters import Filter, FilterError, compile_filter, grammar, values
from captures.filters.errors import did_you_mean
from dissectors.error_codes import BY_NAME
from kproxy.proxy.rules import actions, sides
from kproxy.proxy.rules.actions import Action, Distribution
from kproxy.proxy.rules.units import duration_text
from kproxy.proxy.verdicts import Side

DEFAULT_DURATION = 600 * 1_000_000_000
"""ns for which a rule holds that does not say how long."""

_ARROW = "=>"
_PREFIX = re.compile(r"\s*(request|response)\s*:")
_WORD = re.compile(r"[A-Za-z]+")
_CALL = re.compile(r"([A-Za-z]+)\s*\((.*)\)", re.DOTALL)
_INT16 = range(-(1 << 15), 1 << 15)
_EXAMPLE = "such as: api == Fetch => delay 200ms"


@dataclass(frozen=True)
class Condition:
    """What a frame has to be.

    :ivar side: whether requests or responses are looked at
    :ivar stated: whether the text says so, as against the filter implying it
    :ivar expanded: the filter without short forms
    :ivar wanted: the filter
    """

    side: Side
    stated: bool
    expanded: str
    wanted: Filter = field(compare=False)

    def __str__(self) -> str:
        return f"{self.side}: {self.expanded}" if self.stated else self.expanded


@dataclass(frozen=True)
class Rule:
    """A rule, understood. ``str()`` of it is the rule in its plainest form; reading that gives the same rule.

    :ivar text: as written
    :ivar probability: above 0, up to 1
    :ivar count: how often it is applied at most, None for any number
    :ivar duration: ns
    """

    text: str = field(compare=False)
    condition: Condition
    action: Action
    probability: float = 1.0
    count: int | None = None
    duration: int = DEFAULT_DURATION

    def __str__(self) -> str:
        parts = [f"{self.condition} {_ARROW} {self.action}"]
        if self.probability != 1:
            parts.append(f"p={self.probability!r}")
        if self.count is not None:
            parts.append(f"count={self.count}")
        if self.duration != DEFAULT_DURATION:
            parts.append(f"for={duration_text(self.duration)}")
        return ", ".join(parts)


def parse_rule(text: str) -> Rule:
    """Return the rule that a text means.

    :raises FilterError: at the character where it stops making sense
    """
    arrow = text.rfind(_ARROW)
    if arrow < 0:
        raise FilterError("a rule says FILTER => ACTION, and there is no =>", text, len(text), 0, _EXAMPLE)
    condition = parse_condition(text, arrow)
    return _ActionReader(text, arrow + len(_ARROW)).rule(condition)


def parse_condition(text: str, end: int | None = None) -> Condition:
    """Return the condition that stands before ``end`` in a text, which is the whole text if None.

    :raises FilterError: at the character where it stops making sense
    """
    found = _PREFIX.match(text, 0, len(text) if end is None else end)
    begin = found.end() if found else 0
    inner = text[begin:end]
    try:
        node = grammar.parse(inner)
        side = sides.side_of(node, inner, cast(Side, found[1]) if found else None)
        wanted = compile_filter(inner)
        return Condition(side, found is not None, wanted.expanded, wanted)
    except FilterError as error:
        raise FilterError(
            error.message,
            text,
            error.position + begin,
            error.length,
            error.hint,
            expected=error.expected,
            field=error.field,
        ) from error


# ---------------------------------------------------------------- actions
@dataclass(frozen=True, slots=True)
class _Piece:
    """A piece of the text, without white space around it."""

    text: str
    position: int


class _ActionReader:
    """Reads what follows the arrow."""

    def __init__(self, text: str, begin: int) -> None:
        self._text = text
        self._pieces = list(_split(_stripped(text[begin:], begin)))

    def rule(self, condition: Condition) -> Rule:
        """Return the whole rule."""
        action = self._action(self._pieces[0])
        given: dict[str, float | int] = {}
        for piece in self._pieces[1:]:
            name, sign, rest = piece.text.partition("=")
            name = name.strip().lower()
            read = _OPTIONS.get(name)
            if read is None or not sign:
                hint = did_you_mean(name, _OPTIONS) or "there are p=0.1, count=5, for=2m"
                raise self._error(f"there is no option {piece.text!r}", piece, hint)
            if name in given:
                raise self._error(f"{name} is said twice", piece)
            given[name] = read(self, _stripped(rest, piece.position + len(piece.text) - len(rest)))
        return Rule(
            self._text.strip(),
            condition,
            action,
            float(given.get("p", 1.0)),
            cast("int | None", given.get("count")),
            int(given.get("for", DEFAULT_DURATION)),
        )

    def _error(self, message: str, piece: _Piece, hint: str = "") -> FilterError:
        return FilterError(message, self._text, piece.position, len(piece.text), hint)

    def _action(self, piece: _Piece) -> Action:
        word = _WORD.match(piece.text)
        name = word[0].lower() if word else ""
        read = _ACTIONS.get(name)
        if word is None or read is None:
            written = word[0] if word else piece.text
            hint = did_you_mean(written, _ACTIONS) or f"there are {', '.join(_ACTIONS)}"
            message = f"there is no action {written}" if written else "an action is missing after =>"
            raise self._error(message, _Piece(written, piece.position), hint)
        argument = _stripped(piece.text[word.end() :], piece.position + word.end())
        return read(self, argument)

    # ------------------------------------------------------------ arguments
    def plain(self, argument: _Piece, made: Action) -> Action:
        """Return an action that takes no argument."""
        if argument.text:
            raise self._error(f"{made.name} takes nothing behind it", argument)
        return made

    def delay(self, argument: _Piece) -> Action:
        """Read ``200ms``, ``100ms..500ms`` or a distribution."""
        if not argument.text:
            hint = (
                "such as 200ms, 100ms..500ms, normal(200ms, 50ms), exponential(50ms), lognormal(20ms, 300ms)"
            )
            raise self._error("how long is missing after delay", argument, hint)
        call = _CALL.fullmatch(argument.text)
        if call is not None:
            inside = _stripped(call[2], argument.position + call.start(2))
            return actions.Delay(self._distribution(_Piece(call[1], argument.position), inside))
        low, dots, high = argument.text.partition("..")
        if not dots:
            return actions.Delay(actions.Fixed(self.duration(argument)))
        first = self.duration(_stripped(low, argument.position))
        last = self.duration(_stripped(high, argument.position + len(low) + 2))
        if last < first:
            raise self._error(
                "the end of the range is before its beginning", argument, f"write {high}..{low}"
            )
        return actions.Delay(actions.Uniform(first, last))

    def _distribution(self, name: _Piece, inside: _Piece) -> Distribution:
        made = _DISTRIBUTIONS.get(name.text.lower())
        if made is None:
            hint = did_you_mean(name.text, _DISTRIBUTIONS) or f"there are {', '.join(_DISTRIBUTIONS)}"
            raise self._error(f"there is no distribution {name.text}", name, hint)
        meanings, make = made
        pieces = list(_split(inside))
        if len(pieces) != len(meanings):
            hint = f"{name.text.lower()}({', '.join(meanings)})"
            raise self._error(f"{name.text} takes {' and '.join(meanings)}", inside, f"write {hint}")
        drawn = [self.duration(piece) for piece in pieces]
        # a deviation of 0 is a fixed delay; a mean or a median of 0 has no distribution
        if not drawn[0] or (make is actions.LogNormal and drawn[1] <= drawn[0]):
            what = "p99 must be above the median" if drawn[0] else f"the {meanings[0]} must be above 0"
            raise self._error(what, pieces[-1] if drawn[0] else pieces[0])
        return make(*drawn)

    def duration(self, piece: _Piece) -> int:
        """Read a duration in ns, 0 or more."""
        found = values.duration(piece.text)
        if found is None and values.number(piece.text) == 0:
            return 0
        if found is None and values.number(piece.text) is not None:
            hint = f"write a unit: {piece.text}ms, {piece.text}s"
            raise self._error(f"{piece.text} of what?", piece, hint)
        if found is None or found < 0:
            raise self._error(f"{piece.text!r} is no duration", piece, "such as 250us, 100ms, 1.5s, 2m30s")
        return int(found)

    def throttle(self, argument: _Piece) -> Action:
        """Read ``100kB/s``."""
        rate, slash, per = argument.text.partition("/")
        size = values.size("".join(rate.split()))
        if not slash or per.strip() != "s" or size is None or size < 1:
            raise self._error(f"{argument.text!r} is no bandwidth", argument, "such as 100kB/s, 1.5MiB/s")
        return actions.Throttle(int(size))

    def error(self, argument: _Piece) -> Action:
        """Read the name or the number of an error."""
        known = BY_NAME.get(argument.text.upper())
        number = values.number(argument.text)
        if known is None and (number is None or number.denominator != 1 or int(number) not in _INT16):
            hint = did_you_mean(argument.text, BY_NAME) or "such as NOT_LEADER_OR_FOLLOWER, 6"
            what = f"there is no error {argument.text}" if argument.text else "which error is missing"
            raise self._error(what, argument, hint)
        code = known.code if known is not None else int(number or 0)
        if not code:
            raise self._error("0 is no error", argument)
        return actions.Error(code)

    def truncate(self, argument: _Piece) -> Action:
        """Read how many bytes are left."""
        return actions.Truncate(self._bytes("how many bytes are sent", argument))

    def corrupt(self, argument: _Piece) -> Action:
        """Read the offset, which may be left out."""
        return actions.Corrupt(self._bytes("the offset", argument) if argument.text else None)

    def _bytes(self, what: str, piece: _Piece) -> int:
        found = values.number(piece.text)
        found = values.size(piece.text) if found is None else found
        if found is None or found < 0 or found.denominator != 1:
            raise self._error(f"{what}: {piece.text!r} is no number of bytes", piece, "such as 100, 4kB")
        return int(found)

    # ------------------------------------------------------------ options
    def probability(self, piece: _Piece) -> float:
        """Read ``0.1`` or ``10%``."""
        percent = piece.text.endswith("%")
        try:
            found = float(piece.text.removesuffix("%")) / (100 if percent else 1)
        except ValueError:
            found = 0.0
        if not 0 < found <= 1:
            hint = "above 0, up to 1: p=0.1 or p=10%"
            raise self._error(f"{piece.text!r} is no probability", piece, hint)
        return found

    def count(self, piece: _Piece) -> int:
        """Read how often."""
        found = values.number(piece.text)
        if found is None or found.denominator != 1 or found < 1:
            raise self._error(f"{piece.text!r} is no count", piece, "such as count=5")
        return int(found)

    def lasting(self, piece: _Piece) -> int:
        """Read how long a rule holds."""
        found = self.duration(piece)
        if not found:
            raise self._error("a rule holds for longer than nothing", piece, "such as for=2m")
        return found


_ACTIONS: dict[str, Callable[[_ActionReader, _Piece], Action]] = {
    "delay": _ActionReader.delay,
    "drop": lambda reader, argument: reader.plain(argument, actions.Drop()),
    "reset": lambda reader, argument: reader.plain(argument, actions.Reset()),
    "throttle": _ActionReader.throttle,
    "error": _ActionReader.error,
    "truncate": _ActionReader.truncate,
    "corrupt": _ActionReader.corrupt,
    "blackhole": lambda reader, argument: reader.plain(argument, actions.Blackhole()),
}
_DISTRIBUTIONS: dict[str, tuple[tuple[str, ...], Callable[..., Distribution]]] = {
    "normal": (("mean", "deviation"), actions.Normal),
    "exponential": (("mean",), actions.Exponential),
    "lognormal": (("median", "p99"), actions.LogNormal),
}
_OPTIONS: dict[str, Callable[[_ActionReader, _Piece], float | int]] = {
    "p": _ActionReader.probability,
    "count": _ActionReader.count,
    "for": _ActionReader.lasting,
}


def _stripped(text: str, position: int) -> _Piece:
    return _Piece(text.strip(), position + len(text) - len(text.lstrip()))


def _split(piece: _Piece) -> list[_Piece]:
    """Split at commas that are in no parentheses."""
    out, depth, begin = [], 0, 0
    for at, char in enumerate(piece.text + ","):
        depth += (char == "(") - (char == ")")
        if char == "," and (depth <= 0 or at == len(piece.text)):
            out.append(_stripped(piece.text[begin:at], piece.position + begin))
            begin = at + 1
    return out
