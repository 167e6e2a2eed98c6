"""Chosen fields of the bodies of many exchanges: what tables, columns and filters ask of a whole capture.

Frames are read block by block of the table, in the order of the file, many with one read. Of each body only the fields
that somebody wants are decoded (:mod:`dissectors.projection`); a side of which nothing is wanted is not even read.

What comes out has the same values as the full decode, because the projection goes on to the end of the message: where
it does not account for every byte (a damaged frame, another version than announced, garbage), the frame is decoded in
full. Only inside what is passed over it does not look (see there).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.capture import SIZE_BYTES, Capture
from captures.exchanges.exchange import DECODING, Exchange, ExchangeReader
from captures.exchanges.payloads import SIDES, Int64s, Side, payloads
from captures.meaning import designed_wait_ns, errors_in, expected_errors
from captures.meaning.errors import error_paths
from captures.meaning.expected import expected_paths
from captures.meaning.mentions import (
    group_paths,
    member_paths,
    producer_paths,
    topic_paths,
    transaction_paths,
)
from captures.meaning.payload import record_paths
from captures.meaning.waits import wait_paths
from dissectors.apis import api
from dissectors.frames import Body, decode_request, decode_response
from dissectors.headers import (
    API_VERSIONS,
    request_body_start,
    request_header_version,
    response_body_start,
    response_header_version,
)
from dissectors.knowledge import TOPIC_NAMES
from dissectors.projection import Projection
from dissectors.versioned import Versioned

BLOCK_ROWS = 4096
"""Rows that are read together, at most."""
_MOST_BYTES = 4 << 20
"""Bytes of frames that are read together, unless a single exchange has more."""

_VERSIONS = np.int64(1 << 16)
"""As many as an int16 has values: with it, API key and version make one number."""
_PROJECTIONS_KEPT = 2048
"""Their code takes longer to make than to run over a small capture."""

Paths = Callable[[int, int, Side], frozenset[str]]
"""API key, version, side -> paths of the wanted fields."""


def _named_topics(key: int, version: int, side: Side) -> frozenset[str]:
    return TOPIC_NAMES.get(key, frozenset()) if side == "response" else frozenset()


def _constant(on_side: Side, *paths: str) -> Paths:
    wanted = frozenset(paths)
    return lambda key, version, side: wanted if side == on_side else frozenset()


NEEDS: dict[str, tuple[Paths, ...]] = {
    "errors": (error_paths, expected_paths),
    "waits": (wait_paths,),
    "topics": (topic_paths,),
    "topic names": (_named_topics,),
    "groups": (group_paths,),
    "members": (member_paths,),
    "transactions": (transaction_paths,),
    "producers": (producer_paths, record_paths),
    "records": (record_paths,),
    "throttle": (_constant("response", "throttle_time_ms"),),
    "acks": (_constant("request", "acks"),),
    "replica": (_constant("request", "replica_id", "replica_state.replica_id"),),
    "software": (_constant("request", "client_software_name", "client_software_version"),),
}
"""What may be asked of exchanges, and the fields that it takes."""


@lru_cache(_PROJECTIONS_KEPT)
def paths_of(needs: frozenset[str], key: int, version: int, side: Side) -> frozenset[str]:
    """Return the fields of a body that some needs take.

    :param needs: of :data:`NEEDS`, or paths with their side, such as ``request.topics.topic``
    """
    wanted: set[str] = set()
    for need in needs:
        if need in NEEDS:
            for find in NEEDS[need]:
                wanted |= find(key, version, side)
        elif need.startswith(f"{side}."):
            wanted.add(need.removeprefix(f"{side}."))
    return frozenset(wanted)


class Part(NamedTuple):
    """One side of an exchange.

    :ivar asked: version of the request
    :ivar version: in which the body was read, None if it could not be
    :ivar value: its wanted fields, or more of them; None if it could not be read
    :ivar guess: why it was read in another version than ``asked``, empty if it was not
    """

    asked: int
    version: int | None
    value: dict[str, Any] | None
    guess: str = ""


class Parts(NamedTuple):
    """What was wanted of an exchange.

    :ivar row: index in the exchange table
    :ivar request: None if there is none, or nothing of it is wanted
    :ivar response: likewise
    """

    row: int
    key: int
    request: Part | None
    response: Part | None


class ProjectedReader:
    """Reads chosen fields of many exchanges.

    :param needs: what is wanted, of :data:`NEEDS`, or paths with their side; it may differ by API
    """

    def __init__(self, capture: Capture, needs: Callable[[int], frozenset[str]]) -> None:
        self._capture = capture
        self._needs = needs
        self._plans: dict[tuple[int, int, Side], _Plan] = {}

    def read(self, rows: Int64s) -> Iterator[Parts]:
        """Yield the parts of some rows of the table, in the given order.

        Raw SASL tokens and responses without a request have no bodies that could be read.
        """
        column = self._capture.table.column
        while len(rows):
            block = rows[:BLOCK_ROWS]
            sizes = sum(column(f"{side}_size")[block].astype(np.int64) for side in SIDES)
            block = block[: max(1, int(np.searchsorted(np.cumsum(sizes), _MOST_BYTES)))]
            yield from self._block(block)
            rows = rows[len(block) :]

    def _block(self, rows: Int64s) -> Iterator[Parts]:
        keys = self._capture.table.column("api_key")[rows]
        versions = self._capture.table.column("version")[rows]
        pairs, which = np.unique(keys * _VERSIONS + versions, return_inverse=True)
        sides = (self._side(rows, self._plans_of(pairs, side), which, side) for side in SIDES)
        return map(Parts, rows.tolist(), keys.tolist(), *sides)

    def _plans_of(self, pairs: NDArray[np.int64], side: Side) -> list[_Plan]:
        plans = []
        for pair in pairs.tolist():
            key, version = divmod(pair + _VERSIONS // 2, int(_VERSIONS))
            plans.append(self._plan(key, version - int(_VERSIONS) // 2, side))
        return plans

    def _side(self, rows: Int64s, plans: list[_Plan], which: Int64s, side: Side) -> list[Part | None]:
        """Read one side of some rows.

        :param which: the plan of each row
        """
        wanted = np.array([plan.wanted for plan in plans], np.bool_)[which]
        chosen = np.flatnonzero(wanted & (self._capture.table.column(f"{side}_size")[rows] > 0))
        parts: list[Part | None] = [None] * len(rows)
        frames = payloads(self._capture, rows[chosen], side)
        for index, plan, payload in zip(chosen.tolist(), which[chosen].tolist(), frames, strict=True):
            try:
                part = None if payload is None else plans[plan].read(payload)
                parts[index] = self._in_full(int(rows[index]), plans[plan]) if part is None else part
            except Exception as error:
                self._capture.note_fault(error, DECODING, int(rows[index]))
                parts[index] = Part(plans[plan].asked, None, None)
        return parts

    def _plan(self, key: int, version: int, side: Side) -> _Plan:
        plan = self._plans.get((key, version, side))
        if plan is None:
            needs = self._needs(key)
            plan = self._plans[key, version, side] = _Plan(needs, key, version, side)
        return plan

    def _in_full(self, row: int, plan: _Plan) -> Part:
        """Decode a frame in full, that no projection fits, or of which bytes are missing."""
        column, side = self._capture.table.column, plan.side
        frame = self._capture.frame(
            int(column("connection")[row]),
            side,
            int(column(f"{side}_position")[row]),
            int(column(f"{side}_size")[row]),
        )
        assert frame is not None, "rows without the frame were sorted out"
        if side == "request":
            body = decode_request(frame.payload, complete=frame.complete)
        else:
            body = decode_response(frame.payload, plan.key, plan.asked, complete=frame.complete)
        return Part(plan.asked, body.version, body.value, body.guess)


@lru_cache(_PROJECTIONS_KEPT)
def _projection(layout: Versioned, paths: frozenset[str]) -> Projection:
    return Projection(layout, paths)


class _Plan:
    """How the bodies of one side of an API are read in one version."""

    def __init__(self, needs: frozenset[str], key: int, asked: int, side: Side) -> None:
        self.key = key
        self.asked = asked
        self.side = side
        self.wanted = False
        known = api(key) if key >= 0 else None
        if known is None:
            return
        message = known.request if side == "request" else known.response
        self.version = message.nearest(asked)
        self._projection = _projection(message[self.version], paths_of(needs, key, self.version, side))
        self.wanted = bool(self._projection.wanted)
        if side == "request":
            self._start = request_body_start
            self._header = request_header_version(known.request, self.version)
        else:
            self._start = response_body_start
            self._header = response_header_version(known.response, self.version)
        # an ApiVersions response tells only by its content in which version it is (KIP-511)
        self._told = self.version == asked and (key, side) != (API_VERSIONS, "response")

    def read(self, payload: bytes) -> Part | None:
        """Return the wanted fields; None if they have to be looked for by the full decoder."""
        if not self._told:
            return None
        start = self._start(payload, self._header)
        value = None if start is None else self._projection.exactly(payload, start)
        return None if value is None else Part(self.asked, self.version, value)


class ProjectedExchanges:
    """Exchanges with only the wanted fields in their bodies.

    Their errors and waits are told if they are among the needs; they have no gists, annotations or problems.

    :param reader: numbers the exchanges, and knows what earlier ones told
    :param needs: what is wanted, of :data:`NEEDS`, or paths with their side; or what tells that by API key
    """

    def __init__(
        self, reader: ExchangeReader, needs: frozenset[str] | Callable[[int], frozenset[str]]
    ) -> None:
        self._reader = reader
        self._needs = needs if callable(needs) else lambda _: needs
        self._projected = ProjectedReader(reader.capture, self._needs)

    def read(self, indexes: Int64s) -> Iterator[tuple[int, Exchange]]:
        """Yield the exchanges at some rising indexes (:meth:`ExchangeReader.exchange`), each with its index."""
        numbers = indexes.tolist()
        parts = self._projected.read(self._reader.rows[indexes])
        for index, bare, part in zip(numbers, self._reader.bares(numbers), parts, strict=True):
            self._reader.learn(index)
            try:
                made = self._filled(bare, part)
            except Exception as error:
                self._reader.capture.faults.note(error, DECODING, bare.number)
                made = bare
            yield index, made

    def _filled(self, made: Exchange, parts: Parts) -> Exchange:
        request, response = parts.request, parts.response
        made.request, made.response = _body(parts.key, request), _body(parts.key, response)
        if response is None or response.value is None:
            return made
        asked = request.value if request is not None else None
        needs = self._needs(parts.key)
        version = response.asked if response.version is None else response.version
        if "errors" in needs:
            made.errors = errors_in(parts.key, version, response.value)
            made.expected = expected_errors(parts.key, response.asked, asked, response.value, made.errors)
        if "waits" in needs and made.latency is not None:
            made.wait, made.wait_reason = designed_wait_ns(
                parts.key, version, asked, response.value, made.latency
            )
        return made


def _body(key: int, part: Part | None) -> Body | None:
    if part is None:
        return None
    return Body(key, part.asked, part.version, {}, part.value, SIZE_BYTES, b"", part.guess)
