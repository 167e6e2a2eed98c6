"""The values of a field of exchanges, as filters compare them, for display."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from captures.exchanges import Exchange
from captures.filters import binding, bodies, grammar, nodes
from captures.filters.context import NO_CONTEXT, Context
from captures.filters.errors import FilterError
from captures.filters.fields import Kind
from captures.filters.paths import Path, domain_of
from captures.meaning import words

_UNITS: dict[Kind, Callable[[Any], str]] = {
    Kind.DURATION: lambda value: f"{value / 1_000_000:,.3f} ms",
    Kind.SIZE: words.size,
    Kind.BOOL: lambda value: "yes" if value else "no",
}
_MOST_BYTES = 32


class FieldValues:
    """The values of one field.

    :param name: a field of the filter language, or a path: ``response.topics[0].name``
    :raises FilterError: if there is no such field
    :ivar name: as given
    """

    def __init__(self, name: str) -> None:
        tree = grammar.parse(name)
        if not isinstance(tree, nodes.FieldPresent):
            raise FilterError("this is not the name of a field", name, 0, max(len(name), 1))
        self.name = name
        field = binding.field_named(tree.name.text)
        self._values = bodies.compile_values(field)
        self._shown = _shown(field)

    def of(self, exchange: Exchange, context: Context = NO_CONTEXT) -> list[Any]:
        """Return the values; none if the exchange has none."""
        return self._values(exchange, context)

    def texts(self, exchange: Exchange, context: Context = NO_CONTEXT) -> list[str]:
        """Return the values formatted for people, each once. Texts from the wire are unchanged."""
        return list(dict.fromkeys(map(self._shown, self._values(exchange, context))))


def _shown(field: Any) -> Callable[[Any], str]:
    names: dict[Any, str] = {}
    if isinstance(field, Path):
        for leaf in field.leaves:
            domain = domain_of(leaf)
            names |= {} if domain is None else domain.values
        unit = None
    else:
        names = dict(field.domain.values) if field.domain is not None else {}
        unit = _UNITS.get(field.kind)

    def show(value: Any) -> str:
        if not isinstance(value, list | dict) and value in names:
            return names[value]
        if unit is not None:
            return unit(value)
        if isinstance(value, bytes):
            return _bytes(value)
        if isinstance(value, list | tuple | dict):
            return f"({len(value)})"
        return str(value).lower() if isinstance(value, bool) else str(value)

    return show


def _bytes(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value[:_MOST_BYTES].hex(" ")
