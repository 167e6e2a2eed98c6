"""API keys and error codes: one enumeration each, which the declarations match and all product code uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES, api, keys_by_name
from dissectors.error_codes import ErrorCode
from tests.definitions import facts

ROOT = Path(__file__).parents[2]

KEYS = {"api_key", "apikey", "key", "request_api_key", "asked_key"}
CODES = {"error", "error_code", "errorcode", "code"}
ENUMERATIONS = (ApiKey, ErrorCode)

OTHER_PROTOCOLS = (
    "captures/packets/",
    "captures/export/scrub/",
    "dissectors/api_keys.py",
    "dissectors/conversation/foreign.py",
    "dissectors/embedded/",
    "dissectors/records/",
    "kproxy/proxy/firewall.py",
)
"""Modules whose numbers are those of packets, TLS, codecs, records and protocols other than Kafka's."""
OTHER_TABLES = {
    "ACKNOWLEDGE",
    "ACKNOWLEDGED",
    "ACKS",
    "COORDINATOR_TYPES",
    "ELECTIONS",
    "ENTITY_TYPES",
    "ISOLATION",
    "MISSING",
    "NORMAL",
    "RESOURCES",
    "SPECIAL_TIMES",
}
"""Tables of other values of the protocol."""


@pytest.mark.parametrize("key", ApiKey, ids=lambda key: key.name)
def test_every_key_has_a_declaration_of_its_name(key: ApiKey) -> None:
    known = api(key)
    assert known is not None
    assert (known.key, known.name) == (key, NAMES[key])
    assert known.name.lower() == key.name.replace("_", "").lower()
    assert keys_by_name()[known.name.lower()] == key


def test_keys_are_kafkas() -> None:
    asked = [message for message in facts.kept().messages.values() if message.kind == "request"]
    assert {message.key: message.name for message in asked} == {key: f"{NAMES[key]}Request" for key in ApiKey}


@pytest.mark.turns(1)
@pytest.mark.slow
@pytest.mark.parametrize("floor", ["dissectors", "captures", "kproxy"])
def test_product_code_names_keys_and_codes(floor: str) -> None:
    found = [
        f"{name}:{number}"
        for path in sorted((ROOT / floor).rglob("*.py"))
        if not (name := path.relative_to(ROOT).as_posix()).startswith(OTHER_PROTOCOLS)
        for number in numbered(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "planted",
    [
        "PRODUCE = 0",
        "_JOIN_GROUP, OTHER = 11, 4096",
        "NOT_COORDINATOR: Final = 16",
        "api_key == 3",
        "1 != exchange.api_key",
        "key in (1, 78)",
        "row['error_code'] == 6",
        "response.get('error_code') in {0, 25}",
        "error.code not in frozenset({3, 5})",
        "f(api_key=18)",
        "_RETRIABLE = frozenset({5, 6, 14})",
        "class A:\n    apis = {0, 1}",
        "SUMMARIES: dict[int, str] = {0: '', 1: ''}",
        "match key:\n    case 3 | 75: pass",
    ],
)
def test_a_number_is_seen(planted: str) -> None:
    assert list(numbered(planted))


@pytest.mark.parametrize(
    "allowed",
    [
        "api_key == ApiKey.FETCH",
        "0 <= api_key < 95",
        "error_code == 0",
        "key == -1",
        "MOST = 16",
        "PRODUCE = 4",
        "f(right={1, 2})",
    ],
)
def test_other_numbers_are_not(allowed: str) -> None:
    assert not list(numbered(allowed))


def numbered(source: str) -> Iterator[str]:
    """Yield every place where a number seems to be used as an API key or error code."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef):
            for statement in node.body:
                yield from _assigned(statement)
        elif isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            equal = isinstance(node.ops[0], ast.Eq | ast.NotEq | ast.In | ast.NotIn)
            if equal and any(_is_named(side) for side in sides) and any(_has_number(side) for side in sides):
                yield f"{node.lineno}: {ast.unparse(node)}"
        elif isinstance(node, ast.keyword) and (node.arg or "") in KEYS | CODES and _has_number(node.value):
            yield f"{node.value.lineno}: {node.arg}={ast.unparse(node.value)}"
        elif isinstance(node, ast.Match) and _is_named(node.subject):
            values = [
                each.value
                for case in node.cases
                for each in ast.walk(case.pattern)
                if isinstance(each, ast.MatchValue)
            ]
            yield from (
                f"{value.lineno}: case {ast.unparse(value)}" for value in values if _has_number(value)
            )


def _assigned(statement: ast.stmt) -> Iterator[str]:
    """Constants named as a member of its value, and sets and tables with numbers."""
    if isinstance(statement, ast.Assign):
        target, value = statement.targets[0], statement.value
    elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
        target, value = statement.target, statement.value
    else:
        return
    pairs = (
        zip(target.elts, value.elts, strict=False)
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
        else [(target, value)]
    )
    for each, of in pairs:
        name, number = ast.unparse(each), _number(of)
        known = any(
            kind.__members__.get(name.strip("_")) == number for kind in ENUMERATIONS if number is not None
        )
        if known or (name.strip("_") not in OTHER_TABLES and _is_numbered_table(of)):
            yield f"{statement.lineno}: {name}"


def _is_numbered_table(value: ast.expr) -> bool:
    if isinstance(value, ast.Call) and value.args and ast.unparse(value.func) in ("frozenset", "set"):
        value = value.args[0]
    held = value.elts if isinstance(value, ast.Set) else value.keys if isinstance(value, ast.Dict) else []
    return any((number := _number(each)) is not None and number >= 0 for each in held)


def _is_named(node: ast.expr) -> bool:
    """Return whether an expression is named like an API key or error code: a name, an attribute, a column, a field."""
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "get"
        and node.args
    ):
        node = node.args[0]
    elif isinstance(node, ast.Subscript):
        node = node.slice
    name = getattr(node, "id", None) or getattr(node, "attr", None) or getattr(node, "value", None)
    return isinstance(name, str) and name.strip("_") in KEYS | CODES


def _has_number(node: ast.expr) -> bool:
    """Return whether it is or contains a number other than 0 (no error) and -1 (no key)."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("frozenset", "set"):
        node = node.args[0]
    if isinstance(node, ast.Set | ast.Tuple | ast.List):
        return any(map(_has_number, node.elts))
    return _number(node) not in (None, 0, -1)


def _number(node: ast.expr | None) -> int | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    return node.value if isinstance(node, ast.Constant) and type(node.value) is int else None
