"""A frame as an exchange for the filters of rules and holds, within limits, and how long it may be held.

Rules and holds run on the loop that forwards everything else. The cost of a filter depends on the frame: records to
decompress and decode, elements of arrays to decode, and any client chooses how many: half a megabyte can hold ten
million records. So a frame is measured before it is inspected, and records as they are read. Beyond a limit the filter
is undecided, and names the limit (:class:`~dissectors.budget.LimitReached`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from captures.exchanges import Exchange
from captures.filters import Context
from captures.filters.reads import shown_batches, shown_headers
from captures.meaning.payload import record_fields
from dissectors.annotate import Annotator
from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.budget import Budget, LimitReached
from dissectors.frames import Body, decode_request
from dissectors.headers import SIZE_BYTES, request_header
from dissectors.locator import FieldLocator, response_structs
from dissectors.sides import Side
from dissectors.units import MS
from kproxy.proxy.rules.matcher import Matcher, exchange_of
from kproxy.proxy.rules.record_edits import limit_of_rules, rule_budget
from kproxy.proxy.rules.topic_names import TopicNames
from kproxy.proxy.verdicts import Frame


class View:
    """A frame, decoded when the first filter needs it, once for all filters.

    :param names: of topic IDs
    :param start: origin of relative times in filters, in ns since the epoch
    """

    def __init__(self, frame: Frame, names: TopicNames, start: int) -> None:
        self._frame = frame
        self._names = names
        self._records = MeasuredRecords()
        self._context = Context(names.name, start=start, records=self._records)
        self._plain: Exchange | None = None
        self._annotated: Exchange | None = None

    def meets(self, matcher: Matcher) -> bool:
        """Return whether the frame matches a condition.

        :raises LimitReached: if the limits for one frame leave that undecided
        """
        if not matcher.needs_embedded:
            return matcher.match(self._exchange(), self._context)
        if self._annotated is None:
            self._measure_records(self._exchange())
            self._annotated = exchange_of(self._frame, Annotator(self._names.knowledge))
        return matcher.match(self._annotated, self._context)

    def _exchange(self) -> Exchange:
        if self._plain is None:
            for frame in (self._frame.request, self._frame):
                if frame is not None:
                    measure(frame)
            self._plain = exchange_of(self._frame)
        return self._plain

    def _measure_records(self, exchange: Exchange) -> None:
        """Read all records against the budget, because the annotator will read them."""
        sides: tuple[Side, Side] = ("request", "response")
        for side in sides:
            body: Body | None = getattr(exchange, side)
            if body is not None and body.version is not None and body.value:
                for value in record_fields(self._frame.api_key, body.version, body.value, side):
                    if value:
                        self._records(value, True)


_SURELY_FEW = 1 << 15
"""Bytes of a frame that is too small for its elements to be worth counting."""
_MOST_KEPT = 1024  # versions are the client's choice


def measure(frame: Frame) -> None:
    """Count the elements of a frame's arrays without decoding any.

    :raises LimitReached: if there are more than the limit ``elements``
    :raises DecodeError: if the frame is malformed
    """
    if len(frame.data) > _SURELY_FEW:
        locator = _locator(frame.side, frame.api_key, frame.version)
        if locator is not None:
            locator.find(frame.data, SIZE_BYTES, Budget("elements"))


@lru_cache(maxsize=_MOST_KEPT)
def _locator(side: Side, api_key: int, version: int) -> FieldLocator | None:
    """Return a locator that traverses a whole message in the version in which it will be decoded first."""
    known = api(api_key)
    if known is None:
        return None
    if side == "response":
        return FieldLocator.through(response_structs(known.response, known.response.nearest(version)))
    version = known.request.nearest(version)
    header = request_header(known.request, version)
    return FieldLocator.through((header.struct, known.request[version].struct))


class MeasuredRecords:
    """Reads the records fields of one frame, each once, within one budget: ``rule_bytes`` and ``rule_records``."""

    def __init__(self) -> None:
        self._budget = rule_budget()
        self._read: dict[tuple[int, bool], list[dict[str, Any]]] = {}
        self._measured: set[int] = set()

    def __call__(self, field: bytes, records: bool) -> list[dict[str, Any]]:
        """Return the batches of a records field, prepared for display.

        :param field: must stay alive as long as this object
        :param records: whether to include records
        :raises LimitReached: if they cost more than is left
        """
        key = id(field), records
        if key not in self._read:
            if id(field) not in self._measured:
                self._spend("message_records", _entries(field), "the batches of this frame")
                self._spend("message_bytes", len(field), "the batches of this frame")
                self._measured.add(id(field))
            self._read[key] = self._records(field) if records else shown_headers(field)
        return self._read[key]

    def _spend(self, name: str, amount: int, what: str) -> None:
        if amount > self._budget.left(name):
            raise limit_of_rules(LimitReached(name, what), what)
        self._budget.spend(name, amount)

    def _records(self, field: bytes) -> list[dict[str, Any]]:
        reached: list[LimitReached] = []
        shown = shown_batches(field, reached, self._budget)
        if reached:
            raise limit_of_rules(reached[0], "the records of this frame")
        return shown


def _entries(field: bytes) -> int:
    """Return how many entries a records field has, judging by their size fields."""
    count, at = 0, 0
    while at + 12 <= len(field):
        length = int.from_bytes(field[at + 8 : at + 12], signed=True)
        if length < 14:
            break
        at += 12 + length
        count += 1
    return count


SHARE = 0.8
"""Share of a client's timeout that holding may use up."""


def held_until(frame: Frame, request_timeout: int) -> int:
    """Return the time, in ns since the epoch, at which a held frame must continue.

    :param request_timeout: ns that clients wait for an answer
    """
    asked = frame if frame.side == "request" else frame.request
    if asked is None:
        return frame.time + int(SHARE * request_timeout)
    body = decode_request(asked.data[SIZE_BYTES:])
    return asked.time + int(SHARE * _patience(frame.api_key, body.value or {}, request_timeout))


def _patience(api_key: int, request: Mapping[str, Any], request_timeout: int) -> int:
    if api_key == ApiKey.JOIN_GROUP:
        timeout: int = request.get("rebalance_timeout_ms", -1)
        barrier: int = timeout if timeout > 0 else request.get("session_timeout_ms", 0)
        return max(request_timeout, barrier * MS)
    allowed = request.get("timeout_ms", 0)
    if isinstance(allowed, int) and allowed > 0:
        return min(allowed * MS, request_timeout)
    waits: int = request.get("max_wait_ms", 0)
    # holding up to max_wait_ms is safe, whatever the client's timeout is
    return max(request_timeout, int(waits * MS / SHARE))
