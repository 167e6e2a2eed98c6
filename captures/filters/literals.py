"""Conversion of written values to predicates, by the kind of the field."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import tzinfo
from fractions import Fraction
from typing import TypeVar

from captures.filters import predicates, values
from captures.filters.errors import did_you_mean
from captures.filters.fields import Field, Kind
from captures.filters.nodes import CONTAINS, EQUAL, MATCHES, Value
from captures.filters.paths import Path, domain_of, is_records
from captures.filters.predicates import Predicate
from captures.filters.regex import BytesRegex, RegexError, TextRegex
from dissectors.apis import NAMES, api_name, keys_by_name
from dissectors.domains import Domain
from dissectors.error_codes import ErrorCode, error_name
from dissectors.units import MS

ERROR_CODES = {error.name: int(error) for error in ErrorCode}

ORDERED = frozenset({Kind.NUMBER, Kind.DURATION, Kind.SIZE, Kind.TIME})
SEARCHABLE = frozenset({Kind.TEXT, Kind.API, Kind.ERROR, Kind.ADDRESS, Kind.HOST, Kind.BYTES})
_NO_API = ("SaslToken", "unknown")
_HEXADECIMAL = re.compile(r"0[xX]((?:[0-9a-fA-F]{2})+)")
_TRUTHS = {"true": True, "yes": True, "false": False, "no": False}

_INTEGERS = frozenset({"int8", "int16", "int32", "int64", "uint16", "uint32"})
_NUMERIC = (int, float)

_Regex = TypeVar("_Regex", TextRegex, BytesRegex)


class BadValueError(ValueError):
    """A value that is invalid for its field, or an operator that is.

    :ivar at: offset in the value, None if the operator is wrong
    """

    def __init__(self, message: str, hint: str = "", *, at: int | None = 0) -> None:
        super().__init__(message)
        self.hint = hint
        self.at = at


def is_api(text: str) -> bool:
    """Return whether a text is the name of an API."""
    return text.lower() in keys_by_name()


def has_ranges(field: Field | Path) -> bool:
    """Return whether the field's values are ordered, so that ``1..5`` is a range."""
    if isinstance(field, Field):
        return field.kind in ORDERED
    return _PathTypes(field).numbers


# ---------------------------------------------------------------- named fields
def of_field(field: Field, operator: str, value: Value, zone: tzinfo | None) -> Predicate:
    """Return the predicate of a comparison with the values of a named field.

    :raises BadValueError: if operator or value are invalid
    """
    kind = field.kind
    if operator in (MATCHES, CONTAINS):
        if kind not in SEARCHABLE:
            hint = "compare it: ==, <, >, in {a, b}" if kind in ORDERED else "write the field alone, or not"
            raise BadValueError(
                f"{field.name} is a {'condition' if kind is Kind.BOOL else kind}, not a text to search",
                hint,
                at=None,
            )
    elif operator != EQUAL and kind not in ORDERED:
        raise BadValueError(
            f"{field.name} is a{'n' * (kind[0] in 'aeioAE')} {kind}, which has no order",
            "use ==, != or ~",
            at=None,
        )
    match kind:
        case Kind.NUMBER:
            return predicates.integers(predicates.compare(operator, _number(field, value)))
        case Kind.DURATION:
            return predicates.integers(predicates.compare(operator, _duration(field.name, value)))
        case Kind.SIZE:
            return predicates.integers(predicates.compare(operator, _size(field.name, value)))
        case Kind.TIME:
            return _time(operator, value, zone)
        case Kind.BOOL:
            return predicates.equal(_truth(field.name, value))
        case Kind.BYTES:
            return _bytes(operator, value)
        case Kind.API:
            return _api(operator, value)
        case Kind.ERROR:
            return _error(operator, value)
        case Kind.ADDRESS | Kind.HOST if operator == EQUAL:
            if field.name == "broker" and value.text.isdecimal():
                other = f"broker.id == {value.text} is its node ID"
                hint = f"a broker is compared by its address: :{value.text} for a port, host:9092, 10.0.0.0/8; {other}"
                raise BadValueError(f"{value.text} is not the address of a broker", hint)
            return _address(kind, value)
        case _:
            return _text(operator, value)


def _number(field: Field, value: Value) -> Fraction:
    found = values.number(value.text)
    if found is None and field.domain is not None:
        named = field.domain.value_of(value.text)
        if named is not None:
            return Fraction(named)
    if found is None:
        hint = _names_hint(value.text, [field.domain] if field.domain else [])
        raise BadValueError(f"{field.name} is a number, {value.text!r} is not", hint)
    return found


def _duration(name: str, value: Value) -> Fraction:
    found = values.duration(value.text)
    if found is not None:
        return found
    plain = values.number(value.text)
    if plain is None:
        raise BadValueError(
            f"{name} is a duration, {value.text!r} is not", "such as 250us, 100ms, 1.5s, 2m30s"
        )
    if plain:
        raise BadValueError(f"{value.text} of what?", f"write a unit: {value.text}ms, {value.text}s")
    return plain


def _size(name: str, value: Value) -> Fraction:
    found = values.size(value.text)
    if found is None:
        found = values.number(value.text)
    if found is None:
        raise BadValueError(f"{name} is a size, {value.text!r} is not", "such as 512, 64kB, 1.5MiB")
    return found


def _time(operator: str, value: Value, zone: tzinfo | None) -> Predicate:
    moment = values.moment(value.text, zone)
    if moment is None:
        hint = "such as 5s or 1m30s (after the start), 09:14:03, 2026-11-21T09:14:03Z"
        raise BadValueError(f"{value.text!r} is not a time", hint)
    return predicates.time([(operator, moment, moment)])


def _truth(name: str, value: Value) -> bool:
    found = _TRUTHS.get(value.text.lower())
    if found is None:
        raise BadValueError(f"{name} is true or false", f"write {name}, or not {name}")
    return found


def _bytes(operator: str, value: Value) -> Predicate:
    if operator == MATCHES:
        return predicates.matches(_regex(BytesRegex, value))
    data = _data(value)
    return predicates.contains(data) if operator == CONTAINS else predicates.equal(data)


def _data(value: Value) -> bytes:
    found = None if value.quoted else _HEXADECIMAL.fullmatch(value.text)
    return bytes.fromhex(found[1]) if found else value.text.encode("utf-8", "surrogatepass")


def _api(operator: str, value: Value) -> Predicate:
    if operator != EQUAL:
        return _text(operator, value)
    wanted = value.text.lower()
    key = keys_by_name().get(wanted)
    if key is None:
        numbered = values.number(wanted.removeprefix("api#"))
        if numbered is not None and numbered.denominator == 1:
            return predicates.equal(api_name(int(numbered)))
        special = [name for name in _NO_API if name.lower() == wanted]
        if special:
            return predicates.equal(special[0])
        raise BadValueError(f"there is no API {value.text}", did_you_mean(value.text, (*NAMES, *_NO_API)))
    return predicates.equal(NAMES[key])


def _error(operator: str, value: Value) -> Predicate:
    if operator != EQUAL:
        test = _text(operator, value).holds

        def named(code: int) -> bool:
            return test(error_name(code))

        return predicates.called(named)
    code = ERROR_CODES.get(value.text.upper())
    if code is None:
        number = values.number(value.text)
        if number is None:
            raise BadValueError(f"there is no error {value.text}", did_you_mean(value.text, ERROR_CODES))
        return predicates.integers(predicates.compare(EQUAL, number))
    return predicates.integers([(code, code)])


def _address(kind: Kind, value: Value) -> Predicate:
    test = values.endpoint(value.text) if kind is Kind.ADDRESS else values.host(value.text)
    if test is None:
        hint = "such as 10.0.0.7, 10.0.0.7:9092, [2001:db8::1]:9092, :9092, 10.0.0.0/8"
        raise BadValueError(f"{value.text!r} is not an address", hint)
    return predicates.called(test)


def _text(operator: str, value: Value) -> Predicate:
    if operator == MATCHES:
        return predicates.matches(_regex(TextRegex, value))
    return predicates.contains(value.text) if operator == CONTAINS else predicates.equal(value.text)


def _regex(kind: type[_Regex], value: Value) -> _Regex:
    try:
        return kind(value.text)
    except RegexError as problem:
        within = min(problem.position, max(len(value.text) - 1, 0)) + value.quoted
        raise BadValueError(f"not a regular expression: {problem}", at=within) from problem


# ---------------------------------------------------------------- fields of messages
class _PathTypes:
    """The possible types of a path's values, over all APIs and versions that have it."""

    def __init__(self, path: Path) -> None:
        kinds = {field.type.value.kind for field in path.leaves}
        undeclared = bool(path.embedded_at)
        self.kinds = kinds
        self.integers = undeclared or bool(kinds & _INTEGERS)
        self.numbers = self.integers or "float64" in kinds
        self.bools = undeclared or "bool" in kinds
        self.texts = undeclared or bool(kinds & {"string", "uuid"})
        self.bytes = undeclared or bool(kinds & {"bytes", "records"})
        found = {id(domain): domain for field in path.leaves if (domain := domain_of(field)) is not None}
        self.domains = list(found.values())
        self.api_keys = any(field.type.value.content == "api_key" for field in path.leaves)
        self.milliseconds = any(domain.rest == "duration_ms" for domain in self.domains) or any(
            field.name.endswith("_ms") for field in path.leaves
        )
        self.timestamps = any(domain.rest == "timestamp_ms" for domain in self.domains)

    def named(self, name: str) -> list[int]:
        """Return the numbers with a given name."""
        found = [value for domain in self.domains if (value := domain.value_of(name)) is not None]
        if self.api_keys and is_api(name):
            found.append(keys_by_name()[name.lower()])
        return found

    def number(self, value: Value) -> Fraction | None:
        """Return a number in the unit of the field."""
        text = value.text
        found = values.number(text)
        if found is None and self.milliseconds:
            duration = values.duration(text)
            found = None if duration is None else duration / MS
        if found is None:
            found = values.size(text)
        if found is None and self.timestamps:
            moment = values.moment(text)
            if moment is not None and moment.since == "epoch":
                found = Fraction(moment.at, MS)
        return found


def of_path(path: Path, name: str, operator: str, value: Value) -> Predicate:
    """Return the predicate of a comparison with the values of a path.

    A path may be a number in one API and a text in another; each value is tested according to its type.

    :raises BadValueError: if operator or value are invalid for all of them
    """
    types = _PathTypes(path)
    if not path.embedded_at and not (types.numbers or types.bools or types.texts or types.bytes):
        inside = [field for field in path.leaves if not is_records(field)]
        hint = f"write {name}.<field>" if inside else ""
        raise BadValueError(f"{name} has fields inside and no value of its own", hint, at=None)
    if operator in (MATCHES, CONTAINS):
        return _search(types, name, operator, value)
    alternatives = _comparisons(types, operator, value)
    if alternatives:
        return predicates.either(alternatives)
    if operator != EQUAL and not types.numbers:
        raise BadValueError(f"{name} is not a number, so it has no order", "use ==, != or ~", at=None)
    what = "a number" if types.numbers else "true or false"
    raise BadValueError(f"{name} is {what}, {value.text!r} is not", _names_hint(value.text, types.domains))


def _comparisons(types: _PathTypes, operator: str, value: Value) -> list[Predicate]:
    alternatives: list[Predicate] = []
    if types.numbers:
        number = types.number(value)
        named = types.named(value.text) if number is None else []
        wanted = [number] if number is not None else [Fraction(one) for one in named]
        if wanted and types.kinds and types.kinds <= _INTEGERS:
            # columns compare intervals at once
            return [
                predicates.integers([each for one in wanted for each in predicates.compare(operator, one)])
            ]
        for one in wanted:
            sign, constant = predicates.scalar(operator, one)
            alternatives.append(
                Predicate(
                    f"(isinstance(v, {{0}}) and v.__class__ is not bool and v {sign} {{1}})",
                    (_NUMERIC, constant),
                )
            )
    if operator != EQUAL:
        return alternatives
    if types.bools and value.text.lower() in _TRUTHS:
        alternatives.append(Predicate("v is {0}", (_TRUTHS[value.text.lower()],)))
    if types.texts:
        alternatives.append(predicates.equal(value.text))
    if types.bytes:
        alternatives.append(predicates.equal(_data(value)))
    return alternatives


def _search(types: _PathTypes, name: str, operator: str, value: Value) -> Predicate:
    alternatives: list[Predicate] = []
    if types.texts:
        alternatives.append(predicates.guarded("v.__class__ is str", _text(operator, value)))
    if types.bytes:
        alternatives.append(predicates.guarded("v.__class__ is bytes", _bytes(operator, value)))
    if types.api_keys or any(domain.values for domain in types.domains):
        test = _text(operator, value).holds
        names: list[Callable[[int], str | None]] = [domain.name_of for domain in types.domains]
        if types.api_keys:
            names.append(api_name)
        alternatives.append(
            predicates.guarded("v.__class__ is int", predicates.called(_any_name(names, test)))
        )
    if not alternatives:
        raise BadValueError(f"{name} is not a text to search", "compare it: ==, <, >, in {a, b}", at=None)
    return predicates.either(alternatives)


def _any_name(
    names: Iterable[Callable[[int], str | None]], test: Callable[[str], bool]
) -> Callable[[int], bool]:
    def holds(number: int) -> bool:
        return any(found is not None and test(found) for found in (name(number) for name in names))

    return holds


def _names_hint(text: str, domains: Iterable[Domain]) -> str:
    known = [name for domain in domains for name in domain.values.values()]
    if not known:
        return ""
    return did_you_mean(text, known) or f"named values: {', '.join(known[:8])}"


def named_values(field: Field) -> dict[str, str]:
    """Return the names that a field's values may have, with their meaning; for completion."""
    if field.kind is Kind.BOOL:
        return {"true": "", "false": ""}
    return dict(field.choices())
