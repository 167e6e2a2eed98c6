"""The declarations of the per-exchange tables."""

from __future__ import annotations

from captures.tables.columns import (
    API,
    CONNECTION,
    END_NAMES,
    ENDS,
    HEADER,
    NUMBER,
    OF_REQUEST,
    PLACE,
    RUN,
    Column,
    Needs,
    Table,
)
from dissectors.codec import KNOWN_CODECS

EXCHANGES = Table(
    "exchanges",
    "One row for each request with its response, or request without one, or response without its request: what "
    "`kproxy read --json` tells in a line.",
    (
        RUN,
        NUMBER,
        *OF_REQUEST,
        Column("latency_ns", "bigint", "first byte of the response minus last byte of the request; null without both",
               "ns", True, HEADER),
        Column("designed_wait_ns", "bigint", "part of the latency that the protocol provides for; 0 if none", "ns"),
        Column("wait_reason", "string", "why it waited by design, in words", nullable=True),
        CONNECTION,
        *ENDS,
        *END_NAMES,
        Column("client_id", "string", "from the request header", nullable=True, needs=HEADER),
        *API,
        Column("version", "smallint", "as the request announces it", nullable=True, needs=HEADER),
        Column("correlation_id", "int", "null for raw SASL tokens", nullable=True, needs=HEADER),
        Column("request_size", "int", "frame of the request with its size field; 0 if there is none", "bytes",
               needs=HEADER),
        Column("response_size", "int", "frame of the response, likewise", "bytes", needs=HEADER),
        Column("flags", "array<string>", "what is special about it (docs/json.md#flags); what is wrong inside record"
               " batches is not looked for"),
        Column("marked", "boolean", "whether it is marked in the packet comments of a pcapng file", needs=HEADER),
        Column("comment", "string", "what is noted there", nullable=True, needs=HEADER),
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
        Column("answered", "boolean", "whether a response was captured", needs=HEADER),
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

TOPIC_PARTITIONS = Table(
    "topic_partitions",
    "One row for each partition that an exchange names, whatever its API; for each group of these where it names "
    "several groups. Values stand where the API has them, under Kafka's names of the fields; -1 is Kafka's own, for "
    "what is not known.",
    (
        RUN,
        NUMBER,
        *OF_REQUEST,
        CONNECTION,
        *API,
        *PLACE,
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

RECORD_BATCHES = Table(
    "record_batches",
    "One row for each complete record batch in Produce requests and Fetch, ShareFetch and FetchSnapshot responses, as "
    "its header tells it. Nothing is decompressed.",
    (
        RUN,
        NUMBER,
        *OF_REQUEST,
        CONNECTION,
        *API,
        _SIDE,
        *PLACE,
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

RECORDS = Table(
    "records",
    "One row for each record in these batches, decompressed. What the control records are for is in `record_batches`.",
    (
        RUN,
        NUMBER,
        *OF_REQUEST,
        CONNECTION,
        *API,
        _SIDE,
        *PLACE,
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
