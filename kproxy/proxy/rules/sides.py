"""Whether a filter is about requests or about responses on their way, and what a proxy can tell of neither.

A filter is made for whole exchanges. Of a request on its way there is no latency yet and no error; of no frame on its
way there is a number in the capture, a mark or a comment. Topics and the like are in requests and in responses: they
are looked for in requests, unless the filter asks for something else that only a response tells, or it is said.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from captures.filters import FilterError
from captures.filters.fields import BY_NAME
from captures.filters.grammar import And, Bare, Compare, Exists, Name, Node, Not, OneOf, Or, Selector
from kproxy.proxy.verdicts import Side

IN_REQUESTS = frozenset({
    "time", "api", "api.key", "version", "client_id", "client", "client.host", "client.port", "broker", "broker.host",
    "broker.port", "connection", "correlation_id", "request", "request.size", "no_response", "guess", "problem",
    "topic", "partition", "topic_partition", "group", "member", "transactional_id", "producer_id", "acks", "codec",
    "records", "batches", "records.size", "key", "value", "header", "header.value",
})  # fmt: skip
"""Fields that a request tells."""

IN_RESPONSES = frozenset({
    "latency", "excess", "wait", "waited", "response", "response.size", "size", "error", "error.any", "error.message",
    "expected", "throttle",
})  # fmt: skip
"""Fields that only a response tells, or only both together."""


_WRITTEN = re.compile(r"[~@]?[\w.\[\],-]+")


def side_of(node: Node, text: str, stated: Side | None) -> Side:
    """Return whether a filter looks at requests or at responses.

    :param text: the filter, for errors
    :param stated: what was said about it
    :raises FilterError: if it asks for what a frame on its way does not tell
    """
    side = stated or "request"
    for name in _names(node):
        if isinstance(name, Selector):
            raise _error(f"@{name.text} is about a capture, not about a frame on its way", name, text)
        if not _asks_for_response(name, text):
            continue
        if stated == "request":
            message = f"no request tells {name.text}"
            raise _error(message, name, text, "leave out request:, or say response:")
        side = "response"
    return side


def _asks_for_response(name: Name, text: str) -> bool:
    field = BY_NAME.get(name.text)
    if field is None:
        # a path into a body, header.<name>, or nothing at all, which the filter language refuses itself
        return name.text.startswith("response.")
    if field.name not in IN_REQUESTS | IN_RESPONSES:
        message = f"{name.text} is about a capture, not about a frame on its way"
        raise _error(message, name, text)
    return field.name in IN_RESPONSES


def _error(message: str, name: Name | Selector, text: str, hint: str = "") -> FilterError:
    # the field or selector as written, or the short form that stands for it
    found = _WRITTEN.match(text, name.position)
    return FilterError(message, text, name.position, len(found[0]) if found else 0, hint)


def _names(node: Node) -> Iterator[Name | Selector]:
    match node:
        case Compare(name) | OneOf(name) | Bare(name) | Exists(name):
            yield name
        case Selector():
            yield node
        case Not(item):
            yield from _names(item)
        case And(items) | Or(items):
            for item in items:
                yield from _names(item)
