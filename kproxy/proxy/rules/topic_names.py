"""Names of topic IDs, from responses that are decoded only when needed.

Newer messages name topics only by ID (KIP-516). Metadata maps IDs to names, and clients ask for it when they start and
rarely afterwards. So responses with names are kept as bytes, whether or not a filter refers to topics at the moment,
and decoded when one does.
"""

from __future__ import annotations

from collections import OrderedDict

from dissectors.headers import SIZE_BYTES
from dissectors.session_context import TOPIC_NAMES, SessionContext

MOST_BYTES = 4 << 20
"""Bytes of undecoded responses that are kept; the oldest are dropped."""
_ANY_CONNECTION = 0


class TopicNames:
    """The names of topic IDs seen so far."""

    def __init__(self) -> None:
        self._knowledge = SessionContext()
        self._unread: OrderedDict[tuple[int, int, bytes], None] = OrderedDict()
        self._bytes = 0

    @staticmethod
    def has_names(api_key: int) -> bool:
        """Return whether responses of an API contain names."""
        return api_key in TOPIC_NAMES

    def remember(self, api_key: int, version: int, frame: bytes) -> None:
        """Keep a response, with its size field. Responses that differ only in the correlation ID are kept once."""
        if api_key not in TOPIC_NAMES or len(frame) > MOST_BYTES:
            return
        kept = api_key, version, frame[2 * SIZE_BYTES :]
        if kept in self._unread:
            return
        self._unread[kept] = None
        self._bytes += len(frame)
        while self._bytes > MOST_BYTES:
            (_, _, oldest), _ = self._unread.popitem(last=False)
            self._bytes -= len(oldest) + 2 * SIZE_BYTES

    def name(self, topic_id: str) -> str | None:
        return self.knowledge.topic_name(topic_id)

    @property
    def knowledge(self) -> SessionContext:
        """The session context of all responses so far."""
        if self._unread:
            self._read()
        return self._knowledge

    def _read(self) -> None:
        from dissectors.frames import decode_response  # needed only if a filter refers to topics

        while self._unread:
            (api_key, version, rest), _ = self._unread.popitem(last=False)
            self._bytes -= len(rest) + 2 * SIZE_BYTES
            body = decode_response(bytes(SIZE_BYTES) + rest, api_key, version)
            self._knowledge.observe(_ANY_CONNECTION, api_key, None, body.value)
