"""Formats for copying one field: its value, its path, and a filter for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from captures.exchanges import Exchange
from captures.filters import Context as FilterContext
from dissectors.printable import is_printable, printable_json
from kproxy.copy_as import CannotCopyError, Context, Format
from kproxy.tui.detail.nodes import FieldNode
from kproxy.tui.quick_filters import of_field

_Maker = Callable[[Sequence[Exchange], Context], str]


def field_formats(field: FieldNode) -> list[Format]:
    """Return the formats of a field, for a menu; a masked value has none."""
    made: list[tuple[str, str, _Maker]] = []
    if field.leaf and not field.masked:
        made.append(("field-value", "value of the field", partial(_value, field)))
    made.append(("field-path", "path of the field", lambda _, __: f"{field.path}\n"))
    if field.leaf and not field.masked:
        made.append(("field-filter", "filter for the field", partial(_filter, field)))
    return [Format(name, title, ".txt", make) for name, title, make in made]


def _value(field: FieldNode, _exchanges: Sequence[Exchange], _context: Context) -> str:
    value: Any = field.value
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        try:
            return f"{_harmless(data.decode())}\n"
        except UnicodeDecodeError:
            return f"{data.hex()}\n"
    if value is None or isinstance(value, bool):
        return f"{json.dumps(value)}\n"
    return f"{_harmless(value) if isinstance(value, str) else value}\n"


def _harmless(text: str) -> str:
    """Return a text, as JSON if pasting it could drive a terminal."""
    if all(map(is_printable, text.replace("\t", " ").split("\n"))):
        return text
    return printable_json(json.dumps(text, ensure_ascii=False))


def _filter(field: FieldNode, exchanges: Sequence[Exchange], context: Context) -> str:
    knowledge = FilterContext()
    offer = next(of_field(field.path, field.value, exchanges[0], knowledge), None)
    if offer is None:
        raise CannotCopyError("no filter can be made of this field")
    return f"{offer.text}\n"
