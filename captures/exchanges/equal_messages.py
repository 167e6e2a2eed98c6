"""Messages that clients and brokers send again and again, decoded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from dissectors.api_keys import ApiKey
from dissectors.frames import Body, decode_request, decode_response
from dissectors.sides import Side

T = TypeVar("T")

ID_AT: dict[Side, int] = {"request": 4, "response": 0}
"""Offset of the correlation ID in a message without its size field."""
_ID_SIZE = 4
_MOST_BYTES = 1 << 18
"""Most bytes of all messages that are kept; decoded they take up to a hundred times as much memory."""
_OVERHEAD = 64
"""Bytes that each message counts besides its own: short ones take more memory, empty ones some."""
_LONGEST = 1 << 15
"""Most bytes of one: about the metadata of a thousand partitions."""


class BodyMemo(Generic[T]):
    """Calls a function once for the value that equal messages share, and returns the same result for all of them.

    What it keeps is bounded as in :class:`EqualMessages`: a longer message shares its value with no other.

    :param function: gets the fields of a body, which must not be changed later
    """

    def __init__(self, function: Callable[[Mapping[str, Any]], T]) -> None:
        self._function = function
        self._known: dict[int, tuple[Mapping[str, Any], T]] = {}
        self._size = 0

    def __call__(self, body: Body) -> T:
        value, size = body.value or {}, len(body.raw) + _OVERHEAD
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        result = self._function(value)
        if len(body.raw) <= _LONGEST:
            self._size += size
            if self._size > _MOST_BYTES:
                self._known.clear()
                self._size = size
            self._known[id(value)] = value, result
        return result

    def __reduce__(self) -> tuple[type[BodyMemo[T]], tuple[Callable[[Mapping[str, Any]], T]]]:
        return BodyMemo, (self._function,)  # values have other IDs in another process


def content(payload: bytes, side: Side) -> bytes:
    """Return a message without its correlation ID: equal ones have equal bodies."""
    at = ID_AT[side]
    return payload[:at] + payload[at + _ID_SIZE :]


class EqualMessages:
    """Decodes messages; those that differ only in the correlation ID share their values, which must not be changed.

    Clients ask for versions and metadata whenever they connect, and brokers answer all of them alike. Heartbeats, empty
    Fetch responses and acknowledgements without an error are repeated all the time.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, bytes], Body] = {}
        self._size = 0

    def request(self, payload: bytes, key: int | None, *, complete: bool) -> Body:
        """Decode a request (:func:`~dissectors.frames.decode_request`).

        :param key: its API key; Produce requests, whose records differ, are not compared
        """
        if key == ApiKey.PRODUCE or not complete or not _comparable(payload, "request"):
            return decode_request(payload, complete=complete)
        kind = -1, -1, content(payload, "request")
        known = self._known.get(kind)
        return (
            self._keep(kind, decode_request(payload)) if known is None else _shared(known, payload, "request")
        )

    def response(self, payload: bytes, key: int, asked: int, *, complete: bool) -> Body:
        """Decode a response (:func:`~dissectors.frames.decode_response`)."""
        if not complete or not _comparable(payload, "response"):
            return decode_response(payload, key, asked, complete=complete)
        kind = key, asked, content(payload, "response")
        known = self._known.get(kind)
        if known is None:
            return self._keep(kind, decode_response(payload, key, asked))
        return _shared(known, payload, "response")

    def _keep(self, kind: tuple[int, int, bytes], body: Body) -> Body:
        size = len(body.raw) + _OVERHEAD
        self._size += size
        if self._size > _MOST_BYTES:
            self._known.clear()
            self._size = size
        self._known[kind] = body
        return body


def _comparable(payload: bytes, side: Side) -> bool:
    return ID_AT[side] + _ID_SIZE <= len(payload) <= _LONGEST


def _shared(known: Body, payload: bytes, side: Side) -> Body:
    """Return the body of a message that equals one but for its correlation ID."""
    at = ID_AT[side]
    correlation_id = int.from_bytes(payload[at : at + _ID_SIZE], "big", signed=True)
    header = known.header | {"correlation_id": correlation_id}
    return Body(
        known.key,
        known.asked,
        known.version,
        header,
        known.value,
        known.start,
        payload,
        known.guess,
        known.problems,
    )
