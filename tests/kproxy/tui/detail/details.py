"""Details of exchanges, recorded or built."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from dissectors.annotate import Annotator
from dissectors.apis import api
from dissectors.frames import decode_request, decode_response
from dissectors.headers import (
    SIZE_BYTES,
    RequestHeader,
    ResponseHeader,
    request_header_version,
    response_header_version,
)
from dissectors.session_context import SessionContext
from dissectors.sides import SIDES
from kproxy.tui.detail import Detail, FieldNode, SideDetail, detail_of

FOLDER = Path(__file__).parents[3] / "data" / "captures"


@lru_cache(maxsize=8)
def capture_of(name: str) -> Capture:
    """Return a recorded capture, read."""
    capture = open_capture(str(FOLDER / name))
    capture.read()
    return capture


def recorded(name: str, **options: Any) -> Iterator[tuple[Exchange, Detail]]:
    """Yield the exchanges of a capture with their details."""
    capture = capture_of(name)
    for exchange in ExchangeReader(capture, show_secrets=options.get("show_secrets", False)):
        yield exchange, detail_of(exchange, capture, **options)


def detail_at(name: str, number: int, **options: Any) -> Detail:
    """Return the details of one exchange of a capture."""
    capture = capture_of(name)
    reader = ExchangeReader(capture, show_secrets=options.get("show_secrets", False))
    return detail_of(reader.exchange(number - 1), capture, **options)


def sides(detail: Detail) -> Iterator[SideDetail]:
    """Yield the sides that have a frame."""
    return (detail.of(side) for side in SIDES if detail.of(side).root is not None)


def exchange_of(
    key: int, version: int, request: dict[str, Any], response: dict[str, Any] | None = None, **changes: Any
) -> Exchange:
    """Return an exchange, annotated."""
    known = api(key)
    assert known is not None
    head = {"request_api_key": key, "request_api_version": version, "correlation_id": 7, "client_id": "c"}
    header = RequestHeader[request_header_version(known.request, version)]
    sent = header.build(head) + known.request[version].build(request)
    answered = b""
    if response is not None:
        answered = ResponseHeader[response_header_version(known.response, version)].build(
            {"correlation_id": 7}
        )
        answered += known.response[version].build(response)
    return exchange_from(sent, answered, key, version, **changes)


def exchange_from(sent: bytes, answered: bytes, key: int, version: int, **changes: Any) -> Exchange:
    """Return an exchange with frames that lack size fields; without a response if that is empty."""
    from captures.exchanges.table import Flag

    made = Exchange(
        number=1, row=0, connection=0, client="c:1", broker="b:1", client_id="c", api_key=key, version=version,
        correlation_id=7, time=0, latency=1, request_size=SIZE_BYTES + len(sent),
        response_size=SIZE_BYTES + len(answered) if answered else 0, flag=Flag(0), request=decode_request(sent),
        response=decode_response(answered, key, version) if answered else None,
    )  # fmt: skip
    made.problems += [("request", problem) for problem in made.request.problems] if made.request else []
    annotator = Annotator(SessionContext())
    if made.request is not None:
        annotator.annotate(made.request, "request", made.annotations)
    if made.response is not None:
        annotator.annotate(made.response, "response", made.annotations)
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def node_at(side: SideDetail, path: str) -> FieldNode:
    """Return a node by its path, without the side."""
    return side.nodes[f"{side.side}.{path}"]
