"""What looking at one frame may cost: rules and holds are asked on the loop that forwards everything else.

A filter costs what the frame holds: records to decompress and decode, elements of arrays to decode. Whoever may
connect chooses that: half a megabyte can hold ten million records. So a frame is measured before it is looked at, and
records as they are read. Of what goes over a limit the filter is undecided, and says which limit that was
(:class:`~dissectors.budget.LimitReached`).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from captures.filters.reads import shown_batches
from dissectors.apis import api
from dissectors.budget import Budget, LimitReached
from dissectors.headers import RequestHeader, request_header_version
from dissectors.record_values import Notes, RecordValues
from dissectors.records import DEFAULT_LIMITS, Batch, DecompressionBomb, Limits, batches
from dissectors.skim import Route, response_structs
from kproxy.proxy.framing import SIZE_BYTES
from kproxy.proxy.verdicts import Frame, Side

_SURELY_FEW = 1 << 15
"""Bytes of a frame that cannot hold elements enough to be worth counting."""
_MOST_KEPT = 1024  # versions are the client's choice


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
        self._budget = Budget("rule_bytes", "rule_records")
        self._read: dict[tuple[int, bool], list[dict[str, Any]]] = {}
        self._measured: set[int] = set()

    def __call__(self, field: bytes, records: bool) -> list[dict[str, Any]]:
        """Return the batches of a records field, as :func:`~captures.filters.reads.shown_batches` does.

        :param field: stays alive as long as this does
        :param records: whether records are wanted too
        :raises LimitReached: if they cost more than is left
        """
        key = id(field), records
        if key not in self._read:
            if id(field) not in self._measured:
                self._budget.spend("rule_records", _entries(field), "the batches of this frame")
                self._measured.add(id(field))
            if records:
                self._read[key] = [one for batch in batches(field) for one in self._records(batch)]
            else:
                self._read[key] = shown_batches(field, records=False)
        return self._read[key]

    def _records(self, batch: Batch) -> list[dict[str, Any]]:
        """Return a batch with its records."""
        budget, what = self._budget, "the records of this frame"
        budget.spend("rule_records", max(batch.count or 0, 0), what)
        limits = Limits(
            max_bytes=min(budget.left("rule_bytes"), DEFAULT_LIMITS.max_bytes),
            max_records=budget.left("rule_records") + max(batch.count or 0, 1),
        )
        if batch.magic == 2:
            budget.spend("rule_bytes", len(batch.payload(limits).data), what)
        else:  # how much there is in one of these is known when it is there: it pays for what it may be
            budget.spend("rule_bytes", limits.bound(batch.size) if batch.codec else batch.size, what)
        notes = Notes({}, [])
        shown = RecordValues(limits).show(bytes(batch.data[batch.start : batch.end]), "", None, notes)
        if any(isinstance(problem, DecompressionBomb) for problem in notes.problems):
            raise LimitReached("rule_bytes", what)
        if batch.count is None:
            budget.spend("rule_records", sum(len(each["records"]) for each in shown), what)
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
