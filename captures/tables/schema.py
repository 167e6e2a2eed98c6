"""The tables of a capture: every table and column with its type, unit and meaning.

Columns have the names of the keys of ``read --json``, ``groups --json``, ``diagnose --json``, ``api-versions --json``
and ``stats --json`` where they are the same thing, and the values too. The rules that hold for all tables:

- The order of columns is stable, new ones come last, and :data:`VERSION` counts what is not compatible.
- ``run`` comes first: which run into the folder wrote the row. Exchanges are counted again in each run, so that tables
  are joined by ``run`` and ``number``, or ``run`` and ``connection``.
- Every table has ``time``, when what the row tells of began. Rows lie in folders by its date and hour (UTC), which are
  in the paths and not in the files.
- A moment ``X`` is a timestamp in microseconds (UTC), as Spark has it, with ``X_ns`` beside it, in nanoseconds since
  the epoch. Durations end in the name of their unit, unless Kafka's own name of the field does not.
- No unsigned integers and no dictionaries, which Spark does not have.

Types are written in Spark's way (``array<struct<topic:string,partition:int>>``), which DuckDB reads in a like way;
:func:`schema` gives them as Arrow's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from captures.export.parquet import ParquetMissing
from dissectors.codec import KNOWN_CODECS

if TYPE_CHECKING:
    import pyarrow as pa

VERSION = 1
"""Of the schema: counted up when a column goes, or changes its type or meaning; not when one is added."""


class Needs(Enum):
    """What has to be read of exchanges to know a column. Each needs what is before it, too."""

    HEADER = "header"
    """The exchange table alone: nothing is decoded."""
    BODIES = "bodies"
    """Both bodies, decoded."""
    SHOWN = "shown"
    """Bodies made ready to be shown: records decompressed, secrets masked. Much slower."""


class Column(NamedTuple):
    """One column.

    :ivar type: in the words of Spark SQL
    :ivar unit: empty if it has none
    :ivar nullable: whether there may be no value
    :ivar needs: what has to be read for it; of no interest outside of the table of exchanges
    :ivar on_request: whether it is left out unless it is asked for by name
    """

    name: str
    type: str
    meaning: str
    unit: str = ""
    nullable: bool = False
    needs: Needs = Needs.BODIES
    on_request: bool = False


class Table(NamedTuple):
    """One table.

    :ivar about: what a row is, in a sentence or two
    :ivar per_exchange: whether its rows come from single exchanges; those of others need all of a capture
    :ivar on_request: whether it is left out unless it is asked for by name
    """

    name: str
    about: str
    columns: tuple[Column, ...]
    per_exchange: bool
    on_request: bool = False

    @property
    def usual(self) -> tuple[Column, ...]:
        """The columns without those that have to be asked for."""
        return tuple(column for column in self.columns if not column.on_request)

    def since(self, first: str) -> tuple[str, ...]:
        """Return the names of the columns from one on."""
        names = [column.name for column in self.columns]
        return tuple(names[names.index(first) :])

    def choose(self, names: Iterable[str] | None = None) -> tuple[Column, ...]:
        """Return columns by name, in the order of the names; the usual ones if no names are given.

        :raises ValueError: for a name that is none, or an empty choice
        """
        if names is None:
            return self.usual
        wanted = list(names)
        known = {column.name: column for column in self.columns}
        unknown = [name for name in wanted if name not in known]
        if unknown or not wanted:
            problem = f"{unknown[0]!r} is no column of {self.name}" if unknown else "no column was chosen"
            raise ValueError(f"{problem}; there are {', '.join(column.name for column in self.columns)}")
        return tuple(known[name] for name in dict.fromkeys(wanted))


# ---------------------------------------------------------------- columns that several tables have
_HEADER = Needs.HEADER
_PLACES = "array<struct<topic:string,partition:int>>"

_RUN = Column("run", "int", "which run into the folder wrote the row, counted from 0", needs=_HEADER)
_NUMBER = Column(
    "number",
    "bigint",
    "of the exchange, counted from 1 by the first byte of the request in the input of the run",
    needs=_HEADER,
)
_CONNECTION = Column(
    "connection", "int", "TCP connection, counted by its first packet in the input of the run", needs=_HEADER
)


def _moment(name: str, meaning: str, *, nullable: bool = False) -> tuple[Column, Column]:
    """Return the two columns of a moment."""
    return (
        Column(name, "timestamp", meaning, "us, UTC", nullable, _HEADER),
        Column(
            f"{name}_ns", "bigint", f"`{name}` to the nanosecond", "ns since the epoch", nullable, _HEADER
        ),
    )


_OF_REQUEST = _moment(
    "time", "of the packet with the first byte of the request (of the response, if it has no request)"
)
_PLACE = (
    Column("topic", "string", "name of the topic, or its ID if no message told the name"),
    Column("topic_id", "string", "ID of the topic, where the message names it by ID", nullable=True),
    Column("partition", "int", "number of the partition"),
)
_API = (
    Column("api", "string", "name of the API", needs=_HEADER),
    Column("api_key", "smallint", "null for SASL tokens and orphan responses", nullable=True, needs=_HEADER),
)
_ENDS = (
    Column("client", "string", "address of the client, `host:port`", needs=_HEADER),
    Column("broker", "string", "address of the broker, `host:port`", needs=_HEADER),
)
_END_NAMES = (
    Column(
        "client_name", "string", "what `--hosts` calls the client's address", nullable=True, needs=_HEADER
    ),
    Column("broker_name", "string", "what `--hosts` calls the broker's", nullable=True, needs=_HEADER),
)

# ---------------------------------------------------------------- tables of exchanges
_EXCHANGES = Table(
    "exchanges",
    "One row for each request with its response, or request without one, or response without its request: what "
    "`kproxy read --json` tells in a line.",
    (
        _RUN,
        _NUMBER,
        *_OF_REQUEST,
        Column("latency_ns", "bigint", "first byte of the response minus last byte of the request; null without both",
               "ns", True, _HEADER),
        Column("designed_wait_ns", "bigint", "part of the latency that the protocol provides for; 0 if none", "ns"),
        Column("wait_reason", "string", "why it waited by design, in words", nullable=True),
        _CONNECTION,
        *_ENDS,
        *_END_NAMES,
        Column("client_id", "string", "from the request header", nullable=True, needs=_HEADER),
        *_API,
        Column("version", "smallint", "as the request announces it", nullable=True, needs=_HEADER),
        Column("correlation_id", "int", "null for raw SASL tokens", nullable=True, needs=_HEADER),
        Column("request_size", "int", "frame of the request with its size field; 0 if there is none", "bytes",
               needs=_HEADER),
        Column("response_size", "int", "frame of the response, likewise", "bytes", needs=_HEADER),
        Column("flags", "array<string>", "what is special about it (docs/json.md#flags); what is wrong inside record"
               " batches is not looked for"),
        Column("marked", "boolean", "whether it is marked in the packet comments of a pcapng file", needs=_HEADER),
        Column("comment", "string", "what is noted there", nullable=True, needs=_HEADER),
        Column("errors", "array<string>", "names of all errors in the response, each once"),
        Column("expected_errors", "array<string>", "names of those that belong to a normal conversation, each once"),
        Column("error_count", "int", "errors in the response that do not belong to a normal conversation; there may be"
               " one for each partition"),
        Column("request_summary", "string", "the request in a few words"),
        Column("response_summary", "string", "the response in a few words"),
        Column("topics", "array<string>", "topics that request or response name, each once; by ID if the name is not"
               " known"),
        Column("groups", "array<string>", "groups that request or response name, each once"),
        Column("records", "bigint", "records that batch headers announce, without control records; null in APIs that"
               " carry none", "records", True),
        Column("batches", "bigint", "complete record batches, likewise", "batches", True),
        Column("record_bytes", "bigint", "these batches as they are on the wire, likewise", "bytes", True),
        Column("throttle_time_ms", "bigint", "as the response tells it", "ms", True),
        Column("answered", "boolean", "whether a response was captured", needs=_HEADER),
        Column("problems", "array<struct<side:string,offset:bigint,path:string,reason:string>>",
               "what could not be decoded, where and why; what is wrong inside record batches is not looked for"),
        Column("request", "string", "the body as JSON, as `kproxy read --json` has it; secrets are null",
               nullable=True, needs=Needs.SHOWN, on_request=True),
        Column("response", "string", "likewise", nullable=True, needs=Needs.SHOWN, on_request=True),
        Column("kproxy_time_ns", "bigint", "time that request and response stayed in kproxy for its rules and holds,"
               " which is no part of the latency; 0 if none", "ns"),
    ),
    per_exchange=True,
)  # fmt: skip

_TOPIC_PARTITIONS = Table(
    "topic_partitions",
    "One row for each partition that an exchange names, whatever its API; for each group of these where it names "
    "several groups. Values stand where the API has them, under Kafka's names of the fields; -1 is Kafka's own, for "
    "what is not known.",
    (
        _RUN,
        _NUMBER,
        *_OF_REQUEST,
        _CONNECTION,
        *_API,
        *_PLACE,
        Column("group", "string", "group that the row is about, as in OffsetCommit and OffsetFetch", nullable=True),
        Column("replica_id", "int", "Fetch, ListOffsets, OffsetForLeaderEpoch: the broker or controller that asks; null"
               " for clients", nullable=True),
        Column("bytes", "bigint", "Produce, Fetch, ShareFetch: the records field, incomplete batches included", "bytes",
               True),
        Column("record_bytes", "bigint", "complete batches in it", "bytes", True),
        Column("batches", "int", "complete batches", "batches", True),
        Column("records", "bigint", "records that their headers announce, without control records", "records", True),
        Column("markers", "bigint", "control records", "records", True),
        Column("uncounted", "int", "compressed messages of magic 0 and 1, which do not tell how many are in them",
               "messages", True),
        Column("first_offset", "bigint", "offset in the log of the first record sent or fetched; null if not told",
               nullable=True),
        Column("last_offset", "bigint", "offset in the log of the last one, likewise", nullable=True),
        Column("fetch_offset", "bigint", "Fetch: first offset wanted", nullable=True),
        Column("high_watermark", "bigint", "Fetch: offset up to which (exclusive) records may be read", nullable=True),
        Column("last_stable_offset", "bigint", "Fetch: offset below which every transaction is decided", nullable=True),
        Column("log_start_offset", "bigint", "first offset in the log, as the broker tells it", nullable=True),
        Column("committed_offset", "bigint", "next offset to read, as the group has committed it", nullable=True),
        Column("offset", "bigint", "ListOffsets: offset found", nullable=True),
        Column("timestamp", "bigint", "ListOffsets: time asked for; -1 latest, -2 earliest and so on", "ms since the"
               " epoch, or special", True),
        Column("end_offset", "bigint", "OffsetForLeaderEpoch: end of the epoch", nullable=True),
        Column("current_leader_epoch", "int", "leader epoch that the client knows", nullable=True),
        Column("leader_epoch", "int", "leader epoch that the message tells", nullable=True),
        Column("leader_id", "int", "broker that leads the partition, as the message tells it", nullable=True),
        Column("acquired", "bigint", "ShareFetch: records handed out to the member", "records", True),
        Column("error_code", "smallint", "of the partition; 0 for none, null where the response has no such field or"
               " there is none", nullable=True),
        Column("error", "string", "its name; null for none", nullable=True),
        Column("error_message", "string", "the broker's text beside it", nullable=True),
        Column("expected", "boolean", "whether the error belongs to a normal conversation; null without one",
               nullable=True),
    ),
    per_exchange=True,
)  # fmt: skip

_SIDE = Column("side", "string", "`request` (Produce) or `response` (Fetch, ShareFetch)")
_BATCH = Column("batch", "int", "which batch of the records field it is, counted from 0")
_LOG_OFFSET = "offset in the log{}: of Produce the one that the response gives, null without it"

_RECORD_BATCHES = Table(
    "record_batches",
    "One row for each complete record batch in Produce requests and Fetch, ShareFetch and FetchSnapshot responses, as "
    "its header tells it. Nothing is decompressed.",
    (
        _RUN,
        _NUMBER,
        *_OF_REQUEST,
        _CONNECTION,
        *_API,
        _SIDE,
        *_PLACE,
        _BATCH,
        Column("log_offset", "bigint", _LOG_OFFSET.format(" of its first record"), nullable=True),
        Column("base_offset", "bigint", "as in the batch; null in a compressed message of magic 0 or 1, which has only"
               " the last one", nullable=True),
        Column("last_offset", "bigint", "of the last record, as in the batch"),
        Column("magic", "smallint", "format: 0, 1 or 2"),
        Column("codec", "string", ", ".join(f"`{codec.label}`" for codec in KNOWN_CODECS)),
        Column("crc", "bigint", "checksum as stored in it"),
        Column("crc_valid", "boolean", "whether it fits the bytes"),
        Column("timestamp_type", "string", "`create`, `log_append`; null in magic 0", nullable=True),
        Column("base_timestamp", "bigint", "what the timestamps of the records count from; -1 in magic 0",
               "ms since the epoch"),
        Column("max_timestamp", "bigint", "the latest of the records; -1 if there is none", "ms since the epoch"),
        Column("partition_leader_epoch", "int", "of the leader that appended it; -1 before that"),
        Column("producer_id", "bigint", "-1 if none"),
        Column("producer_epoch", "smallint", "-1 if none"),
        Column("base_sequence", "int", "sequence number of the first record; -1 if none"),
        Column("transactional", "boolean", "whether it belongs to a transaction"),
        Column("control", "boolean", "whether it holds markers and not records of an application"),
        Column("size", "int", "on the wire", "bytes"),
        Column("count", "int", "records announced; null in a compressed message of magic 0 or 1, which does not tell",
               "records", True),
    ),
    per_exchange=True,
)  # fmt: skip

_RECORDS = Table(
    "records",
    "One row for each record in these batches, decompressed. What the control records are for is in `record_batches`.",
    (
        _RUN,
        _NUMBER,
        *_OF_REQUEST,
        _CONNECTION,
        *_API,
        _SIDE,
        *_PLACE,
        _BATCH,
        Column("log_offset", "bigint", _LOG_OFFSET.format(""), nullable=True),
        Column("offset", "bigint", "as in the batch"),
        Column("timestamp", "bigint", "-1 if it has none", "ms since the epoch"),
        Column("control", "boolean", "whether it is a marker"),
        Column("key", "binary", "null if it has none", nullable=True),
        Column("value", "binary", "null if it has none, and where it holds secrets, as records of internal topics may",
               nullable=True),
        Column("key_text", "string", "the first characters of the key, if it is UTF-8", nullable=True),
        Column("value_text", "string", "the first characters of the value, if it is UTF-8", nullable=True),
        Column("key_size", "int", "null without a key", "bytes", True),
        Column("value_size", "int", "null without a value", "bytes", True),
        Column("headers", "array<struct<key:string,value:binary>>", "in their order"),
    ),
    per_exchange=True,
    on_request=True,
)  # fmt: skip

# ---------------------------------------------------------------- tables of the whole
_GROUP_EVENTS = Table(
    "group_events",
    "One row for each thing that a member says to its coordinator. Heartbeats and commits that say nothing new are put "
    "together: one row for those of a member that follow each other with the same outcome.",
    (
        _RUN,
        Column("number", "bigint", "of the exchange; of the first, where several are put together"),
        *_moment("time", "when the request was sent; of the first, where several are put together"),
        _CONNECTION,
        Column("group", "string", "its ID"),
        Column("kind", "string", "of the member: `classic`, `consumer` (KIP-848), `share` (KIP-932), `streams`"
               " (KIP-1071)"),
        Column("event", "string", "`join`, `sync`, `heartbeat`, `leave` or `commit`"),
        Column("client_id", "string", "client ID, or address without one"),
        Column("host", "string", "address of the client without port"),
        Column("broker", "string", "address of the coordinator, `host:port`"),
        Column("member", "string", "member ID; null if it has none yet", nullable=True),
        Column("instance_id", "string", "of a static member (KIP-345)", nullable=True),
        Column("generation", "int", "generation or member epoch that the request names", nullable=True),
        Column("generation_told", "int", "generation or member epoch that the response gives", nullable=True),
        Column("latency_ns", "bigint", "until it was answered; of the first, where several are put together; null if it"
               " was not", "ns", True),
        Column("error_code", "smallint", "0 for none"),
        Column("error", "string", "its name; null for none", nullable=True),
        Column("count", "bigint", "how many are put together", "exchanges"),
        *_moment("last", "when the last of them was sent"),
        Column("last_number", "bigint", "number of the last of them"),
        Column("longest_gap_ns", "bigint", "the longest time from one of them to the next; 0 if it is one", "ns"),
        Column("protocol_type", "string", "of a classic group, such as `consumer` or `connect`", nullable=True),
        Column("protocol", "string", "assignor that was chosen", nullable=True),
        Column("leader", "string", "join: member ID of the leader", nullable=True),
        Column("reason", "string", "join, leave: in the member's own words (KIP-800)", nullable=True),
        Column("topics", "array<string>", "that it subscribes to, a pattern between slashes; null if it does not say",
               nullable=True),
        Column("owned", _PLACES, "partitions that it says it has; null if it does not say", nullable=True),
        Column("assigned", _PLACES, "partitions that it is given; null if it is given no assignment", nullable=True),
        Column("session_timeout_ms", "bigint", "join: as the member wants it", "ms", True),
        Column("rebalance_timeout_ms", "bigint", "join, heartbeat: likewise", "ms", True),
        Column("members", "array<string>", "join: of the whole group, as the leader gets them; leave: the members to "
                                           "remove",
               nullable=True),
        Column("transactional", "boolean", "commit: within a transaction", nullable=True),
    ),
    per_exchange=False,
)  # fmt: skip

_CAUSE = (
    "array<struct<trigger:string,certainty:string,time:timestamp,time_ns:bigint,member:string,instance_id:string,"
    "client_id:string,evidence:array<bigint>,sentence:string,timeout_cause:string,silence_ns:bigint>>"
)
_WAIT = (
    "array<struct<member:string,client_id:string,told_ns:bigint,asked_ns:bigint,join_ns:bigint,sync_ns:bigint,"
    "total_ns:bigint>>"
)
_AWAITED = (
    "array<struct<member:string,client_id:string,since:timestamp,since_ns:bigint,heartbeats:bigint,"
    "deadline:timestamp,deadline_ns:bigint>>"
)
_STOPPED = "array<struct<topic:string,partition:int,duration_ns:bigint,ended:boolean,evidence:array<bigint>>>"
_DUPLICATES = (
    "array<struct<topic:string,partition:int,from_offset:bigint,to_offset:bigint,count:bigint,"
    "exchange:bigint>>"
)
_FAILURES = (
    "array<struct<exchange:bigint,time:timestamp,time_ns:bigint,member:string,error_code:int,error:string>>"
)

_REBALANCES = Table(
    "rebalances",
    "One row for each rebalance, told as a story: what `kproxy groups --json` tells in a line (docs/json-groups.md).",
    (
        _RUN,
        *_moment("time", "when it began"),
        Column("group", "string", "its ID"),
        Column("kind", "string", "`classic`, `consumer`, `share`, `streams`"),
        Column("generation", "int", "generation or group epoch that it led to", nullable=True),
        Column("generation_before", "int", "the one before", nullable=True),
        Column("duration_ns", "bigint", "until all members that took part had their assignment; null if that was not"
               " seen", "ns", True),
        Column("running", "boolean", "it had not ended when the capture did"),
        Column("emptied", "boolean", "it left the group without members"),
        Column("trigger", "string", "what opened it: docs/json-groups.md#triggers"),
        Column("causes", _CAUSE, "all that led to it, that which opened it first"),
        Column("member", "string", "whom the first cause is about", nullable=True),
        Column("instance_id", "string", "likewise, of a static member", nullable=True),
        Column("client_id", "string", "likewise; the address without one", nullable=True),
        Column("timeout_cause", "string", "of the first cause: why a member was silent", nullable=True),
        Column("certainty", "string", "of the first cause: `observed`, `inferred`, `possible`"),
        Column("alternatives", "array<string>", "what else could have opened it, in words"),
        Column("sentence", "string", "all of it in one or two sentences"),
        Column("evidence", "array<bigint>", "numbers of the exchanges that show it"),
        Column("members", "array<string>", "IDs of the members after it, as far as they are known"),
        Column("size", "int", "how many members it has after it", "members", True),
        Column("joined", "array<string>", "IDs of members that are new"),
        Column("gone", "array<string>", "IDs of members that are not there any more"),
        Column("leader", "string", "member ID of the leader", nullable=True),
        Column("protocol", "string", "the assignor", nullable=True),
        Column("cooperative", "boolean", "whether members keep what they have while it goes on", nullable=True),
        Column("moved", "array<struct<topic:string,partition:int,from:string,to:string>>",
               "partitions that changed hands, from which member to which"),
        Column("assigned", f"map<string,{_PLACES}>", "member ID to its partitions after it"),
        Column("waits", _WAIT, "how long members waited"),
        Column("slowest", "string", "member that joined last, or was done last", nullable=True),
        Column("awaited", _AWAITED, "of a running one, who is awaited"),
        Column("stopped", _STOPPED, "partitions that no member consumed for a while"),
        Column("consumed_on", "int", "partitions that were consumed all the while", "partitions"),
        Column("duplicates", _DUPLICATES, "records to be expected twice"),
        Column("commit_failures", _FAILURES, "commits that failed because of it"),
        Column("storm", "int", "how many rebalances of one cause it is part of", "rebalances", True),
    ),
    per_exchange=False,
)  # fmt: skip

_CLIENT_VERSIONS = Table(
    "client_versions",
    "One row for each client, broker, API and version that was used, and one without client and version for each API "
    "that a broker offers: what `kproxy api-versions --json` tells (docs/api-versions.md).",
    (
        _RUN,
        *_moment("time", "when it was first used; of an offer, when it was first told"),
        Column("first", "bigint", "number of the exchange in which it was first used; of an offer, in which it was"
               " told"),
        *_moment("last", "when it was last used; of an offer, the same as `time`"),
        Column("client", "string", "client ID, or address without one; null of an offer", nullable=True),
        Column("software", "array<string>", "names and versions as the client tells them (KIP-511)"),
        Column("library", "string", "the library that this is, such as `apache-kafka-java` or `librdkafka`",
               nullable=True),
        Column("release", "string", "its release", nullable=True),
        Column("hosts", "array<string>", "addresses of the client, without ports"),
        Column("asks_for_versions", "boolean", "whether it sends ApiVersions; null if no connection was captured from"
               " its beginning", nullable=True),
        Column("is_broker", "boolean", "whether it is a broker or controller"),
        Column("broker", "string", "address of the broker, `host:port`"),
        *_API,
        Column("version", "smallint", "that was used; null of an offer", nullable=True),
        Column("exchanges", "bigint", "how often; 0 of an offer", "exchanges"),
        Column("offered_min", "smallint", "lowest version that the broker offers; null if it did not tell",
               nullable=True),
        Column("offered_max", "smallint", "highest version that the broker offers, likewise", nullable=True),
        Column("could_use_min", "smallint", "highest version that the client is known to speak and the broker offers",
               nullable=True),
        Column("could_use_max", "smallint", "highest version that the broker offers, where that is known",
               nullable=True),
        Column("limit", "string", "what keeps the client from a higher one: `broker` or `client`", nullable=True),
        Column("used_elsewhere", "array<smallint>", "versions that it used with other brokers only"),
        Column("warnings", "array<string>", "what will not go well with this version: docs/api-versions.md#warnings"),
    ),
    per_exchange=False,
)  # fmt: skip

_CONNECTIONS = Table(
    "connections",
    "One row for each TCP connection: what `kproxy stats --by connection --json` tells (docs/json-stats.md). Exchanges "
    "that are counted are those that fit the filter; bytes are all.",
    (
        _RUN,
        *_moment("time", "of its first packet"),
        *_moment("last", "of its last packet"),
        _CONNECTION,
        *_ENDS,
        *_END_NAMES,
        Column("client_ids", "array<string>", "seen in its requests"),
        Column("handshake_ns", "bigint", "from SYN to SYN-ACK; null if not captured", "ns", True),
        Column("whole", "boolean", "its beginning was captured"),
        Column("foreign", "string", "what it looks like, if it is not Kafka in the clear", nullable=True),
        Column("software", "string", "name and version as the client tells them (KIP-511)", nullable=True),
        Column("mechanism", "string", "of SASL", nullable=True),
        Column("principal", "string", "who the client says it is", nullable=True),
        Column("authenticated", "boolean", "true once something was answered that needs it, false after a refusal",
               nullable=True),
        Column("refusal", "string", "name of the error that refused it", nullable=True),
        Column("authentications", "int", "how often it was begun; more than one is re-authentication (KIP-368)"),
        Column("exchanges", "bigint", "on it", "exchanges"),
        Column("errors", "bigint", "with an error that does not belong to a normal conversation", "exchanges"),
        Column("orphans", "bigint", "responses without their request", "exchanges"),
        Column("versions", "map<string,array<smallint>>", "API to versions used, ascending"),
        Column("fallback", "map<smallint,smallint>", "ApiVersions version asked for to version answered, where the"
               " broker did not know it"),
        Column("unanswered", "map<string,bigint>", "API to requests without an answer"),
        Column("unanswered_for_ns", "bigint", "from the oldest of them to the end of the connection, or of the capture",
               "ns", True),
        Column("request_bytes", "bigint", "TCP payload from the client", "bytes"),
        Column("response_bytes", "bigint", "TCP payload from the broker", "bytes"),
        Column("skipped_bytes", "bigint", "that belong to no frame", "bytes"),
        Column("ended", "string", "`closed by client`, `closed by broker`, `reset by client`, `reset by broker`,"
               " `closed by kproxy`, `reset by kproxy` or `open`"),
        Column("then_reset_by", "string", "who reset it after it was closed: `client` or `broker`", nullable=True),
    ),
    per_exchange=False,
)  # fmt: skip

_FINDINGS = Table(
    "findings",
    "One row for each finding of the diagnosis: what `kproxy diagnose --json` tells (docs/json-diagnose.md).",
    (
        _RUN,
        *_moment("time", "when it was first seen"),
        *_moment("last", "when it was last seen"),
        Column("rule", "string", "which rule found it: docs/findings.md"),
        Column("severity", "string", "`high`, `medium`, `low` or `info`"),
        Column("certainty", "string", "`observed`, `inferred` or `possible`"),
        Column("subject", "string", "what it is about, such as `group orders`"),
        Column("sentence", "string", "what was found, in words"),
        Column("advice", "string", "what to do"),
        Column("count", "bigint", "how often it was seen"),
        Column("evidence", "array<bigint>", "numbers of exchanges that show it: the first ones, and the last"),
        Column("filter", "string", "a filter that shows them: docs/filters.md", nullable=True),
        Column("connections", "array<int>", "connections it is about, where that tells more than exchanges"),
        Column("thresholds", "map<string,string>", "those it depends on, as they were set, with units"),
    ),
    per_exchange=False,
)  # fmt: skip

_TCP_HEALTH = Table(
    "tcp_health",
    "Two rows for each TCP connection, one for each direction: how TCP fared, whatever the filter.",
    (
        _RUN,
        *_moment("time", "of the connection's first packet"),
        *_moment("last", "of its last packet"),
        _CONNECTION,
        Column("direction", "string", "who sends: `client` or `broker`"),
        Column("sender", "string", "its address, `host:port`"),
        Column("receiver", "string", "address of the other side"),
        Column("packets", "bigint", "with or without payload", "packets"),
        Column("bytes", "bigint", "length of the stream: payload, each byte once, with what was not captured", "bytes"),
        Column("retransmitted", "bigint", "payload that was sent again", "bytes"),
        Column("reordered", "bigint", "that came before bytes which precede them", "segments"),
        Column("lost", "bigint", "that were not captured", "bytes"),
        Column("cut", "bigint", "cut by the snapshot length", "bytes"),
        Column("conflicting", "bigint", "sent again with other content", "bytes"),
        Column("zero_windows", "bigint", "that announced a full receive window", "packets"),
        Column("syn_seen", "boolean", "its beginning was captured"),
        *_moment("fin", "when its first FIN was captured", nullable=True),
        *_moment("reset", "when its first RST was captured", nullable=True),
        Column("handshake_ns", "bigint", "of the connection, from SYN to SYN-ACK; null if not captured", "ns", True),
        Column("rtt_ns", "bigint", "round trip between the place of the capture and the broker: of the handshake, else"
               " what the kernel told a proxy; null if not known", "ns", True),
    ),
    per_exchange=False,
)  # fmt: skip

TABLES: Mapping[str, Table] = {
    table.name: table
    for table in (
        _EXCHANGES,
        _TOPIC_PARTITIONS,
        _RECORD_BATCHES,
        _RECORDS,
        _GROUP_EVENTS,
        _REBALANCES,
        _CLIENT_VERSIONS,
        _CONNECTIONS,
        _FINDINGS,
        _TCP_HEALTH,
    )
}
"""All tables by name, in the order in which they are listed."""

USUAL = tuple(name for name, table in TABLES.items() if not table.on_request)
"""The tables that are written unless others are asked for: all but the records."""

PER_EXCHANGE = tuple(name for name, table in TABLES.items() if table.per_exchange)
"""Tables whose rows come from single exchanges."""

OF_THE_WHOLE = tuple(name for name, table in TABLES.items() if not table.per_exchange)
"""Tables whose rows need all of a capture."""


def choose_tables(names: Iterable[str] | None = None) -> tuple[str, ...]:
    """Return tables by name, in their order; the usual ones if no names are given.

    :raises ValueError: for a name that is none, or an empty choice
    """
    if names is None:
        return USUAL
    wanted = list(names)
    unknown = [name for name in wanted if name not in TABLES]
    if unknown or not wanted:
        problem = f"{unknown[0]!r} is no table" if unknown else "no table was chosen"
        raise ValueError(f"{problem}; there are {', '.join(TABLES)}")
    return tuple(name for name in TABLES if name in wanted)


def needs_of(columns: Sequence[Column]) -> Needs:
    """Return what has to be read of exchanges to know some columns: the most that one of them needs."""
    order = list(Needs)
    return max((column.needs for column in columns), key=order.index, default=Needs.HEADER)


# ---------------------------------------------------------------- as others write it
def ddl(table: str, columns: Iterable[str] | None = None) -> str:
    """Return the columns of a table as Spark SQL declares them: ``run INT NOT NULL, ...``.

    :param columns: by name; the usual ones if None
    :raises ValueError: for a column that the table does not have
    """
    return ", ".join(
        f"`{column.name}` {column.type}{'' if column.nullable else ' NOT NULL'}"
        for column in TABLES[table].choose(columns)
    )


def schema(table: str, columns: Iterable[str] | None = None) -> pa.Schema:
    """Return the Arrow schema of a table.

    :param columns: by name; the usual ones if None
    :raises ValueError: for a column that the table does not have
    :raises ParquetMissing: if there is no pyarrow
    """
    try:
        import pyarrow as pa
    except ImportError:
        raise ParquetMissing from None
    return pa.schema(
        [
            pa.field(column.name, arrow_type(column.type), nullable=column.nullable)
            for column in TABLES[table].choose(columns)
        ]
    )


def doing(table: str) -> str:
    """Return what is being done when rows of a table are made, for faults."""
    return f"the table {table}"


def arrow_type(text: str) -> pa.DataType:
    """Return the Arrow type of a column's type.

    :raises ValueError: if it is none
    """
    tokens = _tokens(text)
    made = _type(tokens)
    if next(tokens, None) is not None:
        raise ValueError(f"{text!r} goes on behind its end")
    return made


def _tokens(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        if character in "<>:,":
            if word:
                yield word
            yield character
            word = ""
        else:
            word += character
    if word:
        yield word


def _type(tokens: Iterator[str]) -> pa.DataType:
    import pyarrow as pa

    simple = {
        "boolean": pa.bool_(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "string": pa.string(),
        "binary": pa.binary(),
        "timestamp": pa.timestamp("us", "UTC"),
    }
    word = next(tokens)
    if word in simple:
        return simple[word]
    if word not in ("array", "map", "struct"):
        raise ValueError(f"{word!r} is no type")
    next(tokens)  # the opening bracket
    if word == "struct":
        fields = []
        while True:
            name, _ = next(tokens), next(tokens)
            fields.append((name, _type(tokens)))
            if next(tokens) == ">":
                return pa.struct(fields)
    first = _type(tokens)
    separator = next(tokens)
    if word == "array":
        return pa.list_(first)
    if separator != ",":
        raise ValueError("a map has two types")
    second = _type(tokens)
    next(tokens)  # the closing bracket
    return pa.map_(first, second)


def reference() -> str:
    """Return all tables as Markdown."""
    return "\n\n".join(_section(table) for table in TABLES.values())


def _section(table: Table) -> str:
    lines = [f"## `{table.name}`", "", table.about]
    if table.on_request:
        lines += ["", f"Written only if it is asked for: `--table {table.name}`."]
    exchanges = table.name == "exchanges"
    lines += ["", "| column | type | unit | meaning |", "|---|---|---|---|"]
    for column in table.columns:
        notes = [column.meaning]
        if column.on_request:
            notes.append("only if it is asked for")
        elif exchanges and column.needs is not Needs.HEADER:
            notes.append("needs bodies")
        type_ = f"`{column.type}`{' or null' if column.nullable else ''}"
        lines.append(f"| `{column.name}` | {type_} | {column.unit} | {'; '.join(notes)} |")
    return "\n".join(lines)
