"""The syntax of rules: ``FILTER => ACTION [, p=0.1] [, count=5] [, for=2m]``.

::

    rule = [("request" | "response") ":"] filter "=>" action { "," option }
         | "broker" [cluster "/"] node ID "down" [manner] { "," option }

The filter is one of kproxy's filter language, the actions are :data:`~kproxy.proxy.rules.actions.ACTIONS`, the options
:data:`OPTIONS`. The arrow of a rule is the last one before the name of an action.
Every error is a :class:`~captures.filters.FilterError` with its position in the whole text.

Filters are made for whole exchanges. A passing request has no latency and no error yet; no passing frame has a number
in the capture, a mark or a comment. Fields such as the topic are in requests and in responses: the filter looks at
requests, unless it refers to something that only a response has, or names the side.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import NamedTuple, cast

from captures.filters import Filter, FilterError, compile_filter, grammar, unknown_cluster, values
from captures.filters.errors import did_you_mean
from captures.filters.fields import BY_NAME, Availability
from captures.filters.nodes import Compare, Exists, FieldPresent, Name, Node, OneOf, Selector, leaves
from captures.filters.paths import is_path
from dissectors.sides import Side
from kproxy.proxy.rules.actions import ACTIONS, Action
from kproxy.proxy.rules.arguments import Argument, duration_text
from kproxy.proxy.rules.outages import FOREVER, MANNERS, REFUSED, DownAction, Outage

_WRITTEN = re.compile(r"[~@]?[\w.\[\],-]+")


def side_of(node: Node, text: str, stated: Side | None, acted_on: Side | None = None) -> Side:
    """Return whether a filter looks at requests or at responses.

    :param text: the filter, for errors
    :param stated: the side that the rule names, None if it names none
    :param acted_on: the side that the action applies to, None for either
    :raises FilterError: if it refers to something that a passing frame does not have
    """
    side = stated or acted_on or "request"
    for name in _names(node):
        if isinstance(name, Selector):
            raise _error(f"@{name.text} is about a capture, not about a frame on its way", name, text)
        if not _asks_for_response(name, text):
            continue
        if acted_on == "request":
            message = f"no request has {name.text}, and this rule changes requests"
            raise _error(message, name, text)
        if stated == "request":
            message = f"no request has {name.text}"
            raise _error(message, name, text, "leave out request:, or say response:")
        side = "response"
    return side


def _asks_for_response(name: Name, text: str) -> bool:
    field = BY_NAME.get(name.text)
    if field is None:
        # a path into a body, header.<name>, or an unknown name, which the filter language refuses
        return name.text.startswith("response.")
    if field.available is Availability.CAPTURE:
        message = f"{name.text} is about a capture, not about a frame on its way"
        raise _error(message, name, text)
    return field.available is Availability.RESPONSE


def _error(message: str, name: Name | Selector, text: str, hint: str = "") -> FilterError:
    # the field or selector as written, or a short form of it
    found = _WRITTEN.match(text, name.position)
    return FilterError(message, text, name.position, len(found[0]) if found else 0, hint)


def _names(node: Node) -> Iterator[Name | Selector]:
    for leaf in leaves(node):
        match leaf:
            case Compare(name) | OneOf(name) | FieldPresent(name) | Exists(name):
                yield name
            case Selector():
                yield leaf


DEFAULT_DURATION = 600 * 1_000_000_000
"""ns for which a rule is in force by default."""

_FOREVER = "forever"
_NAME = re.compile(r"[A-Za-z_][\w.-]*")

ARROW = "=>"
PREFIX = re.compile(r"\s*(request|response)\s*:")
_OUTAGE = re.compile(r"\s*broker\s+(?:([^\s/]+)/)?(\d+)\s+down\b")
_MOST_NODE_ID = (1 << 31) - 1
_WORD = re.compile(r"[A-Za-z]+")
_EXAMPLE = "such as: api == Fetch => delay 200ms"


@dataclass(frozen=True)
class Condition:
    """The condition that a frame must meet.

    :ivar side: whether requests or responses are inspected
    :ivar stated: whether the text names the side; otherwise the filter implies it
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
    """A parsed rule. ``str()`` gives the rule in its plainest form; parsing that gives the same rule.

    :ivar text: as written
    :ivar probability: above 0, up to 1
    :ivar count: how often it is applied at most, None for any number
    :ivar duration: ns, or :data:`FOREVER`
    :ivar name: identifies the rule for removal; empty if it has none
    """

    text: str = field(compare=False)
    condition: Condition
    action: Action
    probability: float = 1.0
    count: int | None = None
    duration: int = DEFAULT_DURATION
    name: str = ""

    def __str__(self) -> str:
        parts = [f"{self.condition} {ARROW} {self.action}"]
        if self.probability != 1:
            parts.append(f"p={self.probability!r}")
        if self.count is not None:
            parts.append(f"count={self.count}")
        if self.duration != DEFAULT_DURATION:
            parts.append(f"for={_FOREVER if self.duration == FOREVER else duration_text(self.duration)}")
        if self.name:
            parts.append(f"name={self.name}")
        return ", ".join(parts)


def with_saved_filters(text: str, saved: Mapping[str, str]) -> str:
    """Return a filter, a condition or a rule with names of saved filters, ``@name``, replaced by the filters.

    :raises FilterError: if a saved filter contains itself
    """
    if "@" not in text:
        return text
    found, arrow = PREFIX.match(text), arrow_in(text)
    whole = text if found else grammar.with_saved(text, saved)
    if whole != text:
        return whole
    begin, end = found.end() if found else 0, arrow if arrow >= 0 else len(text)
    return f"{text[:begin]}{grammar.with_saved(text[begin:end], saved)}{text[end:]}"


def parse_rule(text: str, clusters: Collection[str] | None = None) -> Rule | Outage:
    """Parse a rule.

    :param clusters: names of all clusters, which the filter may name; None if they are not known
    :raises FilterError: with the position of the error
    """
    outage = _OUTAGE.match(text)
    if outage is not None:
        return _outage(text, outage)
    arrow = arrow_in(text)
    if arrow < 0:
        raise FilterError("a rule is FILTER => ACTION, and the => is missing", text, len(text), 0, _EXAMPLE)
    done = Argument(text, text).part(arrow + len(ARROW))
    action, *others = done.split()
    options = list(dropwhile(lambda each: is_path(each.text), others))
    if len(options) < len(others):  # set with several fields
        last = others[len(others) - len(options) - 1]
        action = done.part(0, last.position + len(last.text) - done.position)
    condition = parse_condition(text, arrow, None, clusters)  # report errors on the left first
    made = _action(action)
    if made.side is not None:
        condition = parse_condition(text, arrow, made.side, clusters)
    given = _options(options)
    return Rule(
        text.strip(),
        condition,
        made,
        cast(float, given.get("p", 1.0)),
        cast("int | None", given.get("count")),
        int(given.get("for", DEFAULT_DURATION)),
        str(given.get("name", "")),
    )


def _outage(text: str, found: re.Match[str]) -> Outage:
    first, *others = Argument(text, text).split()
    if int(found[2]) > _MOST_NODE_ID:
        raise Argument(text, found[2], found.start(2)).error("this is not a valid node ID")
    manner = first.part(found.end() - first.position)
    if manner.text and manner.text not in MANNERS:
        hint = did_you_mean(manner.text, MANNERS) or f"there are {', '.join(MANNERS)}"
        raise manner.error(f"a broker cannot be down {manner.text}", hint)
    for option in others:
        if option.text.partition("=")[0].strip().lower() in ("p", "count"):
            raise option.error("a broker is down, or it is not", "it takes for= and name=")
    given = _options(others)
    duration, name = int(given.get("for", DEFAULT_DURATION)), str(given.get("name", ""))
    action, cluster = DownAction(manner.text or REFUSED), found[1] or ""
    return Outage(text.strip(), int(found[2]), action, duration, name, cluster=cluster)


def arrow_in(text: str) -> int:
    """Return the position of a rule's arrow: the last one before an action, or else the last; -1 if there is none."""
    found = [each.start() for each in re.finditer(ARROW, text)]
    before_actions = (at for at in reversed(found) if _names_action(text[at + len(ARROW) :]))
    return next(before_actions, found[-1] if found else -1)


def _names_action(text: str) -> bool:
    word = _WORD.match(text.lstrip())
    return word is not None and word[0].lower() in ACTIONS


def parse_condition(
    text: str,
    end: int | None = None,
    acted_on: Side | None = None,
    clusters: Collection[str] | None = None,
) -> Condition:
    """Parse the condition in `text` before offset `end`, by default all of it.

    :param acted_on: the side that the rule's action applies to, None for either
    :param clusters: names of all clusters, None if they are not known
    :raises FilterError: with the position of the error
    """
    found = PREFIX.match(text, 0, len(text) if end is None else end)
    begin = found.end() if found else 0
    inner = text[begin:end]
    try:
        node = grammar.parse(inner, plain=False)  # a rule must be explicit: no free-text search
        stated = cast(Side, found[1]) if found else None
        side = side_of(node, inner, stated, acted_on)
        if acted_on not in (None, side):
            raise FilterError(f"this rule looks at {side}s, and changes {acted_on}s", inner, 0, len(inner))
        wanted = compile_filter(inner)
        unknown = None if clusters is None else unknown_cluster(wanted, clusters)
        if unknown is not None:
            raise unknown
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


# ---------------------------------------------------------------- actions and options
def _action(argument: Argument) -> Action:
    word = _WORD.match(argument.text)
    written = word[0] if word else argument.text
    made = ACTIONS.get(written.lower())
    if word is None or made is None:
        hint = did_you_mean(written, ACTIONS) or f"there are {', '.join(ACTIONS)}"
        message = f"there is no action {written}" if written else "an action is missing after =>"
        raise argument.part(0, len(written)).error(message, hint)
    return made.read(argument.part(word.end()))


def _probability(argument: Argument) -> float:
    percent = argument.text.endswith("%")
    try:
        found = float(argument.text.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        found = 0.0
    if not 0 < found <= 1:
        raise argument.error(f"{argument.text!r} is not a probability", "above 0, up to 1: p=0.1 or p=10%")
    return found


def _count(argument: Argument) -> int:
    found = values.number(argument.text)
    if found is None or found.denominator != 1 or found < 1:
        raise argument.error(f"{argument.text!r} is not a count", "such as count=5")
    return int(found)


def _name(argument: Argument) -> str:
    if not _NAME.fullmatch(argument.text):
        raise argument.error(f"{argument.text!r} is not a name", "letters, digits, _ . and -, a letter first")
    return argument.text


def _holding_time(argument: Argument) -> int:
    if argument.text.lower() == _FOREVER:
        return FOREVER
    found = argument.duration()
    if not found:
        raise argument.error("a rule holds for longer than nothing", "such as for=2m")
    return found


class Option(NamedTuple):
    """An option of rules.

    :ivar read: parses the value after ``=``
    :ivar examples: values
    :ivar meaning: for documentation and completion
    """

    read: Callable[[Argument], float | int | str]
    examples: tuple[str, ...]
    meaning: str


OPTIONS: Mapping[str, Option] = {
    "p": Option(_probability, ("0.1", "10%"), "applied to so many of the frames that match, by chance"),
    "count": Option(_count, ("5",), "ends after it was applied so often"),
    "for": Option(
        _holding_time,
        ("2m", "forever"),
        "ends after this time; **10 minutes** if it is left out, so that no fault is forgotten; "
        "`forever` needs `--force`",
    ),
    "name": Option(
        _name, ("slow-disk",), "stands for its number in `kproxy ctl rule remove`; no two rules have the same"
    ),
}


def _options(arguments: Iterable[Argument]) -> dict[str, float | int | str]:
    given: dict[str, float | int | str] = {}
    for argument in arguments:
        written, sign, _ = argument.text.partition("=")
        name = written.strip().lower()
        if name not in OPTIONS or not sign:
            examples = (f"{name}={option.examples[0]}" for name, option in OPTIONS.items())
            hint = did_you_mean(name, OPTIONS) or f"there are {', '.join(examples)}"
            raise argument.error(f"there is no option {argument.text!r}", hint)
        if name in given:
            raise argument.error(f"{name} is given twice")
        given[name] = OPTIONS[name].read(argument.part(len(written) + 1))
    return given
