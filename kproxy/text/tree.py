"""Trees as text: decoded bodies (``read -V``) and traced frames with byte ranges (``read --exchange N``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from captures.exchanges import Exchange
from captures.interventions import BrokerLog
from captures.meaning import words
from captures.time_format import latency
from dissectors.budget import limit, shown
from dissectors.frames import Body, trace_body
from dissectors.masks import Masks
from dissectors.records import DECOMPRESSED
from dissectors.sides import Side
from dissectors.trace import Node
from kproxy.output import style
from kproxy.text.interventions import Changes
from kproxy.text.values import advice_on, has_parts, parts_of, short

INDENT = "  "


def exchange_tree(exchange: Exchange) -> Iterator[str]:
    """Yield the lines of the comment and of both decoded bodies."""
    yield from comment_lines(exchange)
    sides: tuple[tuple[Side, Body | None, bytes | None], ...] = (
        ("request", exchange.request, exchange.tokens[0]),
        ("response", exchange.response, exchange.tokens[1]),
    )
    for side, body, token in sides:
        changes = Changes(exchange, side, short)
        if body is not None:
            yield f"{INDENT}{style(side, bold=True)}{_about(body)}"
            known = _KnownValues(exchange.annotations.decoded, Masks(exchange.annotations.masked), changes)
            yield from _bounded(_values(body.value, side, 2, known), INDENT * 2)
        elif token is not None:
            yield f"{INDENT}{side}  SASL token, {len(token)} bytes"
            masks = Masks(exchange.annotations.masked)
            path = f"{side}.token"
            yield from _inner(exchange.annotations.decoded.get(path), path, 2, masks)
        for line in changes.lines():
            yield f"{INDENT * 2}{line}"
    for line in problem_lines(exchange):
        yield style(f"{INDENT}{line}", fg="magenta")


def _bounded(lines: Iterator[str], pad: str) -> Iterator[str]:
    """Yield lines of one message, as many as its limit allows."""
    yield from islice(lines, limit("shown_fields"))
    if next(lines, None) is not None:
        yield f"{pad}… more fields than the limit {shown('shown_fields')}; --json has all"


def comment_lines(exchange: Exchange) -> Iterator[str]:
    """Yield what the broker has measured, and the comment on the exchange."""
    if exchange.broker_log is not None:
        yield f"{INDENT}in the broker: {broker_times(exchange.broker_log)}"
    for line in exchange.note.comment.splitlines():
        yield f"{INDENT}# {words.line(line)}"


def broker_times(logged: BrokerLog) -> str:
    """Return the times that the broker has measured, without those that are zero."""
    times = ((name.replace("_", " "), getattr(logged, name)) for name in BrokerLog.TIMES)
    return ", ".join(f"{name} {latency(time)}" for name, time in times if time) or "no time"


def problem_lines(exchange: Exchange) -> Iterator[str]:
    """Yield what could not be decoded: side, byte, field, reason."""
    for side, problem in exchange.problems + exchange.annotations.problems:
        at = f"byte {problem.offset}: " if problem.offset >= 0 else ""
        where = f"{problem.path}: " if problem.path else ""
        yield f"! {side}: {at}{where}{problem.reason}"


def _about(body: Body) -> str:
    return f"  ({body.guess})" if body.guess else ""


class _KnownValues(NamedTuple):
    """Facts about fields, by path."""

    decoded: Mapping[str, Any]
    masks: Masks
    changes: Changes | None = None

    def beside(self, path: str) -> str:
        """Return the text about kproxy's change of a value."""
        return "" if self.changes is None else self.changes.beside(path)


def _values(value: Any, path: str, depth: int, known: _KnownValues) -> Iterator[str]:
    pad = INDENT * depth
    if isinstance(value, dict):
        for name, item in value.items():
            yield from _value(f"{pad}{name}", item, f"{path}.{name}", depth, known)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _value(f"{pad}[{index}]", item, f"{path}[{index}]", depth, known)


def _value(head: str, value: Any, path: str, depth: int, known: _KnownValues) -> Iterator[str]:
    decoded = known.decoded.get(path)
    note = f"  {short(decoded)}" if decoded is not None and not isinstance(decoded, dict | list) else ""
    note = f"{known.beside(path)}{note}"
    if path in known.masks:
        yield f"{head} (masked)"
    elif isinstance(value, dict) and value:
        yield f"{head}{note}"
        yield from _values(value, path, depth + 1, known)
    elif isinstance(value, list | tuple) and value and isinstance(value[0], dict | list):
        yield f"{head} ({len(value)}){note}"
        yield from _values(value, path, depth + 1, known)
    else:
        yield f"{head} {short(value)}{note}"
    if isinstance(decoded, dict | list):
        yield from _inner(decoded, path, depth + 1, known.masks)


def _inner(value: Any, path: str, depth: int, masks: Masks) -> Iterator[str]:
    """Yield what is known beyond the schema, marked by ``=``."""
    pad = INDENT * depth
    for name, item in parts_of(value):
        here = f"{path}{name}" if name[:1] == "[" else f"{path}.{name}"
        if here in masks:
            yield f"{pad}= {name} (masked)"
        elif has_parts(item):
            yield f"{pad}= {name}"
            yield from _inner(item, here, depth + 1, masks)
        else:
            yield f"{pad}= {name} {short(item)}"


def traced_exchange(exchange: Exchange) -> Iterator[str]:
    """Yield the lines of the comment and of both frames, traced."""
    yield from comment_lines(exchange)
    masks = Masks(exchange.annotations.masked)
    sides: tuple[tuple[Side, Body | None], ...] = (
        ("request", exchange.request),
        ("response", exchange.response),
    )
    for side, body in sides:
        if body is not None:
            yield ""
            changes = Changes(exchange, side, short)
            yield from traced_frame(body, side, exchange.annotations.decoded, masks=masks, changes=changes)


def traced_frame(
    body: Body,
    side: str,
    decoded: Mapping[str, Any],
    *,
    masks: Masks,
    changes: Changes | None = None,
) -> Iterator[str]:
    """Yield the lines of a traced frame: byte range, field, type, value, and the field's meaning.

    :param changes: kproxy's changes of the values
    """
    root = trace_body(body, response=side == "response", records=True)
    yield f"{side}: {root.end} bytes{_about(body)}"
    width = len(str(root.end))
    known = _KnownValues(decoded, masks, changes)
    named = (
        (child, side if child.name == "body" else f"{side}.{child.name}") for child in root.children or ()
    )
    lines = (line for child, path in named for line in _traced(child, 1, width, path, known))
    yield from _bounded(lines, f"{'':>{2 * width + 1}}  ")
    for line in changes.lines() if changes is not None else ():
        yield f"{'':>{2 * width + 1}}  {line}"


def _traced(
    node: Node, depth: int, width: int, path: str, known: _KnownValues, *, hidden: bool = False
) -> Iterator[str]:
    # if some records are secret, raw bytes may be their compressed or undecodable form
    hidden = hidden or path in known.masks or (node.kind == "records" and known.masks.within(path))
    position = (
        f"{node.start:>{width}}-{node.end - 1:>{width}}"
        if node.end > node.start
        else f"{node.start:>{width}} {'':>{width}}"
    )
    if node.kind == DECOMPRESSED:
        position = f"{'~':>{width}}{node.start}-{node.end - 1}".ljust(2 * width + 1)
    if node.end < 0:
        position = f"{node.start:>{width}}-{'?':>{width}}"
    name = f"[{node.name}]" if isinstance(node.name, int) else node.name
    value = ""
    if node.children is None:
        secret = path in known.masks or known.masks.within(path)
        secret = secret or (hidden and isinstance(node.value, bytes | str))
        value = " (masked)" if secret else f" {short(node.value)}"
    elif node.kind == "array":
        value = f" ({len(node.children)})"
    value += known.beside(path)
    decoded = known.decoded.get(path)
    note = f" {short(decoded)}" if decoded is not None and not isinstance(decoded, dict | list) else ""
    meaning = f"   — {node.field.doc}" if node.field is not None and node.field.doc else ""
    kind = f"  {node.kind}" if node.kind and node.kind != DECOMPRESSED else ""
    yield f"{position}  {INDENT * depth}{name}{kind}{value}{note}{meaning}"
    advice = advice_on(node.field, node.value)
    if advice:
        yield f"{'':>{2 * width + 1}}  {INDENT * (depth + 1)}= {advice}"
    for child in node.children or ():
        yield from _traced(child, depth + 1, width, node.path_of(child, path), known, hidden=hidden)
    if isinstance(decoded, dict | list):
        for line in _inner(decoded, path, depth + 1, known.masks):
            yield f"{'':>{2 * width + 1}}  {line}"
