"""Names of fields in filters and columns."""

from __future__ import annotations

import re

from captures.filters.lexer import NAME
from captures.filters.paths import UnknownStepError, find
from kproxy.tui.detail.nodes import FieldNode, Role

_ELEMENT = re.compile(r"\[\d+\]")
_IN_HEADER = re.compile(r"(request|response)\.header\.\w+")
_HEADER = {
    "request_api_key": "api",
    "request_api_version": "version",
    "correlation_id": "correlation_id",
    "client_id": "client_id",
}
"""Filter names of header fields."""


def filter_field(node: FieldNode) -> str | None:
    """Return a field's name in filters and columns, without array indexes; None if it has none."""
    if node.role not in (Role.FIELD, Role.INNER) or node.kind == "frame":
        return None
    if _IN_HEADER.fullmatch(node.path):
        return _HEADER.get(node.name)
    path = _ELEMENT.sub("", node.path)
    if "." not in path or NAME.fullmatch(path) is None:
        return None
    try:
        find(path)
    except UnknownStepError:
        return None
    return path
