"""A message as a Python script that builds it again with kproxy's dissectors, byte for byte.

The script has header and body as literals. When run, it prints the frame; given a broker, it sends a request there and
shows the answer. A message that the dissectors would encode differently than its sender (a length in more bytes than
necessary, a layout of an old release, data after the message) is included as bytes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

import construct

from captures.exchanges import Exchange
from dissectors.errors import DecodeError
from dissectors.frames import Body, decode_request, decode_response
from dissectors.headers import (
    SIZE_BYTES,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from dissectors.sides import Side
from kproxy.copy_as.frames import complete_frame
from kproxy.copy_as.request import CannotCopyError

_WIDTH = 100
_BYTES_PER_LINE = 24
_NOT_BUILT = (
    construct.ConstructError,
    DecodeError,
    TypeError,
    ValueError,
    KeyError,
    AttributeError,
    OverflowError,
)


def script(exchange: Exchange, side: Side, *, show_secrets: bool) -> str:
    """Return the script of a request or response.

    :raises CannotCopyError: if some of its bytes are secret or missing, or if it is not a Kafka message
    """
    frame = complete_frame(exchange, side, show_secrets=show_secrets)
    payload = frame.data[SIZE_BYTES:]
    body = exchange.body(side)
    if body is None:
        raise CannotCopyError("SASL tokens are not Kafka messages: copy their bytes as hex")
    # decode again: in the exchange, records were replaced for display
    decoded = decode_request(payload) if side == "request" else decode_response(payload, body.key, body.asked)
    lines = [*_opening(exchange, side), *_message(decoded, side, payload), *_FRAME]
    lines += _sending(exchange) if side == "request" else _PRINTING
    return "".join(f"{line}\n" for line in lines)


def _opening(exchange: Exchange, side: Side) -> Iterator[str]:
    yield "#!/usr/bin/env python3"
    yield f'"""{exchange.title}, the {side} of exchange {exchange.number}, built by the dissectors of kproxy.'
    yield ""
    if side == "request":
        yield "Prints the frame; with HOST:PORT of a broker as argument, sends it there in plain TCP, without"
        yield "authentication, and shows the answer."
    else:
        yield "Prints the frame."
    yield '"""'
    yield ""
    if side == "request":
        yield "import sys"
        yield ""


# ---------------------------------------------------------------- the message
def _message(body: Body, side: Side, payload: bytes) -> Iterator[str]:
    made = _built(body, side)
    if made == payload:
        yield from _literals(body, side)
        return
    reason = "it could not be decoded" if made is None else "the dissectors would build it in other bytes"
    yield f"# the message as bytes, since {reason}"
    yield f"PAYLOAD = {_literal(payload)}"


def _built(body: Body, side: Side) -> bytes | None:
    """Return the bytes that the script would build from literals, None if it could not."""
    layout = body.message(response=side == "response")
    if layout is None or body.value is None or body.problems:
        return None
    header, version = _header(body, side)
    # infinity and not-a-number have no literals
    try:
        values = ast.literal_eval(repr((body.header, body.value)))
        return bytes(header[version].build(values[0])) + bytes(
            layout.message[layout.version].build(values[1])
        )
    except _NOT_BUILT:
        return None


def _header(body: Body, side: Side) -> tuple[Any, int]:
    layout = body.message(response=side == "response")
    assert layout is not None, "what was decoded was decoded with a layout"
    if side == "request":
        return RequestHeader, request_header_version(layout.message, layout.version)
    return ResponseHeader, response_header_version(layout.message, layout.version)


def _literals(body: Body, side: Side) -> Iterator[str]:
    header, version = _header(body, side)
    yield "from dissectors.apis import api"
    yield f"from dissectors.headers import {header.name}"
    yield ""
    yield f"HEADER = {_literal(body.header)}"
    yield f"BODY = {_literal(body.value)}"
    yield (
        f"PAYLOAD = {header.name}[{version}].build(HEADER) + api({body.key}).{side}[{body.version}].build(BODY)"
    )


_FRAME = ('FRAME = len(PAYLOAD).to_bytes(4, "big") + PAYLOAD', "")

_PRINTING = ("print(FRAME.hex())",)


def _sending(exchange: Exchange) -> Iterator[str]:
    one_way = exchange.request is not None and _no_answer(exchange.request)
    yield "if len(sys.argv) == 1:"
    yield "    print(FRAME.hex())"
    yield "else:"
    yield "    import socket"
    yield ""
    if not one_way:
        yield "    from dissectors.frames import decode_response"
        yield ""
    yield '    host, _, port = sys.argv[1].rpartition(":")'
    yield '    with socket.create_connection((host.strip("[]"), int(port)), timeout=60) as broker:'
    yield "        broker.sendall(FRAME)"
    if one_way:
        yield "    # acks=0: no answer comes"
        return
    yield '        with broker.makefile("rb") as stream:'
    yield '            answer = stream.read(int.from_bytes(stream.read(4), "big"))'
    yield f"    print(decode_response(answer, {exchange.api_key}, {exchange.version}).value)"


def _no_answer(body: Body) -> bool:
    return body.key == 0 and body.value is not None and body.value.get("acks") == 0


# ---------------------------------------------------------------- literals
def _literal(value: Any) -> str:
    return "\n".join(_written(value, 0))


def _written(value: Any, indent: int) -> list[str]:
    """Return the lines of a literal; the first without its indentation."""
    if isinstance(value, bytes):
        return _bytes_lines(value, indent)
    if not isinstance(value, dict | list | tuple) or not value:
        return [repr(value)]
    if _is_flat(value):
        line = repr(value)
        if indent + len(line) <= _WIDTH:
            return [line]
    pad = " " * (indent + 4)
    is_dict = isinstance(value, dict)
    lines = ["{" if is_dict else "["]
    items = value.items() if isinstance(value, dict) else ((None, item) for item in value)
    for name, item in items:
        inner = _written(item, indent + 4)
        inner[0] = f"{pad}{repr(name) + ': ' if is_dict else ''}{inner[0]}"
        inner[-1] += ","
        lines += inner
    lines.append(f"{' ' * indent}{'}' if is_dict else ']'}")
    return lines


def _is_flat(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return all(not isinstance(item, dict | list | tuple) and not _is_long(item) for item in items)


def _is_long(value: Any) -> bool:
    return isinstance(value, str | bytes) and len(value) > _WIDTH


def _bytes_lines(value: bytes, indent: int) -> list[str]:
    if len(value) <= _BYTES_PER_LINE:
        return [repr(value)]
    pad = " " * (indent + 4)
    parts = (value[at : at + _BYTES_PER_LINE] for at in range(0, len(value), _BYTES_PER_LINE))
    return ["(", *(f"{pad}{part!r}" for part in parts), f"{' ' * indent})"]
