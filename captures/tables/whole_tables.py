"""The declarations of the tables that need all of a capture."""

from __future__ import annotations

from captures.tables.columns import API, CONNECTION, END_NAMES, ENDS, PLACES, RUN, Column, Table, moment

_CLUSTER_ID = Column(
    "cluster_id",
    "string",
    "ID of the Kafka cluster (docs/groups.md#several-clusters); null if it is not known",
    nullable=True,
)

GROUP_EVENTS = Table(
    "group_events",
    "One row for each thing that a member says to its coordinator. Heartbeats and commits that say nothing new are put "
    "together: one row for those of a member that follow each other with the same outcome.",
    (
        RUN,
        Column("number", "bigint", "of the exchange; of the first, where several are put together"),
        *moment("time", "when the request was sent; of the first, where several are put together"),
        CONNECTION,
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
        *moment("last", "when the last of them was sent"),
        Column("last_number", "bigint", "number of the last of them"),
        Column("longest_gap_ns", "bigint", "the longest time from one of them to the next; 0 if it is one", "ns"),
        Column("protocol_type", "string", "of a classic group, such as `consumer` or `connect`", nullable=True),
        Column("protocol", "string", "assignor that was chosen", nullable=True),
        Column("leader", "string", "join: member ID of the leader", nullable=True),
        Column("reason", "string", "join, leave: in the member's own words (KIP-800)", nullable=True),
        Column("topics", "array<string>", "that it subscribes to, a pattern between slashes; null if it does not say",
               nullable=True),
        Column("owned", PLACES, "partitions that it says it has; null if it does not say", nullable=True),
        Column("assigned", PLACES, "partitions that it is given; null if it is given no assignment", nullable=True),
        Column("session_timeout_ms", "bigint", "join: as the member wants it", "ms", True),
        Column("rebalance_timeout_ms", "bigint", "join, heartbeat: likewise", "ms", True),
        Column("members", "array<string>", "join: of the whole group, as the leader gets them; leave: the members to "
                                           "remove",
               nullable=True),
        Column("transactional", "boolean", "commit: within a transaction", nullable=True),
        _CLUSTER_ID,
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

_CONSEQUENCE = (
    "struct<kind:string,subject:string,time:timestamp,time_ns:bigint,sentence:string,evidence:array<bigint>>"
)

REBALANCES = Table(
    "rebalances",
    "One row for each rebalance, told as a story: what `kproxy groups --json` tells in a line (docs/json-groups.md).",
    (
        RUN,
        *moment("time", "when it began"),
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
               "partitions that changed hands, from which member to which; null is nobody, or not known"),
        Column("assigned", f"map<string,{PLACES}>", "member ID to its partitions after it"),
        Column("waits", _WAIT, "how long members waited"),
        Column("slowest", "string", "member that joined last, or was done last", nullable=True),
        Column("awaited", _AWAITED, "of a running one, who is awaited"),
        Column("stopped", _STOPPED, "partitions that no member consumed for a while"),
        Column("consumed_on", "int", "partitions that were consumed all the while", "partitions"),
        Column("duplicates", _DUPLICATES, "records to be expected twice"),
        Column("commit_failures", _FAILURES, "commits that failed because of it"),
        Column("storm", "int", "how many rebalances of one cause it is part of", "rebalances", True),
        Column("because_of", "string", "`id` of the incident that it follows from", nullable=True),
        Column("unknown_owners", PLACES, "those of `moved` where a null is a member that is not known"),
        Column("delay_ns", "bigint", "for how long workers of Kafka Connect wait for a lost one", "ns", True),
        Column("unassigned", PLACES, "connectors (partition -1) and tasks that no worker runs meanwhile"),
        Column("tasks", f"map<string,struct<active:{PLACES},standby:{PLACES},warmup:{PLACES}>>",
               "of Kafka Streams, member ID to its tasks after it"),
        Column("status", "array<string>", "of a streams group, what the coordinator says keeps it from running"),
        _CLUSTER_ID,
        Column("coordinator", "string", "address of the group's coordinator when it began, `host:port`, as `broker` in"
               " other tables; null if it was not seen", nullable=True),
    ),
    per_exchange=False,
)  # fmt: skip

INCIDENTS = Table(
    "incidents",
    "One row for each incident: what happened, with what followed in groups (docs/incidents.md). Findings that follow"
    " from an incident are not among its consequences here: several tasks may share the rules that make them.",
    (
        RUN,
        *moment("time", "when it began"),
        *moment("ended", "when it ended; null if that was not seen", nullable=True),
        Column("id", "string", "its kind and number of that kind: `broker_outage-1`"),
        Column("kind", "string", "docs/incidents.md#kinds"),
        Column("who", "array<string>", "brokers as `host:port`, members and groups by what they are called"),
        Column("groups", "array<string>", "IDs of the groups that it concerns"),
        Column("certainty", "string", "`observed`, `inferred` or `possible`"),
        Column("alternatives", "array<string>", "what else it could have been, in words"),
        Column("sentence", "string", "what happened, in words"),
        Column("advice", "string", "what to do"),
        Column("evidence", "array<bigint>", "numbers of exchanges that show it"),
        Column("connections", "array<int>", "connections that show it"),
        Column("consequences", f"array<{_CONSEQUENCE}>", "what followed from it, in the order of time"),
        _CLUSTER_ID,
    ),
    per_exchange=False,
)  # fmt: skip

CLIENT_VERSIONS = Table(
    "client_versions",
    "One row for each client, broker, API and version that was used, and one without client and version for each API "
    "that a broker offers: what `kproxy api-versions --json` tells (docs/api-versions.md).",
    (
        RUN,
        *moment("time", "when it was first used; of an offer, when it was first told"),
        Column("first", "bigint", "number of the exchange in which it was first used; of an offer, in which it was"
               " told"),
        *moment("last", "when it was last used; of an offer, the same as `time`"),
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
        *API,
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
        _CLUSTER_ID,
    ),
    per_exchange=False,
)  # fmt: skip

_FILE = Column(
    "file",
    "string",
    "path of the file with the connection's last packet; null with `--follow`",
    nullable=True,
)

CONNECTIONS = Table(
    "connections",
    "One row for each TCP connection: what `kproxy stats --by connection --json` tells (docs/json-stats.md). Exchanges "
    "that are counted are those that fit the filter; bytes are all.",
    (
        RUN,
        *moment("time", "of its first packet"),
        *moment("last", "of its last packet"),
        CONNECTION,
        *ENDS,
        *END_NAMES,
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
        _FILE,
        _CLUSTER_ID,
    ),
    per_exchange=False,
)  # fmt: skip

FINDINGS = Table(
    "findings",
    "One row for each finding of the diagnosis: what `kproxy diagnose --json` tells (docs/json-diagnose.md).",
    (
        RUN,
        *moment("time", "when it was first seen"),
        *moment("last", "when it was last seen"),
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
        _CLUSTER_ID,
    ),
    per_exchange=False,
)  # fmt: skip

TCP_HEALTH = Table(
    "tcp_health",
    "Two rows for each TCP connection, one for each direction: how TCP fared, whatever the filter.",
    (
        RUN,
        *moment("time", "of the connection's first packet"),
        *moment("last", "of its last packet"),
        CONNECTION,
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
        *moment("fin", "when its first FIN was captured", nullable=True),
        *moment("reset", "when its first RST was captured", nullable=True),
        Column("handshake_ns", "bigint", "of the connection, from SYN to SYN-ACK; null if not captured", "ns", True),
        Column("rtt_ns", "bigint", "round trip between the place of the capture and the broker: of the handshake, else"
               " what the kernel told a proxy; null if not known", "ns", True),
        _FILE,
        _CLUSTER_ID,
    ),
    per_exchange=False,
)  # fmt: skip
