"""Types of what ``to_json`` returns, read from its source and from the annotations of what it uses.

A method or function that returns a display of a dictionary, such as ``{"exchange": self.number, "sent":
rfc3339(self.sent)}``, says all there is to know of its JSON object: the keys stand there, and what the values are
follows from the annotations of attributes, properties and functions. Nothing is run and nothing is guessed: an
expression that cannot be followed raises :exc:`UnknownError`, and its shape has to be declared otherwise
(:mod:`docs.tools.json_schemas`).

A type is an annotation (``int``, ``str | None``, ``list[str]``, an enumeration), or one of the classes below where
annotations say too little.
"""

from __future__ import annotations

import ast
import builtins
import collections.abc
import importlib
import inspect
import sys
import textwrap
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints


class UnknownError(Exception):
    """What an expression makes does not follow from annotations."""


@dataclass(frozen=True)
class Time:
    """A string: RFC 3339 in UTC with nanoseconds."""


@dataclass(frozen=True)
class Object:
    """An object whose keys are known, in their order."""

    keys: Mapping[str, Any]


@dataclass(frozen=True)
class Many:
    """An array."""

    element: Any


@dataclass(frozen=True)
class Map:
    """An object whose keys are values: names, versions, member IDs."""

    value: Any


@dataclass(frozen=True)
class Either:
    """One of several types; ``None`` among them is null."""

    types: tuple[Any, ...]


@dataclass(frozen=True)
class Shape:
    """What the ``to_json`` of a class returns."""

    made_by: type


def either(*found: Any) -> Any:
    """Return the type of what is one of these, each once."""
    flat: list[Any] = []
    for each in found:
        for one in members(each):
            if one not in flat:
                flat.append(one)
    return flat[0] if len(flat) == 1 else Either(tuple(flat))


def members(found: Any) -> tuple[Any, ...]:
    """Return the types of which a value has one; of most, it is itself."""
    if isinstance(found, Either):
        return found.types
    if get_origin(found) in (Union, types.UnionType):
        return tuple(None if each is type(None) else each for each in get_args(found))
    return (None,) if found is type(None) else (found,)


def some(found: Any) -> Any:
    """Return a type without null."""
    left = [each for each in members(found) if each is not None]
    if not left:
        raise UnknownError("always null")
    return either(*left)


def returned(function: Callable[..., Any], owner: type | None = None) -> Any:
    """Return the type of what a function returns, by the last ``return`` in its source.

    :param owner: the class whose method it is
    :raises UnknownError: if its expressions cannot be followed
    """
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(tree, ast.FunctionDef):
        raise UnknownError(f"{function.__qualname__} is no function")
    module = _names(function.__module__)
    known = {name: hint for name, hint in _hints(function).items() if name != "return"}
    if owner is not None:
        known["self"] = owner
    scope = _Scope(module, known)
    for statement in tree.body:
        if isinstance(statement, ast.ImportFrom) and statement.module is not None:
            module |= _imported(statement)
        elif isinstance(statement, ast.Assign):
            for target in statement.targets:
                scope.bind(target, statement.value)
        elif isinstance(statement, ast.Return) and statement.value is not None:
            return scope.of(statement.value)
    raise UnknownError(f"{function.__qualname__} returns nothing that can be followed")


def shape_of(made_by: type) -> Any:
    """Return the type of what the ``to_json`` of a class returns."""
    return returned(made_by.to_json, made_by)  # type: ignore[attr-defined]


def _hints(annotated: Any) -> dict[str, Any]:
    """Return the annotations of a function, or of a class and what its constructor assigns."""
    if not isinstance(annotated, type):
        return get_type_hints(annotated, _names(annotated.__module__))
    hints: dict[str, Any] = {}
    for each in reversed(annotated.__mro__):
        if each.__module__ != "builtins":
            hints |= get_type_hints(each, _names(each.__module__))
            hints |= _assigned(each)
    return hints


def _assigned(owner: type) -> dict[str, Any]:
    """Return the types of attributes that a constructor takes from its parameters, or annotates."""
    made = vars(owner).get("__init__")
    if not inspect.isfunction(made) or made.__code__.co_filename == "<string>":
        return {}  # none, or one that dataclasses wrote
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(made))).body
    names, hints = _names(owner.__module__), _hints(made)
    found: dict[str, Any] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Attribute):
            found[node.target.attr] = eval(ast.unparse(node.annotation), dict(names))
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in hints:
            found |= {
                each.attr: hints[node.value.id] for each in node.targets if isinstance(each, ast.Attribute)
            }
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
            for each in node.targets:
                if isinstance(each, ast.Attribute):
                    found[each.attr] = type(node.value.value)
    return found


def _names(module: str) -> dict[str, Any]:
    """Return the names in a module, with those that it imports for annotations only."""
    loaded = sys.modules[module]
    names = dict(vars(loaded))
    if "TYPE_CHECKING" not in names:
        return names
    for node in ast.parse(inspect.getsource(loaded)).body:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            for each in node.body:
                if isinstance(each, ast.ImportFrom):
                    names |= _imported(each)
    return names


def _imported(statement: ast.ImportFrom) -> dict[str, Any]:
    module = importlib.import_module(str(statement.module))
    return {each.asname or each.name: getattr(module, each.name) for each in statement.names}


_PASSED_ON = ("sorted", "list", "tuple", "set", "iter")
_OF_BUILTINS = {
    "len": int,
    "round": int,
    "sum": int,
    "max": int,
    "min": int,
    "any": bool,
    "all": bool,
    "str": str,
}


class _Scope:
    """The names that an expression sees, and what is followed through it."""

    def __init__(self, module: dict[str, Any], known: dict[str, Any]) -> None:
        self.module = module
        self.known = known

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        """Take the types of what is assigned."""
        if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
            for each, part in zip(target.elts, value.elts, strict=True):
                self.bind(each, part)
        elif isinstance(target, ast.Name):
            self.known[target.id] = self.of(value)

    def of(self, node: ast.expr) -> Any:
        """Return the type of an expression.

        :raises UnknownError: if it cannot be followed
        """
        follow = getattr(self, f"_{type(node).__name__.lower()}", None)
        if follow is None:
            raise UnknownError(f"{ast.unparse(node)!r} cannot be followed")
        return follow(node)

    # ------------------------------------------------------------ what has a type by itself
    def _constant(self, node: ast.Constant) -> Any:
        if isinstance(node.value, str):
            return Literal[node.value]
        return None if node.value is None else type(node.value)

    def _joinedstr(self, node: ast.JoinedStr) -> Any:
        return str

    def _compare(self, node: ast.Compare) -> Any:
        return bool

    def _unaryop(self, node: ast.UnaryOp) -> Any:
        return bool if isinstance(node.op, ast.Not) else self.of(node.operand)

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.known:
            return self.known[node.id]
        if node.id in self.module:
            return self.module[node.id]
        return getattr(builtins, node.id)

    def _attribute(self, node: ast.Attribute) -> Any:
        owner = some(self.of(node.value))
        if isinstance(owner, types.ModuleType):
            return getattr(owner, node.attr)
        return _attribute_of(owner, node.attr)

    def _subscript(self, node: ast.Subscript) -> Any:
        owner = some(self.of(node.value))
        if (
            get_origin(owner) is tuple
            and isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
            and Ellipsis not in get_args(owner)
        ):
            return get_args(owner)[node.slice.value]
        return _elements(owner)

    # ------------------------------------------------------------ operators
    def _ifexp(self, node: ast.IfExp) -> Any:
        return either(self.of(node.body), self.of(node.orelse))

    def _boolop(self, node: ast.BoolOp) -> Any:
        *before, last = [self.of(value) for value in node.values]
        if isinstance(node.op, ast.Or):
            return either(*(some(each) for each in before), last)
        return either(*before, last)

    def _binop(self, node: ast.BinOp) -> Any:
        left, right = self.of(node.left), self.of(node.right)
        if isinstance(node.op, ast.BitOr):
            return Object({**_keys(left), **_keys(right)})
        return float if float in (left, right) else left

    # ------------------------------------------------------------ displays
    def _dict(self, node: ast.Dict) -> Any:
        keys: dict[str, Any] = {}
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                keys |= _keys(self.of(value))
            elif isinstance(key, ast.Constant) and isinstance(key.value, str):
                keys[key.value] = self.of(value)
            else:
                raise UnknownError(f"{ast.unparse(key)!r} is no key that is known")
        return Object(keys)

    def _list(self, node: ast.List | ast.Tuple) -> Any:
        return Many(either(*(self.of(each) for each in node.elts)))

    def _listcomp(self, node: ast.ListComp | ast.GeneratorExp) -> Any:
        return Many(self._within(node.generators).of(node.elt))

    _generatorexp = _listcomp
    _tuple = _list

    def _dictcomp(self, node: ast.DictComp) -> Any:
        return Map(self._within(node.generators).of(node.value))

    def _within(self, generators: list[ast.comprehension]) -> _Scope:
        scope = _Scope(self.module, dict(self.known))
        for each in generators:
            scope.take(each.target, scope.elements_of(each.iter))
            for condition in each.ifs:
                for inner in ast.walk(condition):
                    if isinstance(inner, ast.NamedExpr):
                        scope.bind(inner.target, inner.value)
        return scope

    def take(self, target: ast.expr, found: Any) -> None:
        """Bind the names of a target of ``for``."""
        if isinstance(target, ast.Name):
            self.known[target.id] = found
        elif isinstance(target, ast.Tuple):
            hints = _hints(found) if hasattr(found, "_fields") else {}
            parts = tuple(hints.values()) if hints else get_args(found)
            if len(parts) == 2 and parts[1] is Ellipsis:
                parts = (parts[0],) * len(target.elts)
            for each, part in zip(target.elts, parts, strict=True):
                self.take(each, part)

    def elements_of(self, node: ast.expr) -> Any:
        """Return the type of what iterating gives."""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            owner = some(self.of(node.func.value))
            pair = get_args(owner)
            if node.func.attr == "items" and len(pair) == 1:
                return tuple[pair[0], int]  # type: ignore[valid-type]  # a Counter
            if len(pair) == 2 and node.func.attr in ("items", "keys", "values"):
                made = {"items": tuple[pair[0], pair[1]], "keys": pair[0], "values": pair[1]}  # type: ignore[valid-type]
                return made[node.func.attr]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _PASSED_ON:
            return self.elements_of(node.args[0])
        return _elements(some(self.of(node)))

    # ------------------------------------------------------------ calls
    def _call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Name) and node.func.id in _PASSED_ON and node.args:
            return Many(self.elements_of(node.args[0]))
        if isinstance(node.func, ast.Name) and node.func.id == "dict":
            return self.of(node.args[0])
        if isinstance(node.func, ast.Name) and node.func.id == "round" and len(node.args) == 2:
            return float
        if isinstance(node.func, ast.Name) and node.func.id in _OF_BUILTINS:
            return _OF_BUILTINS[node.func.id]
        if isinstance(node.func, ast.Name) and node.func.id == "next" and len(node.args) == 2:
            return either(self.elements_of(node.args[0]), self.of(node.args[1]))
        if isinstance(node.func, ast.Attribute):
            called = self._method(node.func)
            if called is not None:
                return called
        return self._function(self.of(node.func), node)

    def _method(self, node: ast.Attribute) -> Any:
        owner = self.of(node.value)
        if node.attr == "to_json":
            return Shape(some(owner))
        if some(owner) is str or get_origin(some(owner)) is Literal:
            return str
        return None

    def _function(self, function: Any, node: ast.Call) -> Any:
        if not callable(function):
            return function  # the return annotation of a method
        if function.__name__ in ("rfc3339", "_moment"):
            return Time() if function.__name__ == "rfc3339" else Either((Time(), None))
        if function.__name__ == "json_of":
            return either(*(None if each is None else Shape(each) for each in members(self.of(node.args[0]))))
        if isinstance(function, type):
            return function
        hint = _hints(function)["return"]
        if any(get_origin(each) is dict for each in members(hint)):
            return returned(function)
        return hint


def _attribute_of(owner: Any, name: str) -> Any:
    found = getattr(owner, name, None)
    if isinstance(found, property):
        return _hints(found.fget)["return"]
    if isinstance(found, cached_property):
        return _hints(found.func)["return"]
    hints = _hints(owner) if isinstance(owner, type) else {}
    if name in hints:
        return hints[name]
    if name == "value" and isinstance(owner, type):
        return owner
    if name == "name":
        return str
    if inspect.isfunction(found):
        return _hints(found)["return"]
    raise UnknownError(f"{owner} has no annotation of {name}")


def _elements(owner: Any) -> Any:
    if isinstance(owner, Many):
        return owner.element
    origin, found = get_origin(owner), get_args(owner)
    if isinstance(origin, type) and issubclass(origin, collections.abc.Mapping):
        return found[-1]
    if origin is not None and found:
        return found[0]
    raise UnknownError(f"what is in {owner} is not annotated")


def _keys(found: Any) -> Mapping[str, Any]:
    if isinstance(found, Shape):
        found = shape_of(found.made_by)
    if isinstance(found, Object):
        return found.keys
    raise UnknownError(f"{found} is no object of known keys")


__all__ = [
    "Either",
    "Many",
    "Map",
    "Object",
    "Shape",
    "Time",
    "UnknownError",
    "either",
    "members",
    "returned",
    "shape_of",
    "some",
]
