"""Records of ``__consumer_offsets``: offset commits and the state of all kinds of groups.

The key starts with the record type (int16), which releases before 4.1 called the version of the key. The value
starts with its version (int16). ``coordinator-common/.../CoordinatorRecordSerde.java``.
"""

from dissectors.domains import (
    DURATION_MS,
    LEADER_EPOCH,
    MEMBER_EPOCH_REACHED,
    MEMBER_STATE,
    STREAMS_MEMBER_STATE,
    TIMESTAMP_MS,
    TOPOLOGY_DESCRIPTION_EPOCH,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import (
    Array,
    Bytes,
    EarlierLayout,
    Field,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Struct,
    Uuid,
)
from dissectors.structs import (
    ClientTag,
    StreamsEndpoint,
    StreamsTasks,
    Subtopology,
    TopicIdPartitions,
    TopicPartitionNumbers,
)


def _group_key(name: str, number: int, group: str, *more: Field) -> Message:
    return Message(name, number, "data", "0", "none", "group_id" / GroupId * group, *more)


def _member_key(name: str, number: int, group: str) -> Message:
    return _group_key(name, number, group, "member_id" / String * "member id")


OffsetCommitKey = Message(
    "OffsetCommitKey", 1, "data", "0-1", "none",
    "group" / GroupId * "group that commits",
    "topic" / TopicName * "topic name",
    "partition" / Int32 * "partition index",
)

OffsetCommitValue = Message(
    "OffsetCommitValue", 1, "data", "0-4", "4+",
    "offset" / Int64 * "committed offset: the next one to read",
    "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "3+" * "leader epoch of the last record read (KIP-320); -1 = unknown",
    "metadata" / String * "text that the client stored with the offset",
    "commit_timestamp" / Int64.of(TIMESTAMP_MS) * "when it was committed, ms since 1970",
    "expire_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "1" * "when it expires, ms since 1970; -1 = by the broker's retention",
    "topic_id" / Uuid.holds("topic_id").tag(0) @ "4+" * "topic id; all zero = unknown",
)

GroupMetadataKey = Message(
    "GroupMetadataKey", 2, "data", "0", "none",
    "group" / GroupId * "group id",
)

GroupMetadataValue = Message(
    "GroupMetadataValue", 2, "data", "0-4", "4+",
    "protocol_type" / String * "consumer, connect, ...; empty = offsets only",
    "generation" / Int32 * "generation; rises with every rebalance",
    "protocol" / String.null() * "assignor chosen; null = group without members",
    "leader" / String.null() * "member id of the leader; null = group without members",
    "current_state_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) @ "2+" * "when the group came into this state, ms since 1970; -1 = not stored",
    "members" / Array(
        "member_id" / String * "member id",
        "group_instance_id" / String.null().default(None) @ "3+" * "group.instance.id of a static member (KIP-345); null = dynamic",
        "client_id" / String * "client.id of the member",
        "client_host" / String * "host that the member connects from",
        "rebalance_timeout" / Int32.of(DURATION_MS).default(-1) @ "1+" * "ms the member may take to rejoin; -1 = not stored",
        "session_timeout" / Int32.of(DURATION_MS) * "ms without heartbeat after which the member is dead",
        "subscription" / Bytes.holds("group_metadata") * "what the member subscribes to, format by protocol_type",
        "assignment" / Bytes.holds("group_assignment") * "what the member was given, format by protocol_type",
    ) * "members of the group",
)

ConsumerGroupMetadataKey = _group_key("ConsumerGroupMetadataKey", 3, "consumer group (KIP-848)")
ConsumerGroupMetadataValue = Message(
    "ConsumerGroupMetadataValue", 3, "data", "0", "0+",
    "epoch" / Int32 * "group epoch; rises when members, subscriptions or topics change",
    "metadata_hash" / Int64.tag(0) * "hash of the subscribed topics' metadata; a new hash raises the epoch; 0 = none",
)

ConsumerGroupPartitionMetadataKey = _group_key("ConsumerGroupPartitionMetadataKey", 4, "consumer group (KIP-848)")

_TopicPartitionRacks = Struct(
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "topic_name" / TopicName * "topic name",
    "num_partitions" / Int32 * "number of partitions",
    "partition_metadata" / Array(
        "partition" / Int32 * "partition index",
        "racks" / Array(String) * "racks of the partition's replicas",
    ) * "racks of the partitions",
)

ConsumerGroupPartitionMetadataValue = Message(
    "ConsumerGroupPartitionMetadataValue", 4, "data", "0", "0+",
    "topics" / Array(_TopicPartitionRacks) * "topics that the group subscribes to",
    older=(
        EarlierLayout("0", "0+", instead={"topics": (
            "epoch" / Int32 * "group epoch at which this was written",
            "topics" / Array(_TopicPartitionRacks) * "topics that the group subscribes to",
        )}),
        EarlierLayout("0", "0+", instead={"topics": (
            "epoch" / Int32 * "group epoch at which this was written",
            "topics" / Array(
                "topic_id" / Uuid.holds("topic_id") * "topic id",
                "num_partitions" / Int32 * "number of partitions",
            ) * "topics that the group subscribes to",
        )}),
    ),
)

ConsumerGroupMemberMetadataKey = _member_key("ConsumerGroupMemberMetadataKey", 5, "consumer group (KIP-848)")

_AssignorsBeforeRelease = "assignors" / Array(
    "name" / String * "name of the client-side assignor",
    "minimum_version" / Int16 * "lowest metadata version the assignor reads",
    "maximum_version" / Int16 * "highest metadata version the assignor reads",
    "reason" / Int8 * "assignor-defined reason for the metadata update",
    "version" / Int16 * "version of the assignor's own metadata",
    "metadata" / Bytes * "the assignor's own metadata, opaque",
) * "client-side assignors of the member (dropped before release)"

ConsumerGroupMemberMetadataValue = Message(
    "ConsumerGroupMemberMetadataValue", 5, "data", "0", "0+",
    "instance_id" / String.null() * "group.instance.id of a static member; null = dynamic",
    "rack_id" / String.null() * "client.rack of the member; null = none",
    "client_id" / String * "client.id of the member",
    "client_host" / String * "host that the member connects from",
    "subscribed_topic_names" / Array(TopicName) * "topics subscribed by name",
    "subscribed_topic_regex" / String.null() * "topics subscribed by regular expression; null = none",
    "rebalance_timeout_ms" / Int32.of(DURATION_MS).default(-1) * "ms the member may take to revoke partitions (max.poll.interval.ms); -1 = not given",
    "server_assignor" / String.null() * "assignor that the member asks for; null = any",
    "classic_member_metadata" / Struct(
        "session_timeout_ms" / Int32.of(DURATION_MS) * "session timeout of the classic member in ms",
        "supported_protocols" / Array(
            "name" / String * "assignor name, e.g. range",
            "metadata" / Bytes.holds("group_metadata") * "its subscription (ConsumerProtocolSubscription)",
        ) * "assignors of its JoinGroup",
    ).null().tag(0) * "set if the member uses the classic protocol (migration); null = not",
    older=(
        EarlierLayout("0", "0+", instead={"classic_member_metadata": (_AssignorsBeforeRelease,)}),
        EarlierLayout("0", "0+", without=("rebalance_timeout_ms", "server_assignor"), instead={
            "instance_id": (
                "group_epoch" / Int32 * "group epoch at which this was written",
                "instance_id" / String.null() * "group.instance.id of a static member; null = dynamic",
            ),
            "classic_member_metadata": (_AssignorsBeforeRelease,),
        }),
    ),
)

_TargetAssignment = Struct(
    "assignment_epoch" / Int32 * "group epoch for which the target assignment was made",
    "assignment_timestamp" / Int64.of(TIMESTAMP_MS).tag(0) * "when the assignment was made, ms since 1970; 0 = not stored",
)

ConsumerGroupTargetAssignmentMetadataKey = _group_key("ConsumerGroupTargetAssignmentMetadataKey", 6, "consumer group (KIP-848)")
ConsumerGroupTargetAssignmentMetadataValue = Message("ConsumerGroupTargetAssignmentMetadataValue", 6, "data", "0", "0+", *_TargetAssignment.fields)

ConsumerGroupTargetAssignmentMemberKey = _member_key("ConsumerGroupTargetAssignmentMemberKey", 7, "consumer group (KIP-848)")

ConsumerGroupTargetAssignmentMemberValue = Message(
    "ConsumerGroupTargetAssignmentMemberValue", 7, "data", "0", "0+",
    "topic_partitions" / Array(TopicIdPartitions) * "partitions that the member shall have",
    older=(
        EarlierLayout("0", "0+", instead={"topic_partitions": (
            "error" / Int8 * "assignor-defined error; 0 = none",
            "topic_partitions" / Array(TopicIdPartitions) * "partitions that the member shall have",
            "metadata_version" / Int16 * "version of the assignor's own metadata",
            "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
        )}),
    ),
)

ConsumerGroupCurrentMemberAssignmentKey = _member_key("ConsumerGroupCurrentMemberAssignmentKey", 8, "consumer group (KIP-848)")

_PartitionsWithEpochs = Struct(
    *TopicIdPartitions.fields,
    "assignment_epochs" / Array(Int32).null().tag(0) * "member epoch at which each partition was assigned, same order; null = not stored",
)

_ConsumerGroupCurrentMemberAssignmentValueUntil35 = Message(
    "ConsumerGroupCurrentMemberAssignmentValue", 8, "data", "0", "0+",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
    "error" / Int8 * "assignor-defined error; 0 = none",
    "topic_partitions" / Array(TopicIdPartitions) * "partitions assigned to the member",
    "metadata_version" / Int16 * "version of the assignor's own metadata",
    "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
)

_ConsumerGroupCurrentMemberAssignmentValueUntil37 = Message(
    "ConsumerGroupCurrentMemberAssignmentValue", 8, "data", "0", "0+",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
    "previous_member_epoch" / Int32 * "epoch before; still accepted if the last response was lost",
    "target_member_epoch" / Int32 * "epoch the member is moving to",
    "assigned_partitions" / Array(TopicIdPartitions) * "partitions that the member has",
    "partitions_pending_revocation" / Array(TopicIdPartitions) * "partitions that the member has still to give up",
    "partitions_pending_assignment" / Array(TopicIdPartitions) * "partitions that will follow once others gave them up",
    "error" / Int8 * "assignor-defined error; 0 = none",
    "metadata_version" / Int16 * "version of the assignor's own metadata",
    "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
)

ConsumerGroupCurrentMemberAssignmentValue = Message(
    "ConsumerGroupCurrentMemberAssignmentValue", 8, "data", "0", "0+",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
    "previous_member_epoch" / Int32 * "epoch before; still accepted if the last response was lost",
    "state" / Int8.of(MEMBER_STATE) * "0 stable, 1 has still to revoke, 2 waits for partitions of others, 127 unknown",
    "assigned_partitions" / Array(_PartitionsWithEpochs) * "partitions that the member has",
    "partitions_pending_revocation" / Array(_PartitionsWithEpochs) * "partitions that the member has still to give up",
    older=(_ConsumerGroupCurrentMemberAssignmentValueUntil37, _ConsumerGroupCurrentMemberAssignmentValueUntil35,),
)

ShareGroupPartitionMetadataKey = Message(
    "ShareGroupPartitionMetadataKey", None, "data", "9", "none",
    "group_id" / GroupId * "share group",
)

_ShareGroupPartitionMetadataValueUntil39 = Message(
    "ShareGroupPartitionMetadataValue", None, "data", "0", "0+",
    "initialized_topics" / Array(TopicPartitionNumbers) * "topics whose share state is initialized",
    "deleting_topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "topic_name" / TopicName * "topic name",
    ) * "topics whose share state is being deleted",
)

ShareGroupPartitionMetadataValue = Message(
    "ShareGroupPartitionMetadataValue", None, "data", "0", "0+",
    "topics" / Array(_TopicPartitionRacks) * "topics that the group subscribes to",
    older=(_ShareGroupPartitionMetadataValueUntil39,),
)

ShareGroupMemberMetadataKey = _member_key("ShareGroupMemberMetadataKey", 10, "share group")
ShareGroupMemberMetadataValue = Message(
    "ShareGroupMemberMetadataValue", 10, "data", "0", "0+",
    "rack_id" / String.null() * "client.rack of the member; null = none",
    "client_id" / String * "client.id of the member",
    "client_host" / String * "host that the member connects from",
    "subscribed_topic_names" / Array(TopicName) * "topics subscribed by name",
)

ShareGroupMetadataKey = _group_key("ShareGroupMetadataKey", 11, "share group")
ShareGroupMetadataValue = Message(
    "ShareGroupMetadataValue", 11, "data", "0", "0+",
    "epoch" / Int32 * "group epoch; rises when members, subscriptions or topics change",
    "metadata_hash" / Int64 * "hash of the subscribed topics' metadata; a new hash raises the epoch",
    older=(EarlierLayout("0", "0+", without=("metadata_hash",)),),
)

ShareGroupTargetAssignmentMetadataKey = _group_key("ShareGroupTargetAssignmentMetadataKey", 12, "share group")
ShareGroupTargetAssignmentMetadataValue = Message("ShareGroupTargetAssignmentMetadataValue", 12, "data", "0", "0+", *_TargetAssignment.fields)

ShareGroupTargetAssignmentMemberKey = _member_key("ShareGroupTargetAssignmentMemberKey", 13, "share group")
ShareGroupTargetAssignmentMemberValue = Message(
    "ShareGroupTargetAssignmentMemberValue", 13, "data", "0", "0+",
    "topic_partitions" / Array(TopicIdPartitions) * "partitions that the member shall have, shared with others",
)

ShareGroupCurrentMemberAssignmentKey = _member_key("ShareGroupCurrentMemberAssignmentKey", 14, "share group")
ShareGroupCurrentMemberAssignmentValue = Message(
    "ShareGroupCurrentMemberAssignmentValue", 14, "data", "0", "0+",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
    "previous_member_epoch" / Int32 * "epoch before; still accepted if the last response was lost",
    "state" / Int8.of(MEMBER_STATE) * "0 stable",
    "assigned_partitions" / Array(TopicIdPartitions) * "partitions that the member has, shared with others",
)

ShareGroupStatePartitionMetadataKey = _group_key("ShareGroupStatePartitionMetadataKey", 15, "share group")

ShareGroupStatePartitionMetadataValue = Message(
    "ShareGroupStatePartitionMetadataValue", 15, "data", "0", "0+",
    "initializing_topics" / Array(TopicPartitionNumbers) * "topics whose share state is being initialized",
    "initialized_topics" / Array(TopicPartitionNumbers) * "topics whose share state is initialized",
    "deleting_topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "topic_name" / TopicName * "topic name",
    ) * "topics whose share state is being deleted",
    older=(EarlierLayout("0", "0+", without=("initializing_topics",)),),
)

ConsumerGroupRegularExpressionKey = Message(
    "ConsumerGroupRegularExpressionKey", 16, "data", "0", "none",
    "group_id" / GroupId * "consumer group (KIP-848)",
    "regular_expression" / String * "regular expression that members subscribe with",
)

ConsumerGroupRegularExpressionValue = Message(
    "ConsumerGroupRegularExpressionValue", 16, "data", "0", "0+",
    "topics" / Array(TopicName) * "topics that match",
    "version" / Int64 * "version of the cluster metadata that was searched",
    "timestamp" / Int64.of(TIMESTAMP_MS) * "when it was searched, ms since 1970",
)

StreamsGroupMetadataKey = _group_key("StreamsGroupMetadataKey", 17, "streams group (application.id)")
StreamsGroupMetadataValue = Message(
    "StreamsGroupMetadataValue", 17, "data", "0", "0+",
    "epoch" / Int32 * "group epoch; rises when members, topology or topics change",
    "metadata_hash" / Int64 * "hash of the source topics' metadata; a new hash raises the epoch",
    "validated_topology_epoch" / Int32.tag(0).default(-1) * "topology version that was checked against the topics; -1 = none",
    "last_assignment_configs" / Array(
        "key" / String * "config name",
        "value" / String * "config value",
    ).null().tag(1) * "group configs used for the last assignment; null = not stored",
    "stored_description_topology_epoch" / Int32.of(TOPOLOGY_DESCRIPTION_EPOCH).tag(2).default(-1) * "topology version whose description the plugin has (KIP-1331); -1 = none",
    "failed_description_topology_epoch" / Int32.of(TOPOLOGY_DESCRIPTION_EPOCH).tag(3).default(-1) * "topology version whose description the plugin refused (KIP-1331); -1 = none",
)

StreamsGroupMemberMetadataKey = _member_key("StreamsGroupMemberMetadataKey", 19, "streams group (application.id)")
StreamsGroupMemberMetadataValue = Message(
    "StreamsGroupMemberMetadataValue", 19, "data", "0", "0+",
    "instance_id" / String.null() * "group.instance.id of a static member; null = dynamic",
    "rack_id" / String.null() * "client.rack of the member; null = none",
    "client_id" / String * "client.id of the member",
    "client_host" / String * "host that the member connects from",
    "rebalance_timeout_ms" / Int32.of(DURATION_MS).default(-1) * "ms the member may take to revoke tasks; -1 = not given",
    "topology_epoch" / Int32 * "version of the topology that the member runs",
    "process_id" / String * "id of the Streams instance, shared by its threads",
    "user_endpoint" / StreamsEndpoint.null().default(None) * "endpoint for interactive queries (application.server); null = none",
    "client_tags" / Array(ClientTag) * "client tags for rack-aware standby tasks",
)

StreamsGroupTargetAssignmentMetadataKey = _group_key("StreamsGroupTargetAssignmentMetadataKey", 20, "streams group (application.id)")
StreamsGroupTargetAssignmentMetadataValue = Message("StreamsGroupTargetAssignmentMetadataValue", 20, "data", "0", "0+", *_TargetAssignment.fields)

StreamsGroupTargetAssignmentMemberKey = _member_key("StreamsGroupTargetAssignmentMemberKey", 21, "streams group (application.id)")
StreamsGroupTargetAssignmentMemberValue = Message(
    "StreamsGroupTargetAssignmentMemberValue", 21, "data", "0", "0+",
    "active_tasks" / Array(StreamsTasks) * "active tasks it shall run",
    "standby_tasks" / Array(StreamsTasks) * "standby tasks it shall keep",
    "warmup_tasks" / Array(StreamsTasks) * "warm-up tasks it shall build up",
)

StreamsGroupCurrentMemberAssignmentKey = _member_key("StreamsGroupCurrentMemberAssignmentKey", 22, "streams group (application.id)")

_TasksWithEpochs = Struct(
    "subtopology_id" / String * "subtopology of the tasks",
    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
    "assignment_epochs" / Array(Int32).null().tag(0) * "member epoch at which each task was assigned, same order; null = not stored",
)

StreamsGroupCurrentMemberAssignmentValue = Message(
    "StreamsGroupCurrentMemberAssignmentValue", 22, "data", "0", "0+",
    "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
    "previous_member_epoch" / Int32 * "epoch before; still accepted if the last response was lost",
    "state" / Int8.of(STREAMS_MEMBER_STATE) * "1 stable, 2 has still to revoke, 3 waits for tasks of others, 127 unknown",
    "active_tasks" / Array(_TasksWithEpochs) * "active tasks that the member has",
    "standby_tasks" / Array(_TasksWithEpochs) * "standby tasks that the member has",
    "warmup_tasks" / Array(_TasksWithEpochs) * "warm-up tasks that the member has",
    "active_tasks_pending_revocation" / Array(_TasksWithEpochs) * "active tasks that the member has still to give up",
    "standby_tasks_pending_revocation" / Array(_TasksWithEpochs) * "standby tasks that the member has still to give up",
    "warmup_tasks_pending_revocation" / Array(_TasksWithEpochs) * "warm-up tasks that the member has still to give up",
)

StreamsGroupTopologyKey = _group_key("StreamsGroupTopologyKey", 23, "streams group (application.id)")
StreamsGroupTopologyValue = Message(
    "StreamsGroupTopologyValue", 23, "data", "0", "0+",
    "epoch" / Int32 * "version of the topology",
    "subtopologies" / Array(Subtopology) * "subtopologies of the application",
)
