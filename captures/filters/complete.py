"""Completion of filters while typing.

The parser itself reports what it expects at the end of the text; names come from the registry and, for paths, from the
declarations of the APIs that the filter names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import msgspec

from captures.filters import grammar, literals, nodes
from captures.filters.context import OPPOSITES, SELECTIONS
from captures.filters.errors import FilterError
from captures.filters.fields import BY_NAME, FIELDS, Field, Kind
from captures.filters.lexer import quoted
from captures.filters.paths import UnknownStepError, children, domain_of, find, is_path
from captures.filters.shortforms import FORMS
from dissectors.apis import api, keys_by_name
from dissectors.schema import Field as Declared

_PARTIAL = re.compile(r"""[^\s(){},"'=<>!]*$""")
_API_NAMED = re.compile(r"\bapi\s*(?:==|eq|in)\s*[{(]?([^)}]*)", re.IGNORECASE)
_WORDS = re.compile(r"[A-Za-z]+")

_OPERATORS: Mapping[Kind, tuple[str, ...]] = {
    **dict.fromkeys(literals.ORDERED, ("==", "!=", "<", "<=", ">", ">=", "in")),
    **dict.fromkeys(literals.SEARCHABLE, ("==", "!=", "~", "contains", "in")),
    Kind.BOOL: (),
}
_ALL_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "~", "contains", "in", "exists")
_MEANINGS = {
    "==": "is",
    "!=": "is not; also holds if there is no value",
    "<": "less than",
    "<=": "at most",
    ">": "more than",
    ">=": "at least",
    "~": "matches a regular expression",
    "contains": "contains the text",
    "in": "is one of {a, b}, or in a range {1..5}",
    "exists": "exists, even if empty",
    "and": "both",
    "or": "at least one",
    "not": "the opposite",
}


class Candidate(msgspec.Struct, frozen=True):
    """One completion.

    :ivar text: replaces the characters from ``start`` to the cursor
    :ivar kind: ``field``, ``path``, ``operator``, ``value``, ``short form``, ``selection`` or ``connective``
    :ivar doc: one line about it
    """

    text: str
    kind: str
    doc: str
    start: int


def complete(
    text: str, cursor: int | None = None, known: Mapping[str, Iterable[str]] | None = None
) -> list[Candidate]:
    """Return the completions at the cursor, best first: those that start with the word there, then those that contain
    it.

    :param cursor: index in ``text``, its end if None
    :param known: values found in the capture, by field name, such as client IDs and topics
    """
    before = text if cursor is None else text[: max(cursor, 0)]
    found = _PARTIAL.search(before)
    assert found is not None
    word, start = found[0], found.start()
    offers = _expected(text, before[:start], word, known or {})
    return _fitting([Candidate(*offer, start) for offer in offers], word)


def _fitting(candidates: list[Candidate], word: str) -> list[Candidate]:
    wanted = word.lower()
    first = [one for one in candidates if one.text.lower().startswith(wanted)]
    plain = wanted.strip('"')
    then = [one for one in candidates if one not in first and plain and plain in one.text.lower()]
    return list(dict.fromkeys(first + then))


_Offer = tuple[str, str, str]


def _expected(text: str, prefix: str, word: str, known: Mapping[str, Iterable[str]]) -> list[_Offer]:
    if not prefix.strip():
        return _terms(text, word)
    try:
        tree = grammar.parse(prefix)
    except FilterError as error:
        match error.expected:
            case "value" | "list":
                values = _values(error.field, known)
                return values if error.expected == "value" else [("{", "operator", "list of values")]
            case "operator":
                return [(name, "operator", _MEANINGS[name]) for name in ("contains", "in")]
            case "term":
                return _terms(text, word)
        # complete inside an open parenthesis too
        if error.message.startswith("this parenthesis is never closed"):
            return _expected(text, prefix[: error.position] + " " + prefix[error.position + 1 :], word, known)
        return []
    last = _last(tree)
    offers = _operators(last.name.text) if isinstance(last, nodes.FieldPresent) else []
    return [*offers, *((name, "connective", _MEANINGS[name]) for name in ("and", "or"))]


def _last(tree: nodes.Node) -> nodes.Node:
    match tree:
        case nodes.And(items) | nodes.Or(items):
            return _last(items[-1])
        case nodes.Not(item):
            return _last(item)
        case _:
            return tree


def _terms(text: str, word: str) -> list[_Offer]:
    if word.startswith("~"):
        return [
            (f"~{form.sign}", "short form", f"{form.argument}: {form.doc}" if form.argument else form.doc)
            for form in FORMS.values()
        ]
    if word.startswith("@"):
        selections = {"all": "everything", **SELECTIONS}
        selections |= {name: f"all except @{other}" for name, other in OPPOSITES.items()}
        return [(f"@{name}", "selection", doc) for name, doc in selections.items()]
    offers: list[_Offer] = [(field.name, "field", f"{field.kind}: {field.doc}") for field in FIELDS]
    if is_path(word):
        parent = word.rpartition(".")[0]
        for name, field in children(f"{parent}.", _apis_named(text)).items():
            offers.append((f"{parent}.{name}", "path", _documented(field)))
    else:
        offers += [
            ("request.", "path", "a field of the request"),
            ("response.", "path", "a field of the response"),
        ]
    return [*offers, ("not", "connective", _MEANINGS["not"])]


def _documented(field: Declared) -> str:
    return f"{field.type.kind}: {field.doc}" if field.doc else field.type.kind


def _apis_named(text: str) -> list[int] | None:
    """Return the keys of the APIs named anywhere in the filter; None if there are none."""
    keys = keys_by_name()
    named = [
        keys[word.lower()]
        for found in _API_NAMED.finditer(text)
        for word in _WORDS.findall(found[1].split(" and ")[0])
        if word.lower() in keys
    ]
    return named or None


def _operators(name: str) -> list[_Offer]:
    field = BY_NAME.get(name)
    operators = _ALL_OPERATORS if field is None else _OPERATORS[field.kind]
    return [(operator, "operator", _MEANINGS[operator]) for operator in operators]


def _values(name: str, known: Mapping[str, Iterable[str]]) -> list[_Offer]:
    form = FORMS.get(name.removeprefix("~")) if name.startswith("~") else None
    if form is not None:
        name = form.completes
    offers: dict[str, str] = dict.fromkeys(known.get(name, ()), "found in this capture")
    field = BY_NAME.get(name)
    if field is not None:
        offers |= literals.named_values(field)
        offers |= _units(field)
        if field.kind is Kind.API:
            offers = {value: _api_doc(value) for value in offers}
    elif is_path(name):
        offers |= _path_values(name)
    return [(quoted(value), "value", doc) for value, doc in offers.items()]


def _units(field: Field) -> dict[str, str]:
    if field.kind is Kind.DURATION:
        return dict.fromkeys(("10ms", "100ms", "1s"), "duration: ns, us, ms, s, m, h")
    if field.kind is Kind.SIZE:
        return dict.fromkeys(("1kB", "64KiB", "1MB"), "size: B, kB, MB, GB, KiB, MiB, GiB")
    return {}


def _api_doc(name: str) -> str:
    known = api(keys_by_name().get(name.lower(), -1))
    return known.doc.strip().partition("\n")[0] if known else ""


def _path_values(name: str) -> dict[str, str]:
    try:
        path = find(name)
    except UnknownStepError:
        return {}
    offers: dict[str, str] = {}
    for field in path.leaves:
        domain = domain_of(field)
        if domain is not None:
            offers |= {value: f"{number}" for number, value in domain.values.items()}
        if field.type.kind == "bool":
            offers |= {"true": "", "false": ""}
    return offers
