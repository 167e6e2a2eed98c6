"""The named values of the protocol's integers: enumerations, special values and flag sets.

A :class:`Domain` belongs to a field, not to a type: ``-1`` is ``LATEST`` in a ListOffsets timestamp and
``ALL`` in acks. Names are spelled as Kafka's users see them in configurations and tools:
``READ_COMMITTED``, ``gzip``, ``CreateTime``. An unnamed value is never an error, because newer nodes send values that
no table can know.

Two kinds of numbers are named elsewhere: API keys, and feature levels, whose meaning depends on the
feature beside them (:func:`feature_level_name`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dissectors.codec import KNOWN_CODECS
from dissectors.error_codes import ErrorCode

Rest = Literal["unknown", "number", "timestamp_ms", "duration_ms"]


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """Names of the values of an integer or boolean field.

    :ivar name: its constant in this module, in lower case
    :ivar values: value on the wire -> name; for a boolean 0 and 1
    :ivar doc: one line for people, with the source of the fact unless it is Kafka's enum of the same name
    :ivar rest: meaning of a value without a name: ``unknown`` (a closed list: something new or wrong), a
        plain ``number``, a ``timestamp_ms`` (since 1970-01-01 UTC) or a ``duration_ms``
    """

    name: str
    values: Mapping[int, str]
    doc: str
    rest: Rest = "unknown"

    def name_of(self, value: int) -> str | None:
        """Return the name of `value`, or None if it has none."""
        return self.values.get(value)

    def value_of(self, name: str) -> int | None:
        """Return the value called `name`, ignoring case, or None."""
        wanted = name.casefold()
        return next((value for value, known in self.values.items() if known.casefold() == wanted), None)


@dataclass(frozen=True, slots=True, eq=False)
class FlagDomain(Domain):
    """A set of flags in one integer.

    :ivar values: bit number (0 is the lowest) -> name of the flag
    :ivar not_requested: value that means that the flags were not requested, as opposed to none being set
    """

    not_requested: int = -(2**31)

    def names_of(self, value: int) -> list[str]:
        """Return the names of the set bits, lowest first; ``BIT_<n>`` for a bit without a name."""
        if value == self.not_requested:
            return []
        bits = value & 0xFFFFFFFF
        return [self.values.get(n, f"BIT_{n}") for n in range(32) if bits >> n & 1]

    def name_of(self, value: int) -> str:
        """Return the flags joined by ``|``, ``NOT_REQUESTED``, or ``NONE`` if no bit is set."""
        if value == self.not_requested:
            return "NOT_REQUESTED"
        return "|".join(self.names_of(value)) or "NONE"

    def value_of(self, name: str) -> int | None:
        """Return the value of flags joined by ``|`` (or of one), or None if one of them is not known.

        The result is signed, as on the wire.
        """
        wanted = name.casefold()
        if wanted == "not_requested":
            return self.not_requested
        numbers = {known.casefold(): bit for bit, known in self.values.items()}
        bits = 0
        for flag in wanted.split("|") if wanted != "none" else ():
            if flag not in numbers:
                return None
            bits |= 1 << numbers[flag]
        return bits


def _list(*names: str, first: int = 0) -> dict[int, str]:
    return dict(enumerate(names, first))


# Tables read better with a row per domain than with a line per argument.
# fmt: off

# --- produce, fetch, offsets --------------------------------------------------------------------------------

ACKS = Domain("acks", {-1: "ALL", 0: "NONE", 1: "LEADER"},
    "replicas that must have the batch before the answer; 0 = no answer at all; 0.8 allowed more than 1",
    "number")
ISOLATION_LEVEL = Domain("isolation_level", _list("READ_UNCOMMITTED", "READ_COMMITTED"),
    "whether records of open and aborted transactions are visible (KIP-98)")
LIST_OFFSETS_TIMESTAMP = Domain("list_offsets_timestamp",
    {-1: "LATEST", -2: "EARLIEST", -3: "MAX_TIMESTAMP", -4: "EARLIEST_LOCAL", -5: "LATEST_TIERED",
     -6: "EARLIEST_PENDING_UPLOAD"},
    "which offset is sought: a special one, or the first at or after a time (KIP-405, 734, 1005, 1023)",
    "timestamp_ms")
REPLICA_ID = Domain("replica_id", {-1: "CONSUMER", -2: "DEBUG", -3: "FUTURE_LOCAL_REPLICA"},
    "who asks: a broker by its ID, or not a replica at all (FetchRequest.java)", "number")
FETCH_SESSION_ID = Domain("fetch_session_id", {0: "NONE"}, "fetch session; 0 = none yet (KIP-227)", "number")
FETCH_SESSION_EPOCH = Domain("fetch_session_epoch", {0: "INITIAL", -1: "FINAL"},
    "position in the fetch session: 0 opens one by a full fetch, -1 closes it or does without (KIP-227)",
    "number")
KNOWN_HIGH_WATERMARK = Domain("known_high_watermark", {-1: "UNKNOWN", 2**63-1: "NOT_SUPPORTED"},
    "high watermark that the follower knows (KIP-1166)", "number")
MAX_BYTES = Domain("max_bytes", {2**31-1: "NO_LIMIT"}, "bytes that the answer may have", "number")
OFFSET = Domain("offset", {-1: "UNKNOWN"}, "log offset; -1 = unknown or not applicable", "number")
COMMITTED_OFFSET = Domain("committed_offset", {-1: "NO_OFFSET"},
    "committed offset; -1 = the group has none for the partition", "number")
DELETE_BEFORE_OFFSET = Domain("delete_before_offset", {-1: "HIGH_WATERMARK"},
    "records before this offset are deleted (KIP-107)", "number")
TRANSACTION_START_OFFSET = Domain("transaction_start_offset", {-1: "NO_TRANSACTION"},
    "first offset of the producer's open transaction", "number")
LAG = Domain("lag", {-1: "UNKNOWN"}, "records not delivered yet", "number")

# --- leaders, nodes, epochs ---------------------------------------------------------------------------------

NODE_ID = Domain("node_id", {-1: "NONE"},
    "broker or controller; -1 = none, not given or no preference", "number")
LEADER_ID = Domain("leader_id", {-1: "NO_LEADER"},
    "leader of the partition or quorum; -1 = none known", "number")
CONTROLLER_LEADER_ID = Domain("controller_leader_id", {-1: "NO_LEADER", -2: "LEADER_DURING_DELETE"},
    "leader as a controller announces it to brokers; -2 = the topic is being deleted (LeaderAndIsr.java)",
    "number")
LEADER_CHANGE = Domain("leader_change", {-1: "NO_LEADER", -2: "NO_CHANGE"},
    "new leader of the partition in a metadata record", "number")
CONTROLLER_ID = Domain("controller_id", {-1: "NO_CONTROLLER"}, "active controller; -1 = none known", "number")
LEADER_EPOCH = Domain("leader_epoch", {-1: "NONE"}, "term of a leader; -1 = unknown, do not check", "number")
CONTROLLER_LEADER_EPOCH = Domain("controller_leader_epoch", {-1: "NONE", -2: "EPOCH_DURING_DELETE"},
    "term of a leader as a controller announces it; -2 = the topic is being deleted (LeaderAndIsr.java)",
    "number")
BROKER_EPOCH = Domain("broker_epoch", {-1: "UNKNOWN"},
    "incarnation of a broker (KIP-380); -1 = unknown", "number")
FEATURES_EPOCH = Domain("features_epoch", {-1: "UNKNOWN"},
    "version of the finalized features (KIP-584)", "number")
LEADER_RECOVERY_STATE = Domain("leader_recovery_state", {-1: "NO_CHANGE", 0: "RECOVERED", 1: "RECOVERING"},
    "whether the leader came from an unclean election and still recovers (KIP-704)")
CONTROLLER_REQUEST_TYPE = Domain("controller_request_type", _list("UNKNOWN", "INCREMENTAL", "FULL"),
    "whether LeaderAndIsr or UpdateMetadata carries all partitions (KIP-866)")

# --- groups -------------------------------------------------------------------------------------------------

COORDINATOR_TYPE = Domain("coordinator_type", _list("GROUP", "TRANSACTION", "SHARE"),
    "kind of coordinator key")
GENERATION_ID = Domain("generation_id", {-1: "NONE"},
    "generation of a classic group; -1 = not a member", "number")
GENERATION_OR_MEMBER_EPOCH = Domain("generation_or_member_epoch", {-1: "NONE"},
    "generation (classic) or member epoch (KIP-848); -1 = committed from outside the group", "number")
MEMBER_EPOCH = Domain("member_epoch", {0: "JOIN", -1: "LEAVE", -2: "LEAVE_STATIC"},
    "member epoch in a heartbeat: 0 joins, -1 leaves, -2 leaves for a while as a static member (KIP-848)",
    "number")
MEMBER_EPOCH_REACHED = Domain("member_epoch_reached", {-1: "LEFT", -2: "LEFT_STATIC"},
    "member epoch as the coordinator states it; -1 and -2 after leaving (KIP-848)", "number")
HEARTBEAT_REBALANCE_TIMEOUT = Domain("heartbeat_rebalance_timeout", {-1: "UNCHANGED"},
    "time allowed for giving up partitions; -1 = as in the last heartbeat (KIP-848)", "duration_ms")
MEMBER_TYPE = Domain("member_type", _list("UNKNOWN", "CLASSIC", "CONSUMER", first=-1),
    "protocol of a member (KIP-848)")
MEMBER_STATE = Domain("member_state",
    {0: "STABLE", 1: "UNREVOKED_PARTITIONS", 2: "UNRELEASED_PARTITIONS", 127: "UNKNOWN"},
    "reconciliation of a consumer or share group member (group/modern/MemberState.java)")
STREAMS_MEMBER_STATE = Domain("streams_member_state",
    {1: "STABLE", 2: "UNREVOKED_TASKS", 3: "UNRELEASED_TASKS", 127: "UNKNOWN"},
    "reconciliation of a streams group member (group/streams/MemberState.java)")
STREAMS_STATUS = Domain("streams_status",
    _list("STALE_TOPOLOGY", "MISSING_SOURCE_TOPICS", "INCORRECTLY_PARTITIONED_TOPICS",
          "MISSING_INTERNAL_TOPICS", "SHUTDOWN_APPLICATION", "ASSIGNMENT_DELAYED", "MISSING_CLIENT_TAGS"),
    "what keeps a streams group from running; 3 and 5 are normal at its start (KIP-1071)")
STREAMS_NODE_TYPE = Domain("streams_node_type", _list("SOURCE", "PROCESSOR", "SINK", first=1),
    "node of a topology")
TOPOLOGY_DESCRIPTION_STATUS = Domain("topology_description_status",
    _list("NOT_REQUESTED", "NOT_STORED", "ERROR", "AVAILABLE"),
    "why a topology description is absent or present")
TOPOLOGY_DESCRIPTION_EPOCH = Domain("topology_description_epoch", {-1: "NONE", -2: "UNCERTAIN"},
    "topology epoch whose description was stored or failed; -2 = interrupted", "number")
STREAMS_TOPIC_SETTING = Domain("streams_topic_setting", {0: "NOT_SET"},
    "partitions or replication factor of a Streams topic; 0 = no number asked for (KIP-1071)", "number")
ACCEPTABLE_RECOVERY_LAG = Domain("acceptable_recovery_lag", {-1: "NOT_SUPPORTED"},
    "offsets by which a caught-up standby may lag; -1 = the broker has no such setting", "number")
STREAMS_ASSIGNOR_ERROR = Domain("streams_assignor_error",
    _list("NONE", "INCOMPLETE_SOURCE_TOPIC_METADATA", "VERSION_PROBING", "ASSIGNMENT_ERROR",
          "SHUTDOWN_REQUESTED"),
    "error inside a classic Streams subscription or assignment (AssignorError.java); not a Kafka error code")
TASK_OFFSET_SUM = Domain("task_offset_sum", {-2: "RUNNING_ACTIVE", -3: "UNKNOWN"},
    "sum of a Streams task's changelog offsets (Task.java, SubscriptionInfo.java)", "number")
CONNECT_ASSIGNMENT_ERROR = Domain("connect_assignment_error", _list("NO_ERROR", "CONFIG_MISMATCH"),
    "1 = workers disagree about the config topic, read it and rejoin (ConnectProtocol.java)")

# --- share groups (KIP-932) ---------------------------------------------------------------------------------

SHARE_SESSION_EPOCH = Domain("share_session_epoch", {0: "INITIAL", -1: "FINAL"},
    "position in the share session: 0 opens it, -1 closes it", "number")
ACKNOWLEDGE_TYPE = Domain("acknowledge_type", _list("GAP", "ACCEPT", "RELEASE", "REJECT", "RENEW"),
    "what the consumer did with a record; RENEW prolongs the lock (KIP-1222)")
SHARE_ACQUIRE_MODE = Domain("share_acquire_mode", _list("BATCH_OPTIMIZED", "RECORD_LIMIT"),
    "whether whole batches are acquired or no more than max_records (KIP-1206)")
SHARE_DELIVERY_STATE = Domain("share_delivery_state",
    _list("AVAILABLE", "ACQUIRED", "ACKNOWLEDGED", "ARCHIVING", "ARCHIVED"),
    "delivery state of records (share/fetch/RecordState.java; ARCHIVING with KIP-1191)")
SHARE_START_OFFSET = Domain("share_start_offset", {-1: "NOT_SET"},
    "first offset in flight; -1 = not initialised, or not written here", "number")
DELIVERY_COMPLETE_COUNT = Domain("delivery_complete_count", {-1: "UNKNOWN"},
    "records after the start offset that are done with (KIP-1226)", "number")

# --- transactions -------------------------------------------------------------------------------------------

PRODUCER_ID = Domain("producer_id", {-1: "NONE"}, "ID of an idempotent producer; -1 = none", "number")
PRODUCER_EPOCH = Domain("producer_epoch", {-1: "NONE"}, "incarnation of the producer ID; -1 = none", "number")
SEQUENCE = Domain("sequence", {-1: "NONE"}, "sequence number of an idempotent producer", "number")
TRANSACTION_STATUS = Domain("transaction_status",
    _list("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead",
          "PrepareEpochFence"),
    "state in the transaction log (TransactionState.java)")
TRANSACTION_RESULT = Domain("transaction_result", _list("ABORT", "COMMIT"),
    "how the transaction ends; true = commit")
TRANSACTION_VERSION = Domain("transaction_version", _list("TV_0", "TV_1", "TV_2"),
    "protocol of the transaction: TV_2 raises the epoch with every end (KIP-890)")

# --- security -----------------------------------------------------------------------------------------------

RESOURCE_TYPE = Domain("resource_type",
    _list("UNKNOWN", "ANY", "TOPIC", "GROUP", "CLUSTER", "TRANSACTIONAL_ID", "DELEGATION_TOKEN", "USER"),
    "what an ACL protects; ANY only in filters")
PATTERN_TYPE = Domain("pattern_type", _list("UNKNOWN", "ANY", "MATCH", "LITERAL", "PREFIXED"),
    "how an ACL's resource name is compared; ANY and MATCH only in filters (KIP-290)")
_ACL_OPERATIONS = _list(
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS",
    "TWO_PHASE_COMMIT")
ACL_OPERATION = Domain("acl_operation", _ACL_OPERATIONS, "what an ACL allows or denies; ANY only in filters")
AUTHORIZED_OPERATIONS = FlagDomain("authorized_operations", _ACL_OPERATIONS,
    "what the principal may do: bit n stands for ACL operation n (KIP-430)")
ACL_PERMISSION = Domain("acl_permission", _list("UNKNOWN", "ANY", "DENY", "ALLOW"), "ANY only in filters")
SCRAM_MECHANISM = Domain("scram_mechanism", _list("UNKNOWN", "SCRAM-SHA-256", "SCRAM-SHA-512"), "KIP-554")
SECURITY_PROTOCOL = Domain("security_protocol", _list("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
    "of a listener")
SESSION_LIFETIME = Domain("session_lifetime", {0: "NO_LIMIT"},
    "time until the client must authenticate again (KIP-368)", "duration_ms")
TOKEN_LIFETIME = Domain("token_lifetime", {-1: "SERVER_DEFAULT"}, "delegation token (KIP-48)", "duration_ms")
TOKEN_EXPIRY_PERIOD = Domain("token_expiry_period", {-1: "NOW"},
    "time until the delegation token ends; negative = at once (KIP-48)", "duration_ms")

# --- configuration, quotas, administration ------------------------------------------------------------------

CONFIG_RESOURCE_TYPE = Domain("config_resource_type",
    {0: "UNKNOWN", 2: "TOPIC", 4: "BROKER", 8: "BROKER_LOGGER", 16: "CLIENT_METRICS", 32: "GROUP"},
    "what a configuration belongs to (ConfigResource.Type)")
CONFIG_SOURCE = Domain("config_source",
    _list("UNKNOWN", "DYNAMIC_TOPIC_CONFIG", "DYNAMIC_BROKER_CONFIG", "DYNAMIC_DEFAULT_BROKER_CONFIG",
          "STATIC_BROKER_CONFIG", "DEFAULT_CONFIG", "DYNAMIC_BROKER_LOGGER_CONFIG",
          "DYNAMIC_CLIENT_METRICS_CONFIG", "DYNAMIC_GROUP_CONFIG"),
    "where a configuration value comes from (KIP-226)")
CONFIG_TYPE = Domain("config_type",
    _list("UNKNOWN", "BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"),
    "type of a configuration value (KIP-569)")
ALTER_CONFIG_OP = Domain("alter_config_op", _list("SET", "DELETE", "APPEND", "SUBTRACT"), "KIP-339")
ELECTION_TYPE = Domain("election_type", _list("PREFERRED", "UNCLEAN"), "KIP-460")
UPGRADE_TYPE = Domain("upgrade_type", _list("UNKNOWN", "UPGRADE", "SAFE_DOWNGRADE", "UNSAFE_DOWNGRADE"),
    "KIP-778")
ENDPOINT_TYPE = Domain("endpoint_type", _list("UNKNOWN", "BROKER", "CONTROLLER"),
    "kind of node asked (KIP-919)")
QUOTA_MATCH_TYPE = Domain("quota_match_type", _list("EXACT", "DEFAULT", "SPECIFIED"),
    "quota entity by its name, the default one, or any with a name (KIP-546)")
TOPIC_SETTING = Domain("topic_setting", {-1: "BROKER_DEFAULT"},
    "partitions or replication factor; -1 = default, or by the assignment given (KIP-464)", "number")
TOPIC_COUNT = Domain("topic_count", {-1: "UNKNOWN"},
    "partitions or replication factor of a new topic", "number")
VOLUME_BYTES = Domain("volume_bytes", {-1: "UNKNOWN"},
    "size of the log directory's volume (KIP-827)", "number")
BROKER_FENCING_CHANGE = Domain("broker_fencing_change", _list("UNFENCE", "NONE", "FENCE", first=-1),
    "KIP-631")
CONTROLLED_SHUTDOWN_CHANGE = Domain("controlled_shutdown_change", _list("NONE", "IN_CONTROLLED_SHUTDOWN"),
    "KIP-841")
ZK_MIGRATION_STATE = Domain("zk_migration_state",
    _list("NONE", "MIGRATION", "PRE_MIGRATION", "POST_MIGRATION", "ZK"),
    "state of the move from ZooKeeper; 3.4 wrote 1 for PRE_MIGRATION (ZkMigrationState.java)")
REMOTE_LOG_SEGMENT_STATE = Domain("remote_log_segment_state",
    _list("COPY_SEGMENT_STARTED", "COPY_SEGMENT_FINISHED", "DELETE_SEGMENT_STARTED",
          "DELETE_SEGMENT_FINISHED"),
    "tiered storage (KIP-405)")
REMOTE_PARTITION_DELETE_STATE = Domain("remote_partition_delete_state",
    _list("DELETE_PARTITION_MARKED", "DELETE_PARTITION_STARTED", "DELETE_PARTITION_FINISHED"),
    "tiered storage (KIP-405)")

# --- records, units, errors ---------------------------------------------------------------------------------

COMPRESSION = Domain("compression", {int(codec): codec.label for codec in KNOWN_CODECS},
    "codec (attribute bits 0-2)")
LOG_APPEND_TIME = Domain("log_append_time", {-1: "CREATE_TIME"},
    "when the broker appended the batch; -1 = the producer's timestamps were kept (KIP-32)", "timestamp_ms")
OFFSET_RETENTION = Domain("offset_retention", {-1: "BROKER_DEFAULT"},
    "how long committed offsets are kept; -1 = offsets.retention.minutes", "duration_ms")
DURATION_FILTER = Domain("duration_filter", {-1: "ALL"},
    "only transactions open for longer; negative = all (KIP-994)", "duration_ms")
TIMESTAMP_MS = Domain("timestamp_ms", {-1: "NONE"},
    "milliseconds since 1970-01-01 UTC; -1 = none", "timestamp_ms")
DURATION_MS = Domain("duration_ms", {}, "milliseconds", "duration_ms")
ERROR_CODE = Domain("error_code", {int(error): error.name for error in ErrorCode},
    "0 = no error; explained in dissectors.error_codes")

# fmt: on

# --- feature levels -----------------------------------------------------------------------------------------

_METADATA_VERSIONS = (
    ("3.0", 1, 1), ("3.1", 0, 0), ("3.2", 0, 0), ("3.3", 0, 3), ("3.4", 0, 0), ("3.5", 0, 2), ("3.6", 0, 2),
    ("3.7", 0, 4), ("3.8", 0, 0), ("3.9", 0, 0), ("4.0", 0, 3), ("4.1", 0, 1), ("4.2", 0, 1), ("4.3", 0, 0),
    ("4.4", 0, 2),
)  # fmt: skip
"""Release, first and last internal version; levels count from 1 without gaps (MetadataVersion.java)."""

METADATA_VERSION: Final = Domain(
    "metadata_version",
    _list(
        *(f"{rel}-IV{iv}" for rel, low, high in _METADATA_VERSIONS for iv in range(low, high + 1)), first=1
    ),
    "format of the cluster metadata (KIP-778)",
)

FEATURES: Final[dict[str, Domain]] = {
    "metadata.version": METADATA_VERSION,
    "transaction.version": TRANSACTION_VERSION,
}
"""Feature -> names of its levels. Levels of other features are plain numbers."""


def feature_level_name(feature: str, level: int) -> str | None:
    """Return the name of `level` of `feature`, such as ``4.0-IV3`` for metadata.version 25, or None."""
    domain = FEATURES.get(feature)
    return domain.name_of(level) if domain is not None else None
