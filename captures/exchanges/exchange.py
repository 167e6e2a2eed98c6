"""One exchange with everything decoded, and the reader that makes them from a capture."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from captures.exchanges.ahead import MOST_ROWS, Lookahead
from captures.exchanges.capture import SIZE_BYTES, Capture, FrameBytes
from captures.exchanges.notes import NO_NOTE, Note
from captures.exchanges.table import Flag
from captures.faults import described
from captures.interventions import UNTOUCHED, Interventions
from captures.meaning import (
    ErrorFound,
    designed_wait_ns,
    errors_in,
    expected_errors,
    request_gist,
    response_gist,
)
from captures.names.names import with_port
from dissectors.annotate import Annotations, Annotator, Side
from dissectors.apis import api_name
from dissectors.embedded import identity
from dissectors.frames import Body, Problem, decode_request, decode_response
from dissectors.knowledge import TELLING, Knowledge
from dissectors.record_values import Payload

NANOSECONDS = 1_000_000_000
UNKNOWN_API = -1
DECODING, LEARNING = "decoding", "learning what it tells of others"
"""What is being done, for faults."""


@dataclass(slots=True)
class Exchange:
    """A request with its response.

    Sizes and offsets count from the first byte of the size field. ``request`` and ``response`` are None where there
    is no such frame; their values are as :class:`~dissectors.annotate.Annotator` leaves them if the reader was asked
    to annotate, else as decoded.

    :ivar number: 1-based, by the first byte of the request in the capture
    :ivar row: index in the exchange table
    :ivar time: ns since the epoch, of the packet with the first byte of the request (of the response, if orphaned)
    :ivar latency: ns from the last byte of the request to the first of the response, or None
    :ivar tokens: raw SASL tokens of client and broker, where the exchange is of these; they hold secrets
    :ivar shown_tokens: the same, masked, if the reader was asked to annotate
    :ivar wait: ns of the latency that the protocol itself provides for, such as a Fetch waiting for records
    :ivar wait_reason: why, in words; empty if ``wait`` is 0
    :ivar gist: request and response in a few words
    :ivar errors: every error in the response
    :ivar expected: those of them that belong to a normal conversation
    :ivar note: mark and comment
    :ivar interventions: what kproxy did to it on its way; ``request`` and ``response`` are what was sent to kproxy
    :ivar client_names: of the address ``client`` or its host, the one to be shown first
    :ivar broker_names: of ``broker``
    """

    number: int
    row: int
    connection: int
    client: str
    broker: str
    client_id: str | None
    api_key: int | None
    version: int | None
    correlation_id: int | None
    time: int
    latency: int | None
    request_size: int
    response_size: int
    flag: Flag
    request: Body | None
    response: Body | None
    tokens: list[bytes | None] = field(default_factory=lambda: [None, None])
    shown_tokens: list[dict[str, bytes | None] | None] = field(default_factory=lambda: [None, None])
    wait: int = 0
    wait_reason: str = ""
    gist: tuple[str, str] = ("", "")
    errors: list[ErrorFound] = field(default_factory=list)
    expected: list[ErrorFound] = field(default_factory=list)
    annotations: Annotations = field(default_factory=Annotations)
    problems: list[tuple[Side, Problem]] = field(default_factory=list)
    note: Note = NO_NOTE
    interventions: Interventions = UNTOUCHED
    client_names: tuple[str, ...] = ()
    broker_names: tuple[str, ...] = ()

    @property
    def api(self) -> str:
        """Name of the API; ``SaslToken`` for raw tokens, ``unknown`` for an orphan response."""
        if Flag.SASL_TOKEN in self.flag:
            return "SaslToken"
        return "unknown" if self.api_key is None else api_name(self.api_key)

    @property
    def shown_client(self) -> str:
        """The client's address with a name in the place of the host, if it has one."""
        return with_port(self.client_names[0], self.client) if self.client_names else self.client

    @property
    def shown_broker(self) -> str:
        """The broker's address, likewise."""
        return with_port(self.broker_names[0], self.broker) if self.broker_names else self.broker

    @property
    def flags(self) -> list[str]:
        """What is special about it, as documented for ``read --json``."""
        names = self.flag.names
        for side, body in (("request", self.request), ("response", self.response)):
            if body is not None and body.guess:
                names.append(f"{side}_guessed")
        if len(self.errors) > len(self.expected):
            names.append("error")
        if self.expected:
            names.append("expected_error")
        if self.wait:
            names.append("waited")
        if self.problems or self.annotations.problems:
            names.append("problem")
        return names + self.interventions.flags

    @property
    def decoded_fully(self) -> bool:
        """Whether every frame there is was decoded to its last byte, in the version it announced, and within limits."""
        return not self.problems and Flag.ORPHAN not in self.flag and not self.limits

    @property
    def limits(self) -> set[str]:
        """Names of the limits beyond which something is undecided (:data:`dissectors.budget.LIMITS`)."""
        if not self.problems and not self.annotations.problems:
            return set()
        return {found.limit for _, found in (*self.problems, *self.annotations.problems) if found.limit}

    def shown(self, side: Side) -> dict[str, Any] | None:
        """Return a body, or what stands in its place of a raw SASL token."""
        body = self.request if side == "request" else self.response
        return body.value if body else self.shown_tokens[_SIDES.index(side)]

    def to_json(self) -> dict[str, Any]:
        """Return the documented shape (``docs/json.md``), for a JSON encoder that knows bytes."""
        return {
            "number": self.number,
            "time": rfc3339(self.time),
            "latency_ns": self.latency,
            "designed_wait_ns": self.wait,
            "connection": self.connection,
            "client": self.client,
            "broker": self.broker,
            "client_name": next(iter(self.client_names), None),
            "broker_name": next(iter(self.broker_names), None),
            "client_id": self.client_id,
            "api": self.api,
            "api_key": self.api_key,
            "version": self.version,
            "correlation_id": self.correlation_id,
            "request_size": self.request_size,
            "response_size": self.response_size,
            "request": self.shown("request"),
            "response": self.shown("response"),
            "decoded": self.annotations.decoded,
            "masked": self.annotations.masked,
            "flags": self.flags,
            "marked": self.note.marked,
            "comment": self.note.comment or None,
            "kproxy": self.interventions.to_json(self.annotations.masked),
            "problems": [
                {"side": side, "offset": problem.offset, "path": problem.path, "reason": problem.reason}
                for side, problem in self.problems + self.annotations.problems
            ],
        }


def rfc3339(time: int) -> str:
    """Return a time in UTC with nanoseconds (RFC 3339)."""
    seconds, nanoseconds = divmod(time, NANOSECONDS)
    return f"{_to_the_second(seconds)}.{nanoseconds:09d}Z"


@lru_cache(maxsize=16)
def _to_the_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


class ExchangeReader:
    """Decodes the exchanges of a capture, in the order of their numbers.

    :param show_secrets: leave passwords, tokens and keys readable
    :param payload: how much of records to show: ``full``, ``preview`` or ``none``
    :param annotate: make bodies ready to be shown; False leaves records as bytes and is faster
    :param gist: put each exchange in a few words
    :param live: the capture still grows: exchanges are numbered as :meth:`take` is told that they are complete, or as
        :meth:`extend` is told of them
    :param knowledge: what exchanges tell of others, to be shared by several readers of one capture; they learn only
        what :meth:`learn_from` shows one of them
    """

    def __init__(
        self,
        capture: Capture,
        *,
        show_secrets: bool = False,
        payload: Payload = "full",
        annotate: bool = True,
        gist: bool = True,
        live: bool = False,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.capture = capture
        self._learns = knowledge is None
        self.knowledge = Knowledge() if knowledge is None else knowledge
        self._annotator = Annotator(self.knowledge, show_secrets=show_secrets, payload=payload)
        self._annotate = annotate
        self._tell_gist = gist
        self._first = 1
        self._order = array("q", () if live else capture.table.order().tolist())
        self._ahead = Lookahead(capture)
        self._learned = 0

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Exchange]:
        return self.several(range(len(self._order)))

    def several(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield the exchanges at some indexes, as :meth:`exchange` does, but with their frames read together."""
        begin = 0
        while begin < len(indexes):
            rows = [self._order[index] for index in indexes[begin : begin + MOST_ROWS]]
            end = begin + self._ahead.fetch(rows)
            for index in indexes[begin:end]:
                yield self.exchange(index)
            begin = end

    @property
    def rows(self) -> NDArray[np.int64]:
        """Rows of the exchange table, by index. A copy, as an array whose buffer is in use cannot grow."""
        return np.array(self._order, np.int64)

    @property
    def first(self) -> int:
        """Number of the exchange at index 0."""
        return self._first

    def sizes(self, indexes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the bytes of the frames of the exchanges at some indexes."""
        rows = self.rows[indexes]
        request, response = (self.capture.table.column(f"{side}_size")[rows] for side in _SIDES)
        sizes: NDArray[np.int64] = request.astype(np.int64) + response
        return sizes

    def exchange(self, index: int) -> Exchange:
        """Return the exchange at ``index`` (0-based) with both bodies decoded.

        What earlier exchanges tell about it, such as the names of topic IDs, is read first if it was not yet.

        One that brings out an error in the decoder comes without bodies, and says so among its problems; the fault is
        noted with the capture.
        """
        if index > self._learned:
            self.learn(index)
        try:
            made = self._read(index)
            if self._learns and index == self._learned:
                self._learned += 1
                self._observe(made)
            self._finish(made)
        except Exception as error:
            return self._failed(index, error)
        return made

    def number(self, index: int) -> int:
        """Return the number of the exchange at ``index``."""
        return self._first + index

    def take(self, rows: Iterable[int]) -> Iterator[Exchange]:
        """Number rows of the table on, those that :meth:`Capture.updates` yields, and decode them one by one.

        Only these have an index from then on, so that reading for days needs no more memory than for a moment.
        """
        self._first += len(self._order)
        self._order, self._learned = array("q", rows), 0
        return self.several(range(len(self._order)))

    def extend(self, rows: NDArray[np.int64]) -> None:
        """Number rows of the table on, keeping those before: complete ones, and those that are not yet."""
        self._order.frombytes(np.ascontiguousarray(rows, np.int64).tobytes())

    def drop(self, count: int, renumbered: NDArray[np.int64]) -> None:
        """Follow the table in dropping rows: the first so many indexes go, numbers stay what they are.

        :param renumbered: new row for each old row of the table
        """
        kept = renumbered[self.rows[count:]]
        self._first += count
        self._order = array("q", kept.tobytes())

    def reorder(self, rows: NDArray[np.int64]) -> None:
        """Number the same rows anew, in this order."""
        self._order = array("q", np.ascontiguousarray(rows, np.int64).tobytes())

    def learn_from(self, rows: NDArray[np.int64]) -> Iterator[None]:
        """Learn what the exchanges in some rows of the table tell of others; yields after each that tells something."""
        keys = self.capture.table.column("api_key")[rows]
        for row in rows[np.isin(keys, _TELLING)].tolist():
            values, request, response = self._ahead[row]
            made = self._bare(row, values, 0)
            try:
                self._decode(made, request, response)
                self._observe(made)
            except Exception as error:
                self.capture.faults.note(error, LEARNING)
            yield

    def pass_over(self, rows: Iterable[int]) -> None:
        """Number rows on as :meth:`take` does, but only learn from them."""
        self._first += len(self._order)
        self._order, self._learned = array("q", rows), 0
        self.learn(len(self._order))

    def learn(self, index: int) -> None:
        """Learn what the exchanges before ``index`` tell of later ones, if that was not done yet."""
        if not self._learns:
            return
        keys = self.capture.table.column("api_key")
        for earlier in range(self._learned, index):
            if int(keys[self._order[earlier]]) in TELLING:
                try:
                    self._observe(self._read(earlier))
                except Exception as error:
                    self.capture.faults.note(error, LEARNING, self.number(earlier))
        self._learned = max(self._learned, index)

    def _observe(self, made: Exchange) -> None:
        if made.api_key in TELLING:
            request = made.request.value if made.request else None
            response = made.response.value if made.response else None
            self.knowledge.observe(made.connection, made.api_key, request, response)

    def row(self, index: int) -> int:
        """Return the row of the table in which the exchange at ``index`` is."""
        return int(self._order[index])

    def bare(self, index: int) -> Exchange:
        """Return the exchange at ``index`` as the table has it, without its bodies."""
        row = self._order[index]
        return self._bare(row, self.capture.table.row(row), self.number(index))

    def bares(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield what :meth:`bare` returns of some indexes, but with their rows read together."""
        for begin in range(0, len(indexes), MOST_ROWS):
            some = indexes[begin : begin + MOST_ROWS]
            rows = [self._order[index] for index in some]
            table = self.capture.table.rows(np.array(rows, np.int64))
            for index, at, row in zip(some, rows, table, strict=True):
                yield self._bare(at, row, self.number(index))

    def _bare(self, at: int, row: dict[str, Any], number: int) -> Exchange:
        capture = self.capture
        flag, connection = _flag(row["flags"]), row["connection"]
        client, broker = capture.endpoints(connection)
        known = row["api_key"] >= 0
        answered = row["response_size"] > 0 and row["request_size"] > 0
        return Exchange(
            number=number,
            row=at,
            connection=connection,
            client=client,
            broker=broker,
            client_id=capture.table.client_ids[row["client_id"]] if row["client_id"] >= 0 else None,
            api_key=row["api_key"] if known else None,
            version=row["version"] if known else None,
            correlation_id=None if row["flags"] & _SASL_TOKEN else row["correlation_id"],
            time=row["request_first"] if row["request_size"] else row["response_first"],
            latency=row["response_first"] - row["request_last"] if answered else None,
            request_size=row["request_size"],
            response_size=row["response_size"],
            flag=flag,
            request=None,
            response=None,
            note=capture.notes.of(at),
            interventions=capture.notes.interventions(at, row),
            client_names=capture.names.of(client),
            broker_names=capture.names.of(broker),
        )

    def _failed(self, index: int, error: Exception) -> Exchange:
        """Note what failed, and return the exchange without what was decoded of it, none of which can be relied on."""
        made = self.bare(index)
        self.capture.faults.note(error, DECODING, made.number)
        if self._learns and index == self._learned:
            self._learned += 1
        key = UNKNOWN_API if made.api_key is None else made.api_key
        version = UNKNOWN_API if made.version is None else made.version
        bodies = [
            Body(key, version, None, {}, None, SIZE_BYTES, b"") if size else None
            for size in (made.request_size, made.response_size)
        ]
        if Flag.SASL_TOKEN not in made.flag:
            made.request, made.response = bodies
        side: Side = "request" if made.request_size else "response"
        reason = f"a fault of kproxy: decoding failed: {described(error)}"
        made.problems.append((side, Problem(-1, "", reason)))
        return made

    def _read(self, index: int) -> Exchange:
        at = self._order[index]
        row, request, response = self._ahead[at]
        made = self._bare(at, row, self.number(index))
        if Flag.SASL_TOKEN in made.flag:
            made.tokens = [None if frame is None else frame.payload for frame in (request, response)]
        else:
            self._decode(made, request, response)
        return made

    def _decode(self, made: Exchange, request: FrameBytes | None, response: FrameBytes | None) -> None:
        if request is not None:
            made.request = decode_request(request.payload, complete=request.complete)
            self._problems(made, "request", request, made.request)
        if response is None:
            return
        if made.api_key is None or made.version is None:
            reason = "the request of this response was not captured, so its API is not known"
            made.problems.append(("response", Problem(-1, "", reason)))
            made.response = decode_response(response.payload, UNKNOWN_API, UNKNOWN_API)
            made.response.guess = ""
            return
        made.response = decode_response(
            response.payload, made.api_key, made.version, complete=response.complete
        )
        self._problems(made, "response", response, made.response)

    @staticmethod
    def _problems(made: Exchange, side: Side, frame: FrameBytes, body: Body) -> None:
        if not frame.complete:
            made.problems.append((side, Problem(frame.have, "", frame.reason)))
        if frame.complete or frame.payload:  # of a frame that is missing altogether there is no more to say
            made.problems.extend((side, problem) for problem in body.problems)

    def _read_tokens(self, made: Exchange) -> None:
        """Read raw SASL tokens. Always, since they are few and have no gist but what they say."""
        for index, side in enumerate(_SIDES):
            token = made.tokens[index]
            if token is not None:
                made.shown_tokens[index] = self._annotator.token(
                    token, side, made.annotations, connection=made.connection
                )
        said = made.annotations.decoded.get("request.token")
        mechanism = self.knowledge.mechanism(made.connection) or ""
        if isinstance(said, dict):
            mechanism = mechanism or str(said.get("mechanism", ""))
        made.gist = (" ".join(filter(None, (mechanism, identity(said)))), "")

    def _gist(self, key: int, made: Exchange) -> tuple[str, str]:
        names, request, response = self.knowledge.topic_name, made.request, made.response
        asked = request.value if request is not None else None
        said = ""
        if request is not None and asked is not None:
            said = request_gist(key, request.asked, asked, names)
        if response is None or response.value is None:
            return said, ""
        version = response.asked if response.version is None else response.version
        return said, response_gist(
            key, version, asked, response.value, names, -1 if made.latency is None else made.latency
        )

    def _finish(self, made: Exchange) -> None:
        key, request, response = made.api_key, made.request, made.response
        if key is not None and response is not None and response.value is not None:
            asked = request.value if request is not None else None
            version = response.asked if response.version is None else response.version
            made.errors = errors_in(key, version, response.value)
            if made.errors:
                made.expected = expected_errors(key, response.asked, asked, response.value, made.errors)
            if made.latency is not None:
                made.wait, made.wait_reason = designed_wait_ns(
                    key, version, asked, response.value, made.latency
                )
        if Flag.SASL_TOKEN in made.flag:
            self._read_tokens(made)
        if self._tell_gist and key is not None:
            made.gist = self._gist(key, made)
        if not self._annotate:
            return
        if request is not None:
            self._annotator.annotate(request, "request", made.annotations, connection=made.connection)
        if response is not None:
            asked = request.value if request is not None else None
            self._annotator.annotate(
                response, "response", made.annotations, connection=made.connection, request=asked
            )


@lru_cache
def _flag(value: int) -> Flag:
    """Return a flag of the table; making one takes longer than all else that a row needs."""
    return Flag(value)


_SASL_TOKEN = int(Flag.SASL_TOKEN)
_SIDES: tuple[Side, Side] = ("request", "response")
_TELLING = sorted(TELLING)
