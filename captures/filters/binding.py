"""The syntax tree with its names and values resolved to fields and predicates.

All errors that the grammar cannot detect are found here: unknown fields, invalid values, operators that
make no sense. The later steps (:mod:`~captures.filters.columns`, :mod:`~captures.filters.bodies`) only compile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import TypeAlias

import msgspec

from captures.filters import literals, nodes, predicates, reads, values
from captures.filters.context import OPPOSITES, SELECTIONS
from captures.filters.errors import FilterError, did_you_mean
from captures.filters.fields import BY_NAME, Availability, Field, Kind
from captures.filters.literals import BadValueError
from captures.filters.nodes import And, MatchAll, Name, Not, Or
from captures.filters.paths import Path, UnknownStepError, find, is_path
from captures.filters.predicates import ANY, NOT_EMPTY, Predicate


class Test(msgspec.Struct, frozen=True):
    """One condition on one field; it does not hold if the field has no value."""

    field: Field | Path
    predicate: Predicate


class Selection(msgspec.Struct, frozen=True):
    """Membership in a selection (:data:`captures.filters.context.SELECTIONS`)."""

    selection: str


Bound: TypeAlias = "Test | Selection | MatchAll | Not[Bound] | And[Bound] | Or[Bound]"

_HEADER = "header."
_CLIENT, _CLIENT_ID = BY_NAME["client"], BY_NAME["client_id"]
_LIKE_AN_ADDRESS = re.compile(r"[0-9a-fA-F.:/\[\]]*[.:/][0-9a-fA-F.:/\[\]]*")
_NUMBERS = re.compile(r"([0-9]{1,12})(?:-([0-9]{1,12}))?")


def bind(node: nodes.Node, text: str, zone: tzinfo | None) -> Bound:
    """Return the tree with fields and predicates.

    :param text: the filter, for errors
    :param zone: zone of times without one; None is the local zone
    :raises FilterError: at the name or value that makes no sense
    """
    return _Binder(text, zone).bind(node)


def field_named(name: str) -> Field | Path:
    """Return the field, or the path into a message, of a name.

    :raises FilterError: if there is none
    """
    return _Binder(name, None).field(Name(name))


class _Binder:
    def __init__(self, text: str, zone: tzinfo | None) -> None:
        self.text = text
        self.zone = zone

    def bind(self, node: nodes.Node) -> Bound:
        match node:
            case nodes.And(items):
                return And(tuple(map(self.bind, items)))
            case nodes.Or(items):
                return Or(tuple(map(self.bind, items)))
            case nodes.Not(item):
                return Not(self.bind(item))
            case nodes.MatchAll():
                return node
            case nodes.Selector():
                return self._selector(node)
            case nodes.FieldPresent(name) | nodes.Exists(name):
                return self._present(name, empty=isinstance(node, nodes.Exists))
            case nodes.Compare():
                test = self._compare(node)
                return Not(test) if node.negated else test
            case nodes.OneOf():
                test = self._one_of(node)
                return Not(test) if node.negated else test

    def _error(self, message: str, position: int, length: int, hint: str = "") -> FilterError:
        return FilterError(message, self.text, position, length, hint)

    # ------------------------------------------------------------ names
    def field(self, name: Name) -> Field | Path:
        field = BY_NAME.get(name.text)
        if field is not None:
            return field
        if is_path(name.text):
            try:
                return find(name.text)
            except UnknownStepError as unknown:
                at = name.position + unknown.offset
                raise self._error(str(unknown), at, unknown.length, unknown.hint) from unknown
        if name.text.startswith(_HEADER) and "[" not in name.text:
            return header(name.text)
        raise self._error(f"there is no field {name.text}", name.position, name.length, _name_hint(name.text))

    def _selector(self, node: nodes.Selector) -> Bound:
        if node.text in SELECTIONS:
            return Selection(node.text)
        if node.text in OPPOSITES:
            return Not(Selection(OPPOSITES[node.text]))
        intervals: list[predicates.Interval] = []
        for part in node.text.split(","):
            found = _NUMBERS.fullmatch(part)
            if found is None:
                known = ["all", *SELECTIONS, *OPPOSITES]
                listed = " ".join(f"@{one}" for one in known)
                hint = did_you_mean(node.text, known) or f"there are {listed} @17 @3,20-30"
                message = f"there is no selection @{node.text}"
                raise self._error(message, node.position, len(node.text) + 1, hint)
            intervals.append((int(found[1]), int(found[2] or found[1])))
        return Test(BY_NAME["number"], predicates.integers(intervals))

    # ------------------------------------------------------------ tests
    def _present(self, name: Name, *, empty: bool) -> Bound:
        field = self.field(name)
        if empty:
            # a condition always exists, whether it holds or not
            return MatchAll() if _is_bool(field) else Test(field, ANY)
        if isinstance(field, Path):
            # false, empty texts and empty lists count as empty; 0 does not
            return Test(field, Predicate("(v is not False and v != '' and v != b'')"))
        return Test(field, ANY if field.kind not in _CAN_BE_EMPTY else NOT_EMPTY)

    def _compare(self, node: nodes.Compare) -> Bound:
        field = self.field(node.name)
        if _is_bool(field):
            asked = self._predicate(field, node)
            test = Test(field, NOT_EMPTY)
            return test if asked.holds(True) else Not(test)
        if field is _CLIENT:
            return self._client(node)
        return Test(field, self._predicate(field, node))

    def _client(self, node: nodes.Compare) -> Bound:
        """Return a test of the client: its ID, or its address or name."""
        by_id = Test(_CLIENT_ID, self._predicate(_CLIENT_ID, node))
        if node.operator == nodes.EQUAL and not _LIKE_AN_ADDRESS.fullmatch(node.value.text):
            try:
                return Or((by_id, Test(_CLIENT, self._predicate(_CLIENT, node))))
            except FilterError:  # a client ID may be anything
                return by_id
        return Or((by_id, Test(_CLIENT, self._predicate(_CLIENT, node))))

    def _predicate(self, field: Field | Path, node: nodes.Compare) -> Predicate:
        value = node.value
        try:
            if isinstance(field, Path):
                return literals.of_path(field, node.name.text, node.operator, value)
            return literals.of_field(field, node.operator, value, self.zone)
        except BadValueError as bad:
            if bad.at is None:
                raise self._error(str(bad), node.position, node.length, bad.hint) from bad
            raise self._error(str(bad), value.position + bad.at, value.length - bad.at, bad.hint) from bad

    def _one_of(self, node: nodes.OneOf) -> Bound:
        field = self.field(node.name)
        if _is_bool(field) or field is _CLIENT:
            return Or(tuple(self._compare(_compared(node.name, nodes.EQUAL, each)) for each in node.values))
        singles: list[Predicate] = []
        for value in node.values:
            low, dots, high = value.text.partition("..")
            if dots and not value.quoted and literals.has_ranges(field):
                singles.append(self._range(field, node.name, value, low, high))
            else:
                singles.append(self._predicate(field, _compared(node.name, nodes.EQUAL, value)))
        return Test(field, _union(singles))

    def _range(self, field: Field | Path, name: Name, value: nodes.Value, low: str, high: str) -> Predicate:
        ends = [
            nodes.Value(text, position=value.position + at, length=len(text))
            for text, at in ((low, 0), (high, len(low) + 2))
        ]
        for end in ends:
            if not end.text:
                hint = "write both ends: 1..5"
                raise self._error("a range needs two ends", value.position, value.length, hint)
        if isinstance(field, Field) and field.kind is Kind.TIME:
            moments = [values.moment(end.text, self.zone) for end in ends]
            if moments[0] is not None and moments[1] is not None:
                return predicates.time([("in", moments[0], moments[1])])
        at_least = self._predicate(field, _compared(name, nodes.GREATER_EQUAL, ends[0]))
        at_most = self._predicate(field, _compared(name, nodes.LESS_EQUAL, ends[1]))
        if at_least.intervals is not None and at_most.intervals is not None:
            return predicates.integers([(at_least.intervals[0][0], at_most.intervals[0][1])])
        return predicates.both(at_least, at_most)


def _compared(name: Name, operator: str, value: nodes.Value) -> nodes.Compare:
    """Return a comparison that is written as its value alone, as in a list."""
    return nodes.Compare(name, operator, value, position=value.position, length=value.length)


def _is_bool(field: Field | Path) -> bool:
    return isinstance(field, Field) and field.kind is Kind.BOOL


_CAN_BE_EMPTY = (Kind.TEXT, Kind.BYTES, Kind.BOOL)


def _union(singles: Sequence[Predicate]) -> Predicate:
    if all(isinstance(one, predicates.TimePredicate) for one in singles):
        return predicates.time(
            [moment for one in singles if isinstance(one, predicates.TimePredicate) for moment in one.moments]
        )
    if all(one.intervals is not None for one in singles):
        return predicates.integers([interval for one in singles for interval in one.intervals or ()])
    return predicates.either(singles)


def header(name: str) -> Field:
    """Return the field ``header.NAME``: the values of the record headers of that name."""
    key = name.removeprefix(_HEADER)
    return Field(
        name,
        Kind.BYTES,
        Availability.REQUEST,
        f"value of the record header {key}",
        lambda x, c: (value for held, value in reads.headers(x, c) if held == key and value is not None),
        many=True,
        mentions="records",
    )


def _name_hint(name: str) -> str:
    if literals.is_api(name):
        return f"write api == {name}"
    if name.upper() in literals.ERROR_CODES:
        return f"write error == {name.upper()}"
    return did_you_mean(name, BY_NAME) or "fields of messages are written request.<path> and response.<path>"
