"""Responses that a broker sends again and again, decoded once."""

from __future__ import annotations

from dataclasses import replace

from dissectors.api_keys import ApiKey
from dissectors.frames import Body, decode_response

_BEHIND_ID = 4
"""Offset behind the correlation ID of a response."""
_MOST = 64
"""Most responses that are kept."""
_LONGEST = 16_384
"""Most bytes of one; those of brokers have about a thousand."""


class EqualResponses:
    """Decodes responses; equal ones share their values, which must not be changed.

    Only ApiVersions responses are compared: clients ask whenever they connect, brokers give all the same answer, and
    its hundred ranges take longer to decode than the rest of a short connection.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Body] = {}

    def decode(self, payload: bytes, key: int, asked: int, *, complete: bool) -> Body:
        """Decode a response (:func:`~dissectors.frames.decode_response`)."""
        if key != ApiKey.API_VERSIONS or not complete or not _BEHIND_ID <= len(payload) <= _LONGEST:
            return decode_response(payload, key, asked, complete=complete)
        content = asked, payload[_BEHIND_ID:]
        known = self._known.get(content)
        if known is None:
            if len(self._known) == _MOST:
                self._known.clear()
            known = self._known[content] = decode_response(payload, key, asked)
        correlation_id = int.from_bytes(payload[:_BEHIND_ID], "big", signed=True)
        return replace(known, raw=payload, header={**known.header, "correlation_id": correlation_id})
