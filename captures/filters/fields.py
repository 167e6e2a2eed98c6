"""The named fields of the filter language.

An entry of :data:`FIELDS` defines a field completely: its value, how columns decide it, which parts of the messages are
decoded otherwise, and the texts for completion and documentation. A field whose column is :data:`DECODED` is slow; the
reference says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any

import msgspec

from captures.exchanges import Exchange, Flag
from captures.filters import field_columns as decide
from captures.filters import reads
from captures.filters import table_columns as columns
from captures.filters.context import Context
from captures.filters.field_columns import DECODED, Column, numbers, texts
from captures.filters.paths import apis_with
from captures.interventions import FLAGS as INTERVENTION_FLAGS
from captures.interventions import Interventions
from dissectors.apis import NAMES
from dissectors.domains import ACKS, COMPRESSION, ERROR_CODE, Domain
from dissectors.error_codes import ErrorCode
from dissectors.units import MS


class Kind(StrEnum):
    """The kind of a field's values; it decides which operators and values are valid."""

    NUMBER = "number"
    DURATION = "duration"
    SIZE = "size"
    TIME = "time"
    TEXT = "text"
    API = "API"
    ERROR = "error"
    ADDRESS = "address"
    HOST = "host"
    BYTES = "bytes"
    BOOL = "yes or no"


class Availability(StrEnum):
    """The frame on its way through a proxy in which a field is known."""

    REQUEST = "request"
    RESPONSE = "response"
    """Only in a response, or in both together."""
    CAPTURE = "capture"
    """In no frame: it concerns an exchange in a capture."""


class Field(msgspec.Struct, frozen=True):
    """One named field.

    :ivar name: as written in filters
    :ivar available: the frame on its way in which it is known
    :ivar doc: one line for people
    :ivar value: returns the value or values; None if there is none
    :ivar column: how columns decide on it
    :ivar many: whether there may be several values, of which one has to match
    :ivar mentions: kind of thing that an API's messages must be able to mention
        (:func:`captures.filters.paths.apis_with`)
    :ivar response: whether there is no value without a response
    :ivar synonyms: other names
    :ivar domain: names of its numbers
    :ivar choices: the names of its values, with their meaning
    :ivar example: an example test, for documentation
    """

    name: str
    kind: Kind
    available: Availability
    doc: str
    value: Callable[[Exchange, Context], Any]
    column: Column = DECODED
    many: bool = False
    mentions: str = ""
    response: bool = False
    synonyms: tuple[str, ...] = ()
    domain: Domain | None = None
    choices: Callable[[], Mapping[str, str]] = dict
    example: str = ""

    def possible_apis(self) -> frozenset[int] | None:
        """Return the keys of the APIs whose exchanges may have a value, None for all."""
        return apis_with(self.mentions) if self.mentions else None


N, D, S, B, T = Kind.NUMBER, Kind.DURATION, Kind.SIZE, Kind.BOOL, Kind.TEXT
REQUEST, RESPONSE, CAPTURE = Availability.REQUEST, Availability.RESPONSE, Availability.CAPTURE

_FLAGS = {flag.name.lower(): flag for flag in Flag if flag.name}
_BODY_FLAGS = ("request_guessed", "response_guessed", "error", "expected_error", "waited", "problem")
"""Flags that only bodies reveal (:attr:`captures.exchanges.Exchange.flags`)."""


def _flag(name: str, flag: Flag, doc: str, *synonyms: str, available: Availability = CAPTURE) -> Field:
    column = decide.truth(lambda table: table.flags(flag))
    return Field(
        name, B, available, doc, lambda x, _: bool(x.flag & flag), column, synonyms=synonyms, example=name
    )


def _done(value: Callable[[Interventions], Any]) -> Column:
    """Return the column of an intervention of kproxy's proxy, which few exchanges have and the table lacks."""
    return decide.by_number(lambda context: context.interventions, value)


def _measured(name: str, attribute: str, doc: str) -> Field:
    """Return the field of a time that the broker has measured and logged in its request log."""
    return Field(
        name, D, CAPTURE, f"{doc}, according to the broker's request log",
        lambda x, _: None if x.broker_log is None else getattr(x.broker_log, attribute),
        numbers(columns.broker_time(attribute)), example=f"{name} > 10ms",
    )  # fmt: skip


def _named(names: Iterable[str], doc: str = "") -> Callable[[], Mapping[str, str]]:
    return lambda: dict.fromkeys(names, doc)


_apis = _named(NAMES)
_acks = _named(ACKS.values.values(), ACKS.doc)
_codecs = _named(COMPRESSION.values.values(), COMPRESSION.doc)
_flag_names = _named((*_FLAGS, *_BODY_FLAGS, *INTERVENTION_FLAGS))


def _errors() -> Mapping[str, str]:
    return {error.name: error.advice for error in ErrorCode if error}


FIELDS: tuple[Field, ...] = (
    Field("number", N, CAPTURE, "number of the exchange in the capture, from 1", lambda x, _: x.number,
          numbers(columns.number), example="number in {1..50}"),
    Field("time", Kind.TIME, REQUEST,
          "when the request started: 5s (after the first exchange), 09:14:03, 2026-11-21T09:14:03Z",
          lambda x, _: x.time, numbers(columns.time), example="time >= 5s"),
    Field("api", Kind.API, REQUEST, "the API; former names and keys too, in either case", lambda x, _: x.api,
          texts(columns.api), choices=_apis, example="api == Fetch"),
    Field("api.key", N, REQUEST, "number of the API", lambda x, _: x.api_key, numbers(columns.api_key),
          synonyms=("api_key",), example="api.key == 1"),
    Field("version", N, REQUEST, "version of the API", lambda x, _: x.version,
          numbers(columns.of_known_api("version")), synonyms=("api.version",), example="version < 4"),
    Field("client_id", T, REQUEST, "client ID", lambda x, _: x.client_id, texts(columns.client_id),
          synonyms=("client.id",), example='client_id ~ "^app-"'),
    Field("client", Kind.ADDRESS, REQUEST, "the client: its ID, name or address: host, host:port, :port or network",
          lambda x, _: reads.ends(x.client, x.client_names), texts(columns.client), many=True,
          example="client == 10.0.0.0/8"),
    Field("client.host", Kind.HOST, REQUEST, "address or name of the client without its port",
          lambda x, _: reads.hosts(x.client, x.client_names), texts(columns.host(columns.client)), many=True,
          example="client.host == 10.0.0.7"),
    Field("client.port", N, REQUEST, "port of the client", lambda x, _: reads.port_of(x.client),
          texts(columns.client, reads.port_of), example="client.port == 41078"),
    Field("broker", Kind.ADDRESS, REQUEST, "address or name of the broker: host, host:port, :port or network",
          lambda x, _: reads.ends(x.broker, x.broker_names), texts(columns.broker), many=True,
          example="broker == 10.0.0.1:9092"),
    Field("broker.host", Kind.HOST, REQUEST, "address or name of the broker without its port",
          lambda x, _: reads.hosts(x.broker, x.broker_names), texts(columns.host(columns.broker)), many=True,
          example="broker.host != 10.0.0.1"),
    Field("broker.port", N, REQUEST, "port of the broker", lambda x, _: reads.port_of(x.broker),
          texts(columns.broker, reads.port_of), example="broker.port == 9092"),
    Field("broker.id", N, REQUEST, "node ID of the broker, if kproxy's proxy has recorded the capture and knows it",
          lambda x, _: x.upstream.node_id, numbers(columns.broker_id), synonyms=("broker_id",),
          example="broker.id == 2"),
    Field("cluster", T, REQUEST, "the name that the proxy's user gave to the broker's cluster",
          lambda x, _: x.upstream.cluster or None, texts(columns.cluster), example="cluster == east"),
    Field("connection", N, REQUEST, "number of the TCP connection", lambda x, _: x.connection,
          numbers(columns.plain("connection")), example="connection == 7"),
    Field("correlation_id", N, REQUEST, "correlation ID", lambda x, _: x.correlation_id,
          numbers(columns.correlation_id), synonyms=("correlation",), example="correlation_id == 42"),
    Field("latency", D, RESPONSE, "from the end of the request to the start of the broker's response, without the"
          " time in kproxy",
          lambda x, _: x.latency, numbers(columns.latency), example="latency > 100ms"),
    Field("excess", D, RESPONSE, "latency without designed waiting (long polls, barriers, quotas)",
          lambda x, _: (x.latency if x.latency is None else x.latency - x.wait), decide.EXCESS, response=True,
          example="excess > 100ms"),
    Field("wait", D, RESPONSE, "designed waiting within the latency; 0 if there is none", lambda x, _: x.wait,
          decide.WAIT, example="wait > 1s"),
    _measured("broker.queue", "request_queue", "how long the request waited for a handler thread"),
    _measured("broker.local", "local", "how long the handler thread worked on it, its disk included"),
    _measured("broker.remote", "remote", "how long it waited for others: replicas, group members, new records"),
    _measured("broker.throttle", "throttle", "how long a quota held it back"),
    _measured("broker.response_queue", "response_queue", "how long the response waited for a network thread"),
    _measured("broker.send", "send", "how long the network thread sent the response"),
    Field("request.size", S, REQUEST, "bytes of the request with its size field; 0 if there is none",
          lambda x, _: x.request_size, numbers(columns.side_size("request")), example="request.size > 1MB"),
    Field("response.size", S, RESPONSE, "bytes of the response with its size field; 0 if there is none",
          lambda x, _: x.response_size, numbers(columns.side_size("response")), example="response.size > 1MiB"),
    Field("size", S, RESPONSE, "bytes of request and response", lambda x, _: x.request_size + x.response_size,
          numbers(columns.size), example="size > 64kB"),
    Field("error", Kind.ERROR, RESPONSE, "errors that do not belong to a normal conversation",
          reads.unexpected_errors, decide.message_numbers("errors", "error_codes"), many=True, response=True,
          domain=ERROR_CODE, choices=_errors, example="error == NOT_LEADER_OR_FOLLOWER"),
    Field("error.any", Kind.ERROR, RESPONSE, "all errors, expected ones too",
          lambda x, _: [error.code for error in x.errors],
          decide.message_numbers("errors", "error_codes", "expected_error_codes"), many=True,
          response=True, domain=ERROR_CODE, choices=_errors, example="error.any == MEMBER_ID_REQUIRED"),
    Field("error.message", T, RESPONSE, "the broker's text about an error",
          lambda x, _: [error.message for error in x.errors if error.message], decide.decoded("errors"),
          many=True, response=True, example='error.message ~ "timed out"'),
    Field("request", B, REQUEST, "there is a request", lambda x, _: x.request_size > 0,
          decide.truth(columns.requested), example="not request"),
    Field("response", B, RESPONSE, "there is a response", lambda x, _: x.response_size > 0,
          decide.truth(columns.answered), example="response"),
    _flag("unanswered", Flag.UNANSWERED, "the connection or the capture ended without a response"),
    _flag("not_recorded", Flag.NOT_RECORDED, "bytes are missing where its response may have been"),
    _flag("no_response", Flag.NO_RESPONSE_EXPECTED, "no response is expected (Produce with acks=0)",
          "no_response_expected", available=REQUEST),
    _flag("orphan", Flag.ORPHAN, "a response whose request was not captured"),
    _flag("sasl", Flag.SASL_TOKEN, "raw SASL tokens without Kafka headers", "sasl_token"),
    _flag("damaged", Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED, "bytes of request or response are missing", "lossy"),
    _flag("request.damaged", Flag.REQUEST_DAMAGED, "bytes of the request are missing", "request_damaged"),
    _flag("response.damaged", Flag.RESPONSE_DAMAGED, "bytes of the response are missing", "response_damaged"),
    _flag("conflicting", Flag.CONFLICTING, "bytes of it were captured twice, with differing content"),
    _flag("resynchronised", Flag.RESYNCHRONISED, "it follows bytes that belong to no frame"),
    _flag("request_logged", Flag.REQUEST_LOGGED, "its request is that of the broker's request log; packets lack it"),
    _flag("response_logged", Flag.RESPONSE_LOGGED, "its response is that of the broker's request log; packets lack it"),
    Field("expected", B, RESPONSE, "has errors that belong to a normal conversation, or that kproxy injected",
          lambda x, _: bool(x.expected),
          decide.EXPECTED, response=True, synonyms=("expected_error",), example="expected"),
    Field("waited", B, RESPONSE, "part of the latency is designed waiting", lambda x, _: x.wait > 0, decide.WAITED,
          example="waited"),
    Field("guess", B, REQUEST, "read in another version than announced",
          lambda x, _: any(body is not None and body.guess for body in (x.request, x.response)),
          DECODED, example="guess"),
    Field("problem", B, REQUEST, "something could not be decoded",
          lambda x, _: bool(x.problems or x.annotations.problems), DECODED, example="problem"),
    Field("kproxy", B, CAPTURE, "kproxy intervened: it did more than rewrite addresses", lambda x, _: x.intervened,
          _done(lambda done: done.intervene), synonyms=("intervened",), example="kproxy"),
    Field("kproxy.time", D, CAPTURE, "how long request and response stayed in kproxy for its rules and holds; no value"
          " if they did not", lambda x, _: x.interventions.delay_ns, _done(lambda done: done.delay_ns),
          example="kproxy.time > 1s"),
    Field("changed", B, CAPTURE, "kproxy changed values in it", lambda x, _: x.interventions.changed,
          _done(lambda done: done.changed), example="changed"),
    Field("fault", T, CAPTURE, "the effect of kproxy's fault rules on it; the rules too",
          lambda x, _: x.interventions.faults, _done(lambda done: done.faults), many=True, example="fault ~ delay"),
    Field("held", D, CAPTURE, "how long kproxy held it; no value if it did not",
          lambda x, _: x.interventions.held_ns, _done(lambda done: done.held_ns), example="held > 5s"),
    Field("answered_by_kproxy", B, CAPTURE, "kproxy answered instead of the broker",
          lambda x, _: x.interventions.answered, _done(lambda done: done.answered), example="answered_by_kproxy"),
    Field("not_forwarded", B, CAPTURE, "kproxy did not forward the request",
          lambda x, _: x.interventions.not_forwarded, _done(lambda done: done.not_forwarded),
          example="not_forwarded"),
    Field("flags", T, CAPTURE, "all flags by their names in kproxy read --json", lambda x, _: x.flags,
          decide.flags(_FLAGS, _BODY_FLAGS), many=True, synonyms=("flag",), choices=_flag_names,
          example="flags == response_guessed"),
    Field("topic", T, REQUEST, "topics named in request or response", reads.topics,
          decide.message_texts("topics", "topics"), many=True, mentions="topic", example='topic ~ "^orders"'),
    Field("partition", N, REQUEST, "partitions named in request or response, of any topic", reads.partitions,
          decide.message_numbers("topics", "partitions"), many=True, mentions="topic", example="partition in {0..3}"),
    Field("topic_partition", T, REQUEST, "topics with their partitions", reads.topic_partitions,
          decide.TOPIC_PARTITIONS, many=True, mentions="topic", synonyms=("tp",),
          example="topic_partition == orders-3"),
    Field("group", T, REQUEST, "groups named in the messages; for Fetch and Produce the inferred one", reads.groups,
          decide.GROUPS, many=True, mentions="group", example="group == billing"),
    Field("group.inferred", B, CAPTURE, "the group was inferred from other exchanges of the client",
          lambda x, c: c.groups is not None and c.groups.group_of(x)[1], decide.GROUP_INFERRED,
          mentions="group", example="group.inferred"),
    Field("member", T, REQUEST, "member IDs", reads.group_members, decide.message_texts("members", "members"),
          many=True, mentions="member", example="member ~ ^app-1"),
    Field("transactional_id", T, REQUEST, "transactional IDs", reads.transactional_ids,
          decide.decoded("transactions"), many=True, mentions="transaction", example="transactional_id == payments"),
    Field("producer_id", N, REQUEST, "producer IDs, including those in batch headers", reads.producer_ids,
          decide.decoded("producers"), many=True, mentions="producer", example="producer_id == 4711"),
    Field("acks", N, REQUEST, "replicas that a Produce waits for", reads.acks, decide.message_number("acks", "acks"),
          mentions="acks", domain=ACKS, choices=_acks, example="acks == ALL"),
    Field("throttle", D, RESPONSE, "throttle time announced by the response", reads.throttle,
          decide.message_number("throttle_time_ms", "throttle", factor=MS), mentions="throttle", response=True,
          example="throttle > 0"),
    Field("codec", T, REQUEST, f"compression of the record batches: {', '.join(COMPRESSION.values.values())}",
          lambda x, c: (batch["codec"] for batch in reads.batches(x, c)), decide.decoded("records"),
          many=True, mentions="records", choices=_codecs, example="codec == zstd"),
    Field("records", N, REQUEST,
          "records in Produce, Fetch and similar messages, by their batch headers; without control records",
          lambda x, c: reads.total(x, c, reads.announced), decide.message_number("records", "records"),
          mentions="records", example="records > 500"),
    Field("batches", N, REQUEST, "record batches in Produce, Fetch and similar messages",
          lambda x, c: reads.total(x, c, lambda _: 1), decide.message_number("batches", "records"),
          mentions="records", example="batches > 10"),
    Field("records.size", S, REQUEST, "bytes of the record batches on the wire, compressed or not",
          lambda x, c: reads.total(x, c, lambda batch: int(batch["size"])),
          decide.message_number("record_bytes", "records"), mentions="records", example="records.size > 1MB"),
    Field("key", Kind.BYTES, REQUEST, "keys of the records",
          lambda x, c: (each.key for each in reads.records(x, c) if each.key is not None), DECODED, many=True,
          mentions="records", example="key == k1"),
    Field("value", Kind.BYTES, REQUEST, "values of the records",
          lambda x, c: (each.value for each in reads.records(x, c) if each.value is not None), DECODED, many=True,
          mentions="records", example='value contains "id"'),
    Field("header", T, REQUEST, "names of record headers",
          lambda x, c: (name for name, _ in reads.headers(x, c)), DECODED, many=True, mentions="records",
          example="header == traceparent"),
    Field("header.value", Kind.BYTES, REQUEST, "values of record headers",
          lambda x, c: (value for _, value in reads.headers(x, c) if value is not None), DECODED, many=True,
          mentions="records", example="header.value contains 4bf9"),
    Field("marked", B, CAPTURE, "marked by you", lambda x, c: (x.note.marked or c.selected('marked', x.number)),
          decide.MARKED, example="marked"),
    Field("comment", T, CAPTURE, "comment on the exchange",
          lambda x, c: (x.note.comment or c.comments.get(x.number)),
          decide.by_number(lambda context: context.comments, lambda text: text), example='comment ~ "look"'),
)  # fmt: skip

BY_NAME: Mapping[str, Field] = {name: field for field in FIELDS for name in (field.name, *field.synonyms)}
"""Fields by name and synonym."""
