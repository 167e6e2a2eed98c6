"""One fully decoded exchange, and the reader that decodes exchanges of a capture."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
from msgspec import UNSET, UnsetType

from captures.arrays import Int64s
from captures.exchanges.capture import Capture, FrameBytes
from captures.exchanges.equal_messages import EqualMessages, content
from captures.exchanges.notes import NO_NOTE, Note
from captures.exchanges.prefetch import MOST_ROWS, FramePrefetch
from captures.exchanges.table import Flag, cluster_time
from captures.faults import described
from captures.interventions import (
    NO_UPSTREAM,
    UNTOUCHED,
    BrokerLog,
    Interventions,
    ShownInterventions,
    UpstreamBroker,
)
from captures.json_objects import Time
from captures.meaning import (
    ResponseError,
    designed_wait_ns,
    errors_in,
    expected_errors,
    request_summary,
    response_summary,
)
from captures.meaning.exchange import Names
from captures.names.names import with_port
from dissectors.annotate import Annotations, Annotator
from dissectors.apis import api_name
from dissectors.embedded import identity
from dissectors.frames import Body, Problem, decode_request, decode_response
from dissectors.headers import SIZE_BYTES
from dissectors.record_values import Payload
from dissectors.session_context import OBSERVED_APIS, TOPIC_NAMES, SessionContext
from dissectors.sides import SIDES, Side

UNKNOWN_API = -1
_NOTHING: Mapping[str, Any] = {}
DECODING, LEARNING = "decoding", "learning from it about others"
"""The activities named in error reports."""


class SideProblem(NamedTuple):
    """A problem, and the side of the exchange that has it."""

    side: Side
    offset: int
    path: str
    reason: str


class FrameNumbers(NamedTuple):
    """Numbers of the packets with the bytes of each side, as in Wireshark; None where they are unknown."""

    request: list[int] | None
    response: list[int] | None


@dataclass(slots=True)
class Exchange:
    """A request with its response.

    Sizes and offsets count from the first byte of the size field. ``request`` and ``response`` are None if there is no
    such frame; their values are as :class:`~dissectors.annotate.Annotator` leaves them if the reader annotates, else as
    decoded.

    :ivar number: 1-based, by the first byte of the request in the capture
    :ivar row: index in the exchange table
    :ivar time: ns since the epoch, of the packet with the first byte of the request (of the response, if orphaned)
    :ivar latency: ns from the last byte of the request to the first byte of the broker's response, without the time
        that the request stayed in kproxy; None if the broker sent none
    :ivar tokens: raw SASL tokens of client and broker, if the exchange consists of these; they contain secrets
    :ivar shown_tokens: the tokens, decoded and masked, if the reader annotates
    :ivar wait: ns of the latency that the protocol intends, such as a Fetch waiting for records
    :ivar wait_reason: the reason of the wait, in words; empty if ``wait`` is 0
    :ivar summary: short text for request and response
    :ivar errors: every error in the response
    :ivar expected: errors that belong to a normal conversation, or that kproxy made
    :ivar note: mark and comment
    :ivar interventions: what kproxy did to it on its way; ``request`` and ``response`` are what was sent to kproxy
    :ivar kproxy_time: ns that request and response stayed in kproxy for a rule or a user; if kproxy answered itself,
        all the time until it did
    :ivar frame: number of the packet with its first byte, in its capture, as Wireshark numbers packets
    :ivar frame_numbers: of all its packets, if they were asked for (:class:`captures.export.packets.PacketFinder`)
    :ivar broker_log: its entry in the broker's request log, None if the capture is not a request log
    :ivar client_names: names of the address ``client`` or its host, the one to be shown first
    :ivar broker_names: names of the address ``broker`` or its host
    :ivar upstream: node ID and cluster of the broker, if kproxy's proxy has recorded them
    """

    JSON = (
        "number time latency_ns=latency designed_wait_ns=wait kproxy_time_ns=kproxy_time connection client "
        "broker client_name broker_name cluster=upstream.cluster broker_id=upstream.node_id client_id api api_key "
        "version correlation_id request_size response_size "
        "request=shown_request response=shown_response decoded=annotations.decoded "
        "masked=annotations.masked flags marked=note.marked comment=note.comment kproxy broker_log "
        "problems=all_problems frame_numbers"
    )

    number: int
    row: int
    connection: int
    client: str
    broker: str
    client_id: str | None
    api_key: int | None
    version: int | None
    correlation_id: int | None
    time: Time
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
    summary: tuple[str, str] = ("", "")
    errors: list[ResponseError] = field(default_factory=list)
    expected: list[ResponseError] = field(default_factory=list)
    annotations: Annotations = field(default_factory=Annotations)
    problems: list[tuple[Side, Problem]] = field(default_factory=list)
    note: Note = NO_NOTE
    interventions: Interventions = UNTOUCHED
    kproxy_time: int = 0
    frame: int = field(default=0, compare=False)
    frame_numbers: FrameNumbers | UnsetType = field(default=UNSET, compare=False)
    broker_log: BrokerLog | None = None
    client_names: tuple[str, ...] = ()
    broker_names: tuple[str, ...] = ()
    upstream: UpstreamBroker = NO_UPSTREAM

    @property
    def api(self) -> str:
        """Name of the API; ``SaslToken`` for raw tokens, ``unknown`` for an orphan response."""
        if self.flag and Flag.SASL_TOKEN in self.flag:  # nearly always 0, and testing an IntFlag is slow
            return "SaslToken"
        return "unknown" if self.api_key is None else api_name(self.api_key)

    @property
    def title(self) -> str:
        """API and version, such as ``Fetch v12``."""
        return self.api if self.version is None else f"{self.api} v{self.version}"

    @property
    def failed(self) -> bool:
        """Whether the response has errors that do not belong to a normal conversation."""
        return len(self.errors) > len(self.expected)

    @property
    def unexpected_errors(self) -> list[ResponseError]:
        """The errors that do not belong to a normal conversation."""
        if not self.expected:
            return self.errors
        expected = {error.path for error in self.expected}
        return [error for error in self.errors if error.path not in expected]

    @property
    def shown_client(self) -> str:
        """The client's address with a name instead of the host, if it has one."""
        return with_port(self.client_names[0], self.client) if self.client_names else self.client

    @property
    def shown_broker(self) -> str:
        """The broker's address with a name instead of the host, if it has one."""
        return with_port(self.broker_names[0], self.broker) if self.broker_names else self.broker

    @property
    def end(self) -> int:
        """When the client had the first byte of the response, in ns since the epoch; ``time`` if it got none."""
        return self.time + max(self.latency or 0, 0) + self.kproxy_time

    @property
    def answered_at(self) -> int | None:
        """When the client had the first byte of the response, None if it got none or the request was not captured."""
        return None if self.latency is None and not self.interventions.answered else self.end

    @property
    def intervened(self) -> bool:
        """Whether kproxy did more to it than to rewrite addresses."""
        return self.interventions.intervene

    @property
    def flags(self) -> list[str]:
        """Names of its peculiarities, as documented for ``read --json``."""
        names = self.flag.names
        for side, body in (("request", self.request), ("response", self.response)):
            if body is not None and body.guess:
                names.append(f"{side}_guessed")
        if self.failed:
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
        """Whether every frame was decoded to its last byte, in its announced version, within limits."""
        return not self.problems and Flag.ORPHAN not in self.flag and not self.limits

    @property
    def limits(self) -> set[str]:
        """Names of the limits that left something undecided (:data:`dissectors.budget.LIMITS`)."""
        if not self.problems and not self.annotations.problems:
            return set()
        return {found.limit for _, found in (*self.problems, *self.annotations.problems) if found.limit}

    @property
    def client_name(self) -> str | None:
        """First name of the client's address; None if it has none."""
        return next(iter(self.client_names), None)

    @property
    def broker_name(self) -> str | None:
        """First name of the broker's address; None if it has none."""
        return next(iter(self.broker_names), None)

    @property
    def request_body(self) -> Mapping[str, Any]:
        """The request as decoded; empty if it was not captured or cannot be read."""
        return (self.request.value if self.request is not None else None) or _NOTHING

    @property
    def response_body(self) -> Mapping[str, Any]:
        """The response as decoded; empty if it was not captured or cannot be read."""
        return (self.response.value if self.response is not None else None) or _NOTHING

    @property
    def shown_request(self) -> dict[str, Any] | None:
        """The request ready to be shown; for raw SASL tokens, the client's token."""
        return self.shown("request")

    @property
    def shown_response(self) -> dict[str, Any] | None:
        """The response ready to be shown; for raw SASL tokens, the broker's token."""
        return self.shown("response")

    @property
    def kproxy(self) -> ShownInterventions | None:
        """What kproxy did to it, without secrets; None if nothing."""
        return self.interventions.shown(self.annotations.masked)

    @property
    def all_problems(self) -> list[SideProblem]:
        """Everything that could not be decoded, or not be prepared for display."""
        return [
            SideProblem(side, problem.offset, problem.path, problem.reason)
            for side, problem in self.problems + self.annotations.problems
        ]

    def shown(self, side: Side) -> dict[str, Any] | None:
        """Return a body, or the shown token of a raw SASL exchange."""
        body = self.body(side)
        return body.value if body else self.shown_tokens[SIDES.index(side)]

    def body(self, side: Side) -> Body | None:
        """Return one side as decoded."""
        return self.request if side == "request" else self.response

    def size(self, side: Side) -> int:
        """Return the bytes of one side."""
        return self.request_size if side == "request" else self.response_size

    def find_errors(self) -> None:
        """Set the errors in the decoded response, and those of them that are expected."""
        key, response = self.api_key, self.response
        if key is None or response is None or response.value is None:
            return
        self.errors = found = errors_in(key, response.read_as, response.value)
        if found and self.interventions.has_injected_errors:
            self.expected = found
        elif found:
            self.expected = expected_errors(key, response.asked, self.request_body, response.value, found)

    def find_wait(self) -> None:
        """Set the part of the latency that the protocol intends, according to the decoded bodies."""
        key, response = self.api_key, self.response
        if key is not None and response is not None and self.latency is not None:
            asked = None if self.request is None else self.request.value
            self.wait, self.wait_reason = designed_wait_ns(
                key, response.read_as, asked, response.value, self.latency
            )


class ExchangeReader:
    """Decodes the exchanges of a capture, in the order of their numbers.

    :param show_secrets: leave passwords, tokens and keys readable
    :param payload: how much of records to show: ``full``, ``preview`` or ``none``
    :param annotate: prepare bodies for display; False leaves records as bytes and is faster
    :param summary: summarise each exchange
    :param live: the capture still grows: :meth:`take` numbers exchanges as they become complete, :meth:`extend` as they
        are passed to it
    :param knowledge: the session context, to be shared by several readers of one capture; then readers learn only in
        :meth:`learn_from`
    """

    def __init__(
        self,
        capture: Capture,
        *,
        show_secrets: bool = False,
        payload: Payload = "full",
        annotate: bool = True,
        summary: bool = True,
        live: bool = False,
        knowledge: SessionContext | None = None,
    ) -> None:
        self.capture = capture
        self._learns = knowledge is None
        self.knowledge = SessionContext() if knowledge is None else knowledge
        self._annotator = Annotator(self.knowledge, show_secrets=show_secrets, payload=payload)
        self._annotate = annotate
        self._with_summary = summary
        self.first = 1
        """Number of the exchange at index 0."""
        self._order = array("q", () if live else capture.table.order().tolist())
        self._ahead = FramePrefetch(capture)
        self._equal = EqualMessages()
        self._learned = 0
        self._naming: dict[tuple[int, int, bytes], int] = {}
        """API key, version and content of responses that named topics."""

    def __len__(self) -> int:
        return len(self._order)

    def __iter__(self) -> Iterator[Exchange]:
        return self.several(range(len(self._order)))

    def several(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield the exchanges at `indexes` as :meth:`exchange` does, with their frames read together."""
        begin = 0
        while begin < len(indexes):
            rows = [self._order[index] for index in indexes[begin : begin + MOST_ROWS]]
            end = begin + self._ahead.fetch(rows)
            for index in indexes[begin:end]:
                yield self.exchange(index)
            begin = end

    @property
    def rows(self) -> Int64s:
        """Rows of the exchange table, by index. A copy, because an array with an exported buffer cannot grow."""
        return np.array(self._order, np.int64)

    def sizes(self, indexes: Int64s) -> Int64s:
        """Return the bytes of both frames of the exchanges at `indexes`."""
        rows = self.rows[indexes]
        request, response = (self.capture.table.column(f"{side}_size")[rows] for side in SIDES)
        sizes: Int64s = request.astype(np.int64) + response
        return sizes

    def exchange(self, index: int) -> Exchange:
        """Return the exchange at ``index`` (0-based) with both bodies decoded.

        Earlier exchanges with facts about it, such as the names of topic IDs, are read first if they were not yet. If
        the decoder fails, the exchange has no bodies and a problem that says so; the capture records the internal
        error.
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
        return self.first + index

    def take(self, rows: Iterable[int]) -> Iterator[Exchange]:
        """Number further rows of the table, those that :meth:`Capture.updates` yields, and decode them one by one.

        Only these rows have an index afterwards, so that reading for days takes no more memory than for a moment.
        """
        self.first += len(self._order)
        self._order, self._learned = array("q", rows), 0
        return self.several(range(len(self._order)))

    def extend(self, rows: Int64s) -> None:
        """Number further rows of the table, complete or not, and keep the earlier ones."""
        self._order.frombytes(np.ascontiguousarray(rows, np.int64).tobytes())

    def drop(self, count: int, renumbered: Int64s) -> None:
        """Follow the table in dropping rows: the first `count` indexes are removed, numbers stay.

        :param renumbered: new row for each old row of the table
        """
        kept = renumbered[self.rows[count:]]
        self.first += count
        self._order = array("q", kept.tobytes())

    def reorder(self, rows: Int64s) -> None:
        """Number the same rows again, in the order of `rows`."""
        self._order = array("q", np.ascontiguousarray(rows, np.int64).tobytes())

    def learn_from(self, rows: Int64s) -> Iterator[None]:
        """Learn facts about other exchanges from those in `rows` of the table; yield after each that has some."""
        keys = self.capture.table.column("api_key")[rows]
        telling = rows[np.isin(keys, _TELLING)].tolist()
        yield from self._learn_rows(telling, [0] * len(telling))

    def _learn_rows(self, rows: Sequence[int], numbers: Sequence[int]) -> Iterator[None]:
        """Learn from exchanges, whose frames are read together; yield after each."""
        ahead, end = FramePrefetch(self.capture), 0
        for at, (row, number) in enumerate(zip(rows, numbers, strict=True)):
            if at == end:
                end += ahead.fetch(rows[at : at + MOST_ROWS])
            self._learn_row(ahead, row, number)
            yield

    def _learn_row(self, ahead: FramePrefetch, at: int, number: int) -> None:
        try:
            row, request, response = ahead[at]
            first = None if response is None else self._repeats(row, response)
            if first is not None:
                self.knowledge.repeat(row["connection"], first)
            else:
                made = self._bare(at, row, number)
                self._decode(made, request, response)
                self._observe(made)
        except Exception as error:
            self.capture.faults.note(error, LEARNING, number)

    def _repeats(self, row: dict[str, Any], response: FrameBytes) -> int | None:
        """Return the connection of an equal response, if there was one: clients ask whenever they connect."""
        if row["api_key"] not in TOPIC_NAMES:
            return None
        kind = row["api_key"], row["version"], content(response.payload, "response")
        first = self._naming.get(kind)
        if first is None:
            if len(self._naming) == _MOST_NAMING:
                self._naming.clear()
            self._naming[kind] = row["connection"]
        return first

    def pass_over(self, rows: Iterable[int]) -> None:
        """Number rows as :meth:`take` does, but only learn from them."""
        self.first += len(self._order)
        self._order, self._learned = array("q", rows), 0
        self.learn(len(self._order))

    def learn(self, index: int) -> None:
        """Learn facts about later exchanges from those before ``index``, unless that was done."""
        if not self._learns:
            return
        keys = self.capture.table.column("api_key")
        if index - self._learned > _MANY:
            rows = np.array(self._order[self._learned : index], np.int64)
            observed = np.flatnonzero(np.isin(keys[rows], _TELLING))
            numbers = (observed + self.number(self._learned)).tolist()
            deque(self._learn_rows(rows[observed].tolist(), numbers), maxlen=0)
        else:
            for earlier in range(self._learned, index):
                if int(keys[self._order[earlier]]) in OBSERVED_APIS:
                    self._learn_row(self._ahead, self._order[earlier], self.number(earlier))
        self._learned = max(self._learned, index)

    def _observe(self, made: Exchange) -> None:
        if made.api_key in OBSERVED_APIS:
            request = made.request.value if made.request else None
            response = made.response.value if made.response else None
            self.knowledge.observe(made.connection, made.api_key, request, response)

    def row(self, index: int) -> int:
        """Return the table row of the exchange at ``index``."""
        return int(self._order[index])

    def bare(self, index: int) -> Exchange:
        """Return the exchange at ``index`` from the table alone, without its bodies."""
        row = self._order[index]
        return self._bare(row, self.capture.table.row(row), self.number(index))

    def bares(self, indexes: Sequence[int]) -> Iterator[Exchange]:
        """Yield what :meth:`bare` returns for `indexes`, with the rows read together."""
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
        names = capture.names
        known = row["api_key"] >= 0
        done = capture.notes.interventions(at, row)
        logs = capture.notes.broker_logs
        logged = logs.of_row(at, row["packet"]) if len(logs) else None
        both = row["response_size"] > 0 and row["request_size"] > 0
        latency: int | None = row["response_first"] - row["request_last"] if both else None
        kproxy_time = 0
        if done.intervene:
            kproxy_time = done.delay_ns or 0
            if latency is not None and done.answered:
                kproxy_time, latency = max(latency, 0), None
            elif latency is not None:
                latency = cluster_time(latency, done)
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
            latency=latency,
            kproxy_time=kproxy_time,
            request_size=row["request_size"] + (0 if logged is None else logged.request_left_out),
            response_size=row["response_size"] + (0 if logged is None else logged.response_left_out),
            flag=flag,
            request=None,
            response=None,
            note=capture.notes.of(at),
            interventions=done,
            frame=row["packet"],
            broker_log=logged,
            client_names=names.of(client) if names else (),
            broker_names=names.of(broker) if names else (),
            upstream=capture.upstream_of(connection),
        )

    def _failed(self, index: int, error: Exception) -> Exchange:
        """Record the error, and return the exchange without its bodies: nothing decoded can be relied on."""
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
        reason = f"an internal error in kproxy: decoding failed: {described(error)}"
        made.problems.append((side, Problem(-1, "", reason)))
        return made

    def _read(self, index: int) -> Exchange:
        at = self._order[index]
        row, request, response = self._ahead[at]
        made = self._bare(at, row, self.number(index))
        if made.flag and Flag.SASL_TOKEN in made.flag:
            made.tokens = [None if frame is None else frame.payload for frame in (request, response)]
        else:
            self._decode(made, request, response)
        return made

    def _decode(self, made: Exchange, request: FrameBytes | None, response: FrameBytes | None) -> None:
        # preparing a body for display changes its values
        equal = None if self._annotate else self._equal
        if request is not None:
            decode_asked = decode_request if equal is None else partial(equal.request, key=made.api_key)
            made.request = decode_asked(request.payload, complete=request.complete)
            self._problems(made, "request", request, made.request)
        if response is None:
            return
        if made.api_key is None or made.version is None:
            reason = "the request of this response was not captured, so its API is not known"
            made.problems.append(("response", Problem(-1, "", reason)))
            made.response = decode_response(response.payload, UNKNOWN_API, UNKNOWN_API)
            made.response.guess = ""
            return
        decode = decode_response if equal is None else equal.response
        made.response = decode(response.payload, made.api_key, made.version, complete=response.complete)
        self._problems(made, "response", response, made.response)

    @staticmethod
    def _problems(made: Exchange, side: Side, frame: FrameBytes, body: Body) -> None:
        if not frame.complete:
            made.problems.append((side, Problem(frame.have, "", frame.reason)))
        if frame.complete or frame.payload:  # a frame that is missing completely has no further problems
            made.problems.extend((side, problem) for problem in body.problems)

    def _read_tokens(self, made: Exchange) -> None:
        """Decode raw SASL tokens. This is done always: they are few, and their content is their only summary."""
        for index, side in enumerate(SIDES):
            token = made.tokens[index]
            if token is not None:
                made.shown_tokens[index] = self._annotator.token(
                    token, side, made.annotations, connection=made.connection
                )
        decoded = made.annotations.decoded.get("request.token")
        mechanism = self.knowledge.mechanism(made.connection) or ""
        if isinstance(decoded, dict):
            mechanism = mechanism or str(decoded.get("mechanism", ""))
        made.summary = (" ".join(filter(None, (mechanism, identity(decoded)))), "")

    def _finish(self, made: Exchange) -> None:
        made.find_errors()
        made.find_wait()
        if made.flag and Flag.SASL_TOKEN in made.flag:
            self._read_tokens(made)
        if self._with_summary and made.api_key is not None:
            made.summary = summary_of(made, self.knowledge.topic_name, made.errors)
        if self._annotate:
            annotate(made, self._annotator)


def summary_of(
    exchange: Exchange, names: Names, errors: list[ResponseError] | None = None
) -> tuple[str, str]:
    """Return the summaries of the decoded request and response.

    :param errors: the errors in the response; searched for if None
    """
    key, request, response = exchange.api_key, exchange.request, exchange.response
    if key is None:
        return "", ""
    asked, text = None if request is None else request.value, ""
    if request is not None and asked is not None:
        text = request_summary(key, request.asked, asked, names)
    if response is None or response.value is None:
        return text, ""
    latency = -1 if exchange.latency is None else exchange.latency
    return text, response_summary(key, response.read_as, asked, response.value, names, latency, errors)


def annotate(made: Exchange, annotator: Annotator) -> None:
    """Prepare the decoded bodies for display."""
    request, response, out = made.request, made.response, made.annotations
    if request is not None:
        annotator.annotate(request, "request", out, connection=made.connection)
    if response is not None:
        asked = None if request is None else request.value
        annotator.annotate(response, "response", out, connection=made.connection, request=asked)


@lru_cache
def _flag(value: int) -> Flag:
    """Return the flags of a table row; cached, because making one takes longer than the rest of a row."""
    return Flag(value)


_SASL_TOKEN = int(Flag.SASL_TOKEN)
_TELLING = sorted(OBSERVED_APIS)
_MANY = 64
"""Exchanges from which on numpy finds the telling ones faster."""
_MOST_NAMING = 64
"""Most responses that are kept to recognise equal ones."""
