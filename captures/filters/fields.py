"""The named fields of the filter language: one entry each, from which code, completion and documentation are made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from captures.exchanges import Flag
from captures.filters.paths import apis_with
from captures.interventions import FLAGS as INTERVENTION_FLAGS
from captures.interventions import Interventions
from dissectors.apis import NAMES
from dissectors.domains import ACKS, ERROR_CODE, Domain
from dissectors.error_codes import ERRORS


class Kind(StrEnum):
    """What a field's values are; it decides which operators and which values fit."""

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


@dataclass(frozen=True)
class Field:
    """One named field.

    :ivar name: as written in filters
    :ivar doc: one line for people
    :ivar body: expression for the value over ``x`` (the exchange), ``c`` (the context) and the functions of
        :mod:`captures.filters.reads`; None where there is no value
    :ivar column: whether columns tell it; they have it under ``name``
    :ivar many: whether there may be several values, of which one has to fit
    :ivar mentions: what an API's messages have to be able to mention (:func:`captures.filters.paths.apis_with`)
    :ivar response: whether there is no value without a response
    :ivar synonyms: other names
    :ivar domain: what names its numbers
    :ivar example: a test of it, for documentation
    """

    name: str
    kind: Kind
    doc: str
    body: str
    column: bool = False
    many: bool = False
    mentions: str = ""
    response: bool = False
    synonyms: tuple[str, ...] = ()
    domain: Domain | None = None
    example: str = ""

    def possible_apis(self) -> frozenset[int] | None:
        """Keys of the APIs whose exchanges may have a value, None for all."""
        return apis_with(self.mentions) if self.mentions else None


N, D, S, B, T = Kind.NUMBER, Kind.DURATION, Kind.SIZE, Kind.BOOL, Kind.TEXT


def _flag(name: str, flag: Flag, doc: str, *synonyms: str) -> Field:
    return Field(name, B, doc, f"bool(x.flag & {int(flag)})", column=True, synonyms=synonyms, example=name)


_DAMAGED = Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED

FIELDS: tuple[Field, ...] = (
    Field("number", N, "number of the exchange in the capture, from 1", "x.number", True, example="number in {1..50}"),
    Field("time", Kind.TIME, "when the request began: 5s (after the first exchange), 09:14:03, 2026-11-21T09:14:03Z",
          "x.time", True, example="time >= 5s"),
    Field("api", Kind.API, "the API; former names and keys too, letters of either case", "x.api", True,
          example="api == Fetch"),
    Field("api.key", N, "number of the API", "x.api_key", True, synonyms=("api_key",), example="api.key == 1"),
    Field("version", N, "version of the API", "x.version", True, synonyms=("api.version",), example="version < 4"),
    Field("client_id", T, "client ID", "x.client_id", True, synonyms=("client.id",), example='client_id ~ "^app-"'),
    Field("client", Kind.ADDRESS, "address or name of the client: host, host:port, :port or network",
          "ends(x.client, x.client_names)", True, many=True, example="client == 10.0.0.0/8"),
    Field("client.host", Kind.HOST, "address or name of the client without its port",
          "hosts(x.client, x.client_names)", True, many=True, example="client.host == 10.0.0.7"),
    Field("client.port", N, "port of the client", "port_of(x.client)", True, example="client.port == 41078"),
    Field("broker", Kind.ADDRESS, "address or name of the broker: host, host:port, :port or network",
          "ends(x.broker, x.broker_names)", True, many=True, example="broker == 10.0.0.1:9092"),
    Field("broker.host", Kind.HOST, "address or name of the broker without its port",
          "hosts(x.broker, x.broker_names)", True, many=True, example="broker.host != 10.0.0.1"),
    Field("broker.port", N, "port of the broker", "port_of(x.broker)", True, example="broker.port == 9092"),
    Field("connection", N, "number of the TCP connection", "x.connection", True, example="connection == 7"),
    Field("correlation_id", N, "correlation ID", "x.correlation_id", True, synonyms=("correlation",),
          example="correlation_id == 42"),
    Field("latency", D, "measured: from the end of the request to the beginning of the response", "x.latency", True,
          example="latency > 100ms"),
    Field("excess", D, "latency without designed waiting (long polls, barriers, quotas)",
          "(x.latency if x.latency is None else x.latency - x.wait)", response=True, example="excess > 100ms"),
    Field("wait", D, "designed waiting within the latency; 0 if there is none", "x.wait", example="wait > 1s"),
    Field("request.size", S, "bytes of the request with its size field; 0 if there is none", "x.request_size", True,
          example="request.size > 1MB"),
    Field("response.size", S, "bytes of the response with its size field; 0 if there is none", "x.response_size", True,
          example="response.size > 1MiB"),
    Field("size", S, "bytes of request and response", "x.request_size + x.response_size", True, example="size > 64kB"),
    Field("error", Kind.ERROR, "errors that do not belong to a normal conversation", "unexpected_errors(x, c)",
          many=True, response=True, domain=ERROR_CODE, example="error == NOT_LEADER_OR_FOLLOWER"),
    Field("error.any", Kind.ERROR, "all errors, expected ones too", "all_errors(x, c)", many=True,
          response=True, domain=ERROR_CODE, example="error.any == MEMBER_ID_REQUIRED"),
    Field("error.message", T, "what the broker says about an error", "error_messages(x, c)", many=True,
          response=True, example='error.message ~ "timed out"'),
    Field("request", B, "there is a request", "x.request_size > 0", True, example="not request"),
    Field("response", B, "there is a response", "x.response_size > 0", True, example="response"),
    _flag("unanswered", Flag.UNANSWERED, "no answer came before the connection or the capture ended"),
    _flag("no_response", Flag.NO_RESPONSE_EXPECTED, "no answer is due (Produce with acks=0)", "no_response_expected"),
    _flag("orphan", Flag.ORPHAN, "a response whose request was not captured"),
    _flag("sasl", Flag.SASL_TOKEN, "raw SASL tokens without Kafka headers", "sasl_token"),
    _flag("damaged", _DAMAGED, "bytes of request or response are missing", "lossy"),
    _flag("request.damaged", Flag.REQUEST_DAMAGED, "bytes of the request are missing", "request_damaged"),
    _flag("response.damaged", Flag.RESPONSE_DAMAGED, "bytes of the response are missing", "response_damaged"),
    _flag("conflicting", Flag.CONFLICTING, "bytes of it were captured twice, with differing content"),
    _flag("resynchronised", Flag.RESYNCHRONISED, "it comes after bytes that belong to no frame"),
    Field("expected", B, "has errors that belong to a normal conversation", "bool(x.expected)",
          response=True, synonyms=("expected_error",), example="expected"),
    Field("waited", B, "part of the latency is designed waiting", "x.wait > 0", example="waited"),
    Field("guess", B, "read in another version than announced",
          "bool(x.request is not None and x.request.guess or x.response is not None and x.response.guess)",
          example="guess"),
    Field("problem", B, "something could not be decoded", "bool(x.problems or x.annotations.problems)",
          example="problem"),
    Field("changed", B, "kproxy replaced values in it on its way", "x.interventions.changed", True, example="changed"),
    Field("fault", T, "what a fault rule of kproxy did to it; the rule too", "x.interventions.faults", True, many=True,
          example='fault ~ delay'),
    Field("held", D, "how long kproxy held it; no value where it did not", "x.interventions.held_ns", True,
          example="held > 5s"),
    Field("answered_by_kproxy", B, "kproxy answered in the place of the broker", "x.interventions.answered", True,
          example="answered_by_kproxy"),
    Field("not_forwarded", B, "kproxy did not send the request on", "x.interventions.not_forwarded", True,
          example="not_forwarded"),
    Field("flags", T, "all of these by the names that kproxy read --json gives them", "x.flags", many=True,
          synonyms=("flag",), example="flags == response_guessed"),
    Field("topic", T, "topics that request or response names", "topics(x, c)", many=True, mentions="topic",
          example='topic ~ "^orders"'),
    Field("partition", N, "partitions that request or response names, of any topic", "partitions(x, c)", many=True,
          mentions="topic", example="partition in {0..3}"),
    Field("topic_partition", T, "topics with a partition", "topic_partitions(x, c)", many=True, mentions="topic",
          synonyms=("tp",), example="topic_partition == orders-3"),
    Field("group", T, "groups that the messages name; for Fetch and Produce the inferred one", "groups(x, c)",
          many=True, mentions="group", example="group == billing"),
    Field("group.inferred", B, "the group was inferred from other exchanges of the client", "group_inferred(x, c)",
          mentions="group", example="group.inferred"),
    Field("member", T, "member IDs", "group_members(x, c)", many=True, mentions="member", example="member ~ ^app-1"),
    Field("transactional_id", T, "transactional IDs", "transactional_ids(x, c)", many=True, mentions="transaction",
          example="transactional_id == payments"),
    Field("producer_id", N, "producer IDs, in batch headers too", "producer_ids(x, c)", many=True, mentions="producer",
          example="producer_id == 4711"),
    Field("acks", N, "replicas that a Produce waits for", "acks(x, c)", mentions="acks", domain=ACKS,
          example="acks == ALL"),
    Field("throttle", D, "throttle time that the response announces", "throttle(x, c)", mentions="throttle",
          response=True, example="throttle > 0"),
    Field("codec", T, "compression of the record batches: none, gzip, snappy, lz4, zstd", "codecs(x, c)", many=True,
          mentions="records", example="codec == zstd"),
    Field("records", N, "records in Produce, Fetch and the like, as batch headers tell; without control records",
          "record_count(x, c)", mentions="records", example="records > 500"),
    Field("batches", N, "record batches in Produce, Fetch and the like", "batch_count(x, c)", mentions="records",
          example="batches > 10"),
    Field("records.size", S, "bytes of the record batches as they are on the wire, compressed or not",
          "record_bytes(x, c)", mentions="records", example="records.size > 1MB"),
    Field("key", Kind.BYTES, "keys of the records", "keys(x, c)", many=True, mentions="records", example="key == k1"),
    Field("value", Kind.BYTES, "values of the records", "record_values(x, c)", many=True, mentions="records",
          example='value contains "id"'),
    Field("header", T, "names of record headers", "header_names(x, c)", many=True, mentions="records",
          example="header == traceparent"),
    Field("header.value", Kind.BYTES, "values of record headers", "header_values(x, c)", many=True, mentions="records",
          example="header.value contains 4bf9"),
    Field("marked", B, "marked by you", "(x.note.marked or c.selected('marked', x.number))", True, example="marked"),
    Field("comment", T, "comment on the exchange", "(x.note.comment or c.comments.get(x.number))", True,
          example='comment ~ "look"'),
)  # fmt: skip

PROJECTED: Mapping[str, frozenset[str]] = {
    **dict.fromkeys(("excess", "wait", "waited"), frozenset({"waits"})),
    **dict.fromkeys(("error", "error.any", "error.message", "expected"), frozenset({"errors"})),
    **dict.fromkeys(("topic", "partition", "topic_partition"), frozenset({"topics"})),
    **dict.fromkeys(("group", "group.inferred"), frozenset({"groups", "topics", "replica"})),
    **dict.fromkeys(("records", "batches", "records.size", "codec"), frozenset({"records"})),
    "member": frozenset({"members"}),
    "transactional_id": frozenset({"transactions"}),
    "producer_id": frozenset({"producers"}),
    "acks": frozenset({"acks"}),
    "throttle": frozenset({"throttle"}),
}
"""What fields need of the bodies (:data:`captures.exchanges.projected.NEEDS`). The others need them in full, or not at
all: what annotation finds out, and the content of records, of which it masks secrets."""

BY_NAME: Mapping[str, Field] = {name: field for field in FIELDS for name in (field.name, *field.synonyms)}
"""Fields by name and synonym."""

COLUMN_FLAGS = {flag.name.lower(): flag for flag in Flag if flag.name}
"""The values of ``flags`` that columns tell."""
BODY_FLAGS = ("request_guessed", "response_guessed", "error", "expected_error", "waited", "problem")
"""Those that they do not (:attr:`captures.exchanges.Exchange.flags`)."""

INTERVENTION_FIELDS: Mapping[str, Callable[[Interventions], Any]] = {
    "changed": lambda done: done.changed,
    "fault": lambda done: done.faults,
    "held": lambda done: done.held_ns,
    "answered_by_kproxy": lambda done: done.answered,
    "not_forwarded": lambda done: done.not_forwarded,
}
"""What kproxy's proxy did, which is no column but known of the few exchanges to which something was done."""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")

NAMED_VALUES: Mapping[str, Callable[[], Mapping[str, str]]] = {
    "api": lambda: dict.fromkeys(NAMES, ""),
    "error": lambda: {error.name: error.advice for error in ERRORS if error.code},
    "error.any": lambda: {error.name: error.advice for error in ERRORS if error.code},
    "acks": lambda: dict.fromkeys(ACKS.values.values(), ACKS.doc),
    "flags": lambda: dict.fromkeys((*COLUMN_FLAGS, *BODY_FLAGS, *INTERVENTION_FLAGS), ""),
    "codec": lambda: dict.fromkeys(CODECS, ""),
}
"""For completion: the values that a field can have, with what they mean."""
