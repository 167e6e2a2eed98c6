"""What looking at one frame may cost: rules and holds are asked on the loop that forwards everything else.

A filter costs what the frame holds: records to decompress and decode, elements of arrays to decode. Whoever may
connect chooses that: half a megabyte can hold ten million records. So a frame is measured before it is looked at, and
records as they are read. Of what goes over a limit the filter is undecided, and says which limit that was
(:class:`~dissectors.budget.LimitReached`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from captures.filters.reads import shown_batches, shown_headers
from dissectors.apis import api
from dissectors.budget import Budget, LimitReached, limit, of_message
from dissectors.headers import RequestHeader, request_header_version
from dissectors.skim import Route, response_structs
from kproxy.proxy.framing import SIZE_BYTES
from kproxy.proxy.verdicts import Frame, Side

_SURELY_FEW = 1 << 15
"""Bytes of a frame that cannot hold elements enough to be worth counting."""
_MOST_KEPT = 1024  # versions are the client's choice
_OF_RULES = {"message_bytes": "rule_bytes", "message_records": "rule_records"}
"""The limits of messages, and those that rules and holds have in their places."""


def measure(frame: Frame) -> None:
    """Count the elements of a frame's arrays, without decoding any.

    :raises LimitReached: if there are more than the limit ``elements``
    :raises DecodeError: if the frame is malformed
    """
    if len(frame.data) > _SURELY_FEW:
        route = _route(frame.side, frame.api_key, frame.version)
        if route is not None:
            route.find(frame.data, SIZE_BYTES, Budget("elements"))


@lru_cache(maxsize=_MOST_KEPT)
def _route(side: Side, api_key: int, version: int) -> Route | None:
    """Return the way through a whole message in the version in which it will be decoded first."""
    known = api(api_key)
    if known is None:
        return None
    if side == "response":
        return Route.through(response_structs(known.response, known.response.nearest(version)))
    version = known.request.nearest(version)
    header = RequestHeader[request_header_version(known.request, version)]
    return Route.through((header.struct, known.request[version].struct))


class MeasuredRecords:
    """Reads the records fields of one frame, each once, within one budget: ``rule_bytes`` and ``rule_records``."""

    def __init__(self) -> None:
        self._budget = of_message()
        for name, rule in _OF_RULES.items():  # what reads records knows the limits of messages
            self._budget.spend(name, max(self._budget.left(name) - limit(rule), 0))
        self._read: dict[tuple[int, bool], list[dict[str, Any]]] = {}
        self._measured: set[int] = set()

    def __call__(self, field: bytes, records: bool) -> list[dict[str, Any]]:
        """Return the batches of a records field, as they are shown.

        :param field: stays alive as long as this does
        :param records: whether records are wanted too
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
            raise LimitReached(_OF_RULES[name], what)
        self._budget.spend(name, amount)

    def _records(self, field: bytes) -> list[dict[str, Any]]:
        reached: list[LimitReached] = []
        shown = shown_batches(field, reached, self._budget)
        if reached:
            raise LimitReached(_OF_RULES.get(reached[0].limit, reached[0].limit), "the records of this frame")
        return shown


def _entries(field: bytes) -> int:
    """Return how many entries a records field has, by their sizes alone."""
    count, at = 0, 0
    while at + 12 <= len(field):
        length = int.from_bytes(field[at + 8 : at + 12], signed=True)
        if length < 14:
            break
        at += 12 + length
        count += 1
    return count
