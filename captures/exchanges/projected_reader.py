"""Chosen fields of the bodies of many exchanges, for tables, columns and filters over a whole capture.

Frames are read block by block of the table, in file order, many with one read. Only the needed fields of each body are
decoded (:mod:`dissectors.projection`); a side without needed fields is not even read.

The values equal those of the full decode, because a projection continues to the end of the message: if it does not
account for every byte (a damaged frame, another version than announced, garbage), the frame is decoded in full. Only
the content of skipped fields is not checked (see there).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from captures.arrays import Bools, Int64s
from captures.exchanges.capture import Capture
from captures.exchanges.equal_messages import EqualMessages, content
from captures.exchanges.exchange import DECODING, Exchange, ExchangeReader
from captures.exchanges.payloads import Frames, read_frames
from captures.exchanges.shapes import RecordTallies, Shapes
from captures.meaning.errors import error_paths
from captures.meaning.expected_errors import expected_paths
from captures.meaning.mentions import (
    group_paths,
    member_paths,
    producer_paths,
    topic_paths,
    transaction_paths,
)
from captures.meaning.payload import record_paths
from captures.meaning.summaries import inserted_paths, summary_paths
from captures.meaning.waits import wait_paths
from dissectors import wire
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey
from dissectors.apis import api
from dissectors.frames import Body
from dissectors.headers import (
    SIZE_BYTES,
    request_body_start,
    request_header_version,
    response_body_start,
    response_header_version,
)
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection, tree
from dissectors.projection import known as known_fields
from dissectors.session_context import TOPIC_NAMES
from dissectors.sides import SIDES, Side

PROBLEMS = "problems"
"""A need besides :data:`NEEDS`: whether messages can be decoded. It makes them be decoded in full."""
BATCH_HEADERS = "batch headers"
"""The need that reads complete batch headers and computes checksums."""

BLOCK_ROWS = 16384
"""Most rows that are read together: the more, the more of them share parts."""
_MOST_BYTES = 16 << 20
"""Most bytes of frames that are read together, unless a single exchange has more."""

_VERSIONS = np.int64(1 << 16)
"""Number of int16 values, to combine API key and version into one number."""
_WORTH_SHARING = 8
"""Messages of a version in a block from which on equal shapes are searched."""
_MOST_KNOWN = 4096
"""Decoded messages of a shape that are kept for equal ones."""
_PROJECTIONS_KEPT = 2048
"""Generating their code takes longer than running it over a small capture."""

REPEATED_CALLS = GROUP_HEARTBEATS | {ApiKey.HEARTBEAT, ApiKey.OFFSET_COMMIT}
"""APIs by which a member of a group repeats a message that differs at most in offsets."""
NOT_OF_CALLS = frozenset({"throttle_time_ms", "topics"})
"""Fields of these that differ although the message is repeated."""
CALLS = REPEATED_CALLS | {ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP, ApiKey.LEAVE_GROUP}
"""APIs by which a member speaks with its coordinator."""

_INDEX = re.compile(r"\[[0-9]+\]")

Paths = Callable[[int, int, Side], frozenset[str]]
"""API key, version, side -> paths of the wanted fields."""


def _named_topics(key: int, version: int, side: Side) -> frozenset[str]:
    return TOPIC_NAMES.get(key, frozenset()) if side == "response" else frozenset()


def _constant(on_side: Side, *paths: str) -> Paths:
    wanted = frozenset(paths)
    return lambda key, version, side: wanted if side == on_side else frozenset()


_HIGH_WATERMARKS = _constant("response", "responses.partitions.high_watermark")
_STABLE_OFFSETS = _constant("response", "responses.partitions.last_stable_offset")
_OFFSETS: tuple[Paths, ...] = (
    _HIGH_WATERMARKS,
    _STABLE_OFFSETS,
    _constant(
        "request",
        "session_id", "session_epoch", "topics.partitions.fetch_offset", "topics.partitions.committed_offset",
    ),
    _constant("response", "session_id", "responses.partition_responses.base_offset"),
)  # fmt: skip


def _calls(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the fields of messages between group members and their coordinator, without committed offsets."""
    known = api(key)
    if known is None or key not in CALLS:
        return frozenset()
    message = known.request if side == "request" else known.response
    fields = {member.name for member in message[version].struct.all_members} - NOT_OF_CALLS
    if key in REPEATED_CALLS:
        return frozenset(fields if side == "request" else fields | {"topics.partitions.error_code"})
    return frozenset(fields & {"member_id", "session_timeout_ms"})


NEEDS: dict[str, tuple[Paths, ...]] = {
    "errors": (error_paths, expected_paths),
    "waits": (wait_paths,),
    "summaries": (summary_paths,),
    "topics": (topic_paths,),
    "topic names": (_named_topics,),
    "groups": (group_paths,),
    "members": (member_paths,),
    "calls": (_calls,),
    "transactions": (transaction_paths,),
    "producers": (producer_paths, record_paths),
    "records": (record_paths,),
    "flows": (topic_paths, record_paths),
    BATCH_HEADERS: (
        record_paths,
        _constant("request", "transactional_id", "v3_and_below_transactional_id"),
        _HIGH_WATERMARKS,
        _STABLE_OFFSETS,
    ),
    "offsets": (
        *_OFFSETS,
        topic_paths,
        record_paths,
        _constant(
            "response",
            *(
                f"{path}.error_code"
                for path in ("topics.partitions", "responses.partitions", "responses.partition_responses")
            ),
        ),
    ),
    "fetch limits": (
        _constant("request", "min_bytes", "max_bytes", "topics.partitions.partition_max_bytes"),
    ),
    "throttle": (_constant("response", "throttle_time_ms"),),
    "acks": (_constant("request", "acks"),),
    "replica": (_constant("request", "replica_id", "replica_state.replica_id"),),
    "software": (_constant("request", "client_software_name", "client_software_version"),),
}
"""Needs of callers, and the fields that each requires."""
OWN: dict[str, tuple[Paths, ...]] = {
    "waits": (_HIGH_WATERMARKS,),
    BATCH_HEADERS: (_HIGH_WATERMARKS, _STABLE_OFFSETS),
    "offsets": _OFFSETS,
}
"""Numbers among these fields that differ by exchange and are read for each, so that exchanges still share a part."""


@lru_cache(_PROJECTIONS_KEPT)
def paths_of(needs: frozenset[str], key: int, version: int, side: Side) -> frozenset[str]:
    """Return the fields of a body required by `needs`.

    :param needs: keys of :data:`NEEDS`, or paths with their side, such as ``request.topics.topic``; the field is read
        of all elements of an array, also for ``request.topics[0].topic``
    """
    wanted: set[str] = set()
    for need in needs:
        if need in NEEDS:
            for find in NEEDS[need]:
                wanted |= find(key, version, side)
        elif need.startswith(f"{side}."):
            wanted.add(_INDEX.sub("", need.removeprefix(f"{side}.")))
    return frozenset(wanted)


def _own_paths(needs: frozenset[str], key: int, version: int, side: Side) -> set[str]:
    return {path for need in needs for find in OWN.get(need, ()) for path in find(key, version, side)}


def _is_integer(con: wire.WireType | None, path: str) -> bool:
    for name in path.split("."):
        inside = None if con is None else wire.struct_inside(con)
        con = (
            next((each.con for each in inside[0].all_members if each.name == name), None) if inside else None
        )
    return isinstance(con, wire.FixedWidth) and con.code in "bhiq"


class Part(NamedTuple):
    """One side of an exchange.

    :ivar asked: version of the request
    :ivar version: version in which the body was decoded, None if it could not be
    :ivar value: its wanted fields, possibly more; None if it could not be decoded
    :ivar guess: why it was decoded in another version than ``asked``, empty if it was not
    :ivar problem: whether some of it could not be decoded, as far as that was examined
    :ivar tallies: if many exchanges share the part: contents of the records fields of each; those of ``value`` are an
        example
    :ivar numbers: if many exchanges share the part and summaries are wanted: numbers that summaries insert, one row
        each
    :ivar own: if many exchanges share the part: the numbers of :data:`OWN` by field, one row each, one column for each
        struct with the field
    """

    asked: int
    version: int | None
    value: dict[str, Any] | None
    guess: str = ""
    problem: bool = False
    tallies: RecordTallies | None = None
    numbers: Int64s | None = None
    own: Mapping[str, Int64s] | None = None

    @property
    def distinct(self) -> bool:
        """Whether exchanges with this part differ in something that was read."""
        return self.tallies is not None or self.numbers is not None or bool(self.own)


class Parts(NamedTuple):
    """The wanted parts of an exchange, or of several with equal parts.

    :ivar row: index in the exchange table, or indexes
    :ivar request: None if there is none, or nothing of it is wanted
    :ivar response: None if there is none, or nothing of it is wanted
    :ivar errors_of_kproxy: whether kproxy made the errors in the response
    """

    row: int | Int64s
    key: int
    request: Part | None
    response: Part | None
    errors_of_kproxy: bool = False

    def tallies(self, side: Side) -> RecordTallies | None:
        """Return the contents of the records fields of one side, if they were read for several exchanges together."""
        part = self.request if side == "request" else self.response
        return None if part is None else part.tallies


class _SideParts(NamedTuple):
    """One side of some rows.

    :ivar parts: the parts
    :ivar which: index of each row's part, -1 for none
    :ivar places: index of each row's tallies among those of its part
    """

    parts: list[Part]
    which: Int64s
    places: Int64s

    def of(self, row: int) -> Part | None:
        """Return the part of a row that shares it with no other."""
        code = int(self.which[row])
        return None if code < 0 else self.parts[code]

    def of_all(self, rows: Int64s) -> Part | None:
        """Return the part that `rows` share."""
        part = self.of(int(rows[0]))
        if part is None or not part.distinct:
            return part
        at = self.places[rows]
        return part._replace(
            tallies=None if part.tallies is None else part.tallies.of(at),
            numbers=None if part.numbers is None else part.numbers[at],
            own=part.own and {name: numbers[at] for name, numbers in part.own.items()},
        )


class ProjectedReader:
    """Reads chosen fields of many exchanges.

    :param needs: API key -> needs: keys of :data:`NEEDS`, or paths with their side
    :param own_path: whether the need is one path, whose integers are own numbers (:attr:`Part.own`)
    """

    def __init__(
        self, capture: Capture, needs: Callable[[int], frozenset[str]], *, own_path: bool = False
    ) -> None:
        self._capture = capture
        self._needs = needs
        self._own_path = own_path
        self._plans: dict[tuple[int, int, Side], _Plan] = {}
        self._room = bytearray()
        self._equal = EqualMessages()

    def read(self, rows: Int64s) -> Iterator[Parts]:
        """Yield the parts of `rows` of the table, in the given order.

        Raw SASL tokens and responses without a request have no readable bodies.
        """
        while len(rows):
            block = self.next_block(rows)
            yield from self._block(block)
            rows = rows[len(block) :]

    def next_block(self, rows: Int64s) -> Int64s:
        """Return the first of `rows`, as many as are read together."""
        block = rows[:BLOCK_ROWS]
        sizes = sum(self._capture.table.column(f"{side}_size")[block].astype(np.int64) for side in SIDES)
        return block[: max(1, int(np.searchsorted(np.cumsum(sizes), _MOST_BYTES)))]

    def _block(self, rows: Int64s) -> Iterator[Parts]:
        keys, sides = self._sides(rows, alike=False)
        numbers = zip(rows.tolist(), keys.tolist(), self._errors_of_kproxy(rows).tolist(), strict=True)
        request, response = sides
        return (
            Parts(row, key, request.of(at), response.of(at), made_errors)
            for at, (row, key, made_errors) in enumerate(numbers)
        )

    def _errors_of_kproxy(self, rows: Int64s) -> Bools:
        """Return a mask of the rows with errors that kproxy made."""
        done = self._capture.notes.intervened()
        return np.isin(rows, [row for row, each in done.items() if each.has_injected_errors])

    def groups(self, rows: Int64s, *, alone: bool = True) -> Iterator[tuple[int | Int64s, Parts]]:
        """Yield parts with the index or indexes in ``rows`` that they belong to; equal ones are grouped.

        Rows without wanted fields are left out.

        :param alone: whether to read messages that are like no others; otherwise their rows come without these parts
        """
        begin = 0
        while begin < len(rows):
            block = self.next_block(rows[begin:])
            keys, (requests, responses) = self._sides(block, alike=True, alone=alone)
            pairs = (requests.which + 1) * (len(responses.parts) + 1) + responses.which + 1
            made_errors = self._errors_of_kproxy(block)
            for chosen in _equal(pairs * 2 + made_errors):
                at = int(chosen[0])
                if not pairs[at]:
                    continue
                request, response = requests.of_all(chosen), responses.of_all(chosen)
                distinct = any(part is not None and part.distinct for part in (request, response))
                if len(chosen) == 1 and not distinct:
                    of_one = int(block[at]), int(keys[at]), request, response, bool(made_errors[at])
                    yield begin + at, Parts(*of_one)
                else:
                    of_all = block[chosen], int(keys[at]), request, response, bool(made_errors[at])
                    yield begin + chosen, Parts(*of_all)
            begin += len(block)

    def _sides(
        self, rows: Int64s, *, alike: bool, alone: bool = True
    ) -> tuple[Int64s, tuple[_SideParts, _SideParts]]:
        keys = self._capture.table.column("api_key")[rows]
        versions = self._capture.table.column("version")[rows]
        pairs, which = np.unique(keys * _VERSIONS + versions, return_inverse=True)
        plans = {side: self._plans_of(pairs, side) for side in SIDES}
        chosen = {side: self._chosen(rows, plans[side], which, side) for side in SIDES}
        frames = read_frames(self._capture, {side: rows[chosen[side]] for side in SIDES}, self._room)
        self._room = frames["request"].data
        request, response = (
            self._side(rows, plans[side], which, chosen[side], frames[side], alike=alike, alone=alone)
            for side in SIDES
        )
        return keys, (request, response)

    def _chosen(self, rows: Int64s, plans: list[_Plan], which: Int64s, side: Side) -> Int64s:
        """Return the indexes of the rows that have a frame with wanted fields.

        :param which: the plan of each row
        """
        wanted = np.array([plan.wanted for plan in plans], np.bool_)[which]
        return np.flatnonzero(wanted & (self._capture.table.column(f"{side}_size")[rows] > 0))

    def _plans_of(self, pairs: Int64s, side: Side) -> list[_Plan]:
        plans = []
        for pair in pairs.tolist():
            key, version = divmod(pair + _VERSIONS // 2, int(_VERSIONS))
            plans.append(self._plan(key, version - int(_VERSIONS) // 2, side))
        return plans

    def _side(
        self,
        rows: Int64s,
        plans: list[_Plan],
        which: Int64s,
        chosen: Int64s,
        frames: Frames,
        *,
        alike: bool,
        alone: bool,
    ) -> _SideParts:
        """Decode one side of some rows.

        :param which: the plan of each row
        :param chosen: the rows of the frames, as indexes of ``rows``
        :param alike: let rows with equal messages share parts
        :param alone: read messages that share with none
        """
        found = _SideParts([], np.full(len(rows), -1, np.int64), np.zeros(len(rows), np.int64))
        if alike:
            for number, plan in enumerate(plans):
                if plan.shapes is not None:
                    self._share(plan, rows, chosen, frames, which[chosen] == number, found)
        rest = np.flatnonzero(found.which[chosen] < 0) if alone else chosen[:0]
        equal: dict[tuple[int, bytes], int] = {}
        for at in rest.tolist():
            index, payload = chosen[at], frames.payload(at)
            plan = plans[which[index]]
            code = len(found.parts)
            if alike and plan.shapes is None and payload is not None:
                code = equal.setdefault((id(plan), content(payload, plan.side)), code)
            found.which[index] = code
            if code == len(found.parts):
                found.parts.append(self._part(plan, int(rows[index]), payload))
        return found

    def _share(
        self,
        plan: _Plan,
        rows: Int64s,
        chosen: Int64s,
        frames: Frames,
        share: Bools,
        found: _SideParts,
    ) -> None:
        """Read the messages of one version that are like others.

        :param chosen: the rows of the frames, as indexes of ``rows``
        :param share: mask of the frames with this version
        """
        at = np.flatnonzero(share & (frames.starts >= 0))
        if len(at) < _WORTH_SHARING or plan.shapes is None:
            return
        starts = np.full(len(chosen), -1, np.int64)
        starts[at] = plan.body_starts(self._capture, frames, rows[chosen], at)
        for group in plan.shapes.groups(frames, starts, at[starts[at] >= 0]):
            codes, keys = group.codes()
            known = group.shape.known
            for code, key in enumerate(keys):
                members = np.flatnonzero(codes == code)
                part = known.get(key, _UNKNOWN)
                if part is _UNKNOWN:
                    if len(known) >= _MOST_KNOWN:
                        known.clear()
                    example = int(group.chosen[members[0]])
                    part = self._part(plan, int(rows[chosen[example]]), frames.payload(example))
                    if part.version != plan.version or part.problem or not part.value:
                        part = None  # only this message may be wrong
                    known[key] = part
                if part is not None:
                    here = chosen[group.chosen[members]]
                    found.which[here] = len(found.parts)
                    found.places[here] = members
                    found.parts.append(
                        part._replace(tallies=group.tallies, numbers=group.numbers, own=group.own)
                    )

    def _part(self, plan: _Plan, row: int, payload: bytes | None) -> Part:
        """Read one message.

        :param payload: None if it is not simply readable
        """
        try:
            part = None if payload is None else plan.read(payload)
            return self._in_full(row, plan) if part is None else part
        except Exception as error:
            self._capture.note_fault(error, DECODING, row)
            return Part(plan.asked, None, None, problem=True)

    def _plan(self, key: int, version: int, side: Side) -> _Plan:
        plan = self._plans.get((key, version, side))
        if plan is None:
            needs = self._needs(key)
            plan = self._plans[key, version, side] = _Plan(needs, key, version, side, own_path=self._own_path)
        return plan

    def _in_full(self, row: int, plan: _Plan) -> Part:
        """Fully decode a frame that does not match its projection, or has missing bytes."""
        column, side = self._capture.table.column, plan.side
        frame = self._capture.frame(
            int(column("connection")[row]),
            side,
            int(column(f"{side}_position")[row]),
            int(column(f"{side}_size")[row]),
        )
        assert frame is not None, "rows without the frame were sorted out"
        if side == "request":
            body = self._equal.request(frame.payload, plan.key, complete=frame.complete)
        else:
            body = self._equal.response(frame.payload, plan.key, plan.asked, complete=frame.complete)
        problem = not frame.complete or bool(body.problems)
        return Part(plan.asked, body.version, body.value, body.guess, problem)


_UNKNOWN = object()
_CORRELATION_ID = 4
_CLIENT_ID_AT = 8
_REQUEST_WITH_TAGS = 2


def _equal(codes: Int64s) -> Iterator[Int64s]:
    """Yield the indexes of equal codes, in the order of their first occurrence."""
    _, first, which = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first[which], kind="stable")
    representatives = first[which][order]
    yield from np.split(order, np.flatnonzero(np.diff(representatives)) + 1) if len(order) else ()


@lru_cache(_PROJECTIONS_KEPT)
def _projection(layout: MessageVersion, paths: frozenset[str]) -> Projection:
    return Projection(layout, paths)


class _Plan:
    """How the bodies of one side of an API are read in one version.

    :ivar wanted: whether any of their fields are
    :ivar shapes: shapes by which many are read together, None if they are not
    """

    def __init__(
        self, needs: frozenset[str], key: int, asked: int, side: Side, *, own_path: bool = False
    ) -> None:
        self.key = key
        self.asked = asked
        self.side = side
        self.shapes: Shapes | None = None
        self.version: int | None = None
        self._in_full = PROBLEMS in needs
        self.wanted = self._in_full and key >= 0
        self._told = False
        known = api(key) if key >= 0 else None
        if known is None:
            return
        message = known.request if side == "request" else known.response
        self.version = version = message.nearest(asked)
        self._projection = _projection(message[version], paths_of(needs, key, version, side))
        self.wanted |= bool(self._projection.wanted)
        if side == "request":
            self._start = request_body_start
            self._header = request_header_version(known.request, version)
        else:
            self._start = response_body_start
            self._header = response_header_version(known.response, version)
        # only its content shows the version of an ApiVersions response (KIP-511)
        self._told = version == asked and (key, side) != (ApiKey.API_VERSIONS, "response")
        if self._told and key != ApiKey.API_VERSIONS:
            struct = message[version].struct
            varied = known_fields(struct, tree(inserted_paths(key, side)))
            own_paths = _own_paths(needs, key, version, side)
            if own_path:
                paths = (need.removeprefix(f"{side}.") for need in needs if need.startswith(f"{side}."))
                own_paths |= {path for path in paths if _is_integer(struct, path)}
            own = known_fields(struct, tree(own_paths))
            summaries = "summaries" in needs
            self.shapes = Shapes(
                message[version],
                self._projection.wanted,
                varied if summaries else None,
                own=own,
                headers=BATCH_HEADERS in needs,
            )

    def body_starts(self, capture: Capture, frames: Frames, rows: Int64s, chosen: Int64s) -> Int64s:
        """Return where the bodies of some frames begin, -1 if the header is malformed or has tags.

        :param rows: row of the table for each frame
        :param chosen: indexes of frames
        """
        data, starts, ends = np.frombuffer(frames.data, np.uint8), frames.starts[chosen], frames.ends[chosen]
        if self.side == "request" and self._header:
            starts = starts + _CLIENT_ID_AT
            indexes = np.minimum(starts, len(data) - 2)[:, None] + np.arange(2)
            lengths = np.ascontiguousarray(data[indexes]).view(">i2")[:, 0]
            starts = starts + 2 + np.maximum(lengths, 0)
            unreadable = [text is not None and "\ufffd" in text for text in capture.table.client_ids]
            codes = capture.table.column("client_id")[rows[chosen]]
            starts[(codes < 0) | np.array(unreadable, np.bool_)[codes]] = -1
            tagged = self._header == _REQUEST_WITH_TAGS
        else:
            starts = starts + (_CLIENT_ID_AT if self.side == "request" else _CORRELATION_ID)
            tagged = bool(self._header)
        fits = (starts >= 0) & (starts + tagged <= ends)
        if tagged:
            fits &= data[np.where(fits, starts, 0)] == 0
        return np.where(fits, starts + tagged, -1)

    def read(self, payload: bytes) -> Part | None:
        """Return the wanted fields; None if the full decoder must be used."""
        if not self._told or self._in_full:
            return None
        start = self._start(payload, self._header)
        value = None if start is None else self._projection.exactly(payload, start)
        return None if value is None else Part(self.asked, self.version, value)


class ProjectedExchanges:
    """Exchanges with only the wanted fields in their bodies.

    Their errors and waits are set if they are among the needs; they have no summaries, annotations or problems.

    :param reader: numbers the exchanges, and has the session context
    :param needs: keys of :data:`NEEDS`, or paths with their side; or a function of the API key that returns them
    """

    def __init__(
        self, reader: ExchangeReader, needs: frozenset[str] | Callable[[int], frozenset[str]]
    ) -> None:
        self._reader = reader
        self._needs = needs if callable(needs) else lambda _: needs
        self._projected = ProjectedReader(reader.capture, self._needs)

    def read(self, indexes: Int64s) -> Iterator[tuple[int, Exchange]]:
        """Yield the exchanges at increasing `indexes` (:meth:`ExchangeReader.exchange`), each with its index."""
        numbers = indexes.tolist()
        parts = self._projected.read(self._reader.rows[indexes])
        for index, bare, part in zip(numbers, self._reader.bares(numbers), parts, strict=True):
            self._reader.learn(index)
            yield index, self._filled(bare, part)

    def distinct(self, indexes: Int64s) -> Iterator[tuple[int, Exchange]]:
        """Yield like :meth:`read`, but only some of several equal exchanges, the first among them.

        Exchanges are equal if connection, client ID and wanted fields are. Times, latency and sizes are those of the
        yielded one. Exchanges without wanted fields are left out.
        """
        self._reader.learn(int(indexes.max(initial=0)))
        rows, table = self._reader.rows[indexes], self._reader.capture.table
        clients = table.column("connection")[rows].astype(np.int64) << 32
        clients += table.column("client_id")[rows]
        for which, parts in self._projected.groups(rows):
            at = np.atleast_1d(which)
            _, first = np.unique(clients[at], return_index=True)
            for index in indexes[at[np.sort(first)]].tolist():
                yield index, self._filled(self._reader.bare(index), parts)

    def _filled(self, bare: Exchange, parts: Parts) -> Exchange:
        """Fill in the wanted fields; on an internal error, leave them out and record it."""
        try:
            return self._fill(bare, parts)
        except Exception as error:
            self._reader.capture.faults.note(error, DECODING, bare.number)
            return bare

    def _fill(self, made: Exchange, parts: Parts) -> Exchange:
        made.request, made.response = body_of(parts.key, parts.request), body_of(parts.key, parts.response)
        needs = self._needs(parts.key)
        if "errors" in needs:
            made.find_errors()
        if "waits" in needs:
            made.find_wait()
        return made


def body_of(key: int, part: Part | None) -> Body | None:
    """Return one side of an exchange as a body without problems."""
    if part is None:
        return None
    return Body(key, part.asked, part.version, {}, part.value, SIZE_BYTES, b"", part.guess)
