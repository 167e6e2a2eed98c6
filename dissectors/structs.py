"""Structs that several messages share, each declared once.

Kafka's definitions repeat them in every message. They are shared here only if the fields and their meaning are the same
in all versions of all messages that carry them.
"""

from dissectors.domains import (
    ACKNOWLEDGE_TYPE,
    ACL_OPERATION,
    ACL_PERMISSION,
    CONFIG_RESOURCE_TYPE,
    CONTROLLER_LEADER_EPOCH,
    CONTROLLER_LEADER_ID,
    ERROR_CODE,
    LEADER_EPOCH,
    LEADER_ID,
    PATTERN_TYPE,
    RESOURCE_TYPE,
    SECURITY_PROTOCOL,
    SHARE_DELIVERY_STATE,
    STREAMS_NODE_TYPE,
    STREAMS_TOPIC_SETTING,
)
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Int8, Int16, Int32, Int64, String, Struct, Uint16, Uuid

StreamsNode = Struct(
    "name" / String * "name of the node in the topology",
    "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
    "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
    "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
    "stores" / Array(String) * "state stores that a processor node uses",
    "successors" / Array(String) * "names of the nodes that get this node's output",
)

StreamsTasks = Struct(
    "subtopology_id" / String * "subtopology of the tasks",
    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
)

TopicConfig = Struct(
    "key" / String * "topic config name",
    "value" / String * "topic config value",
)

ChangelogTopic = Struct(
    "name" / TopicName * "changelog topic name",
    "partitions" / Int32.of(STREAMS_TOPIC_SETTING) * "number of partitions wanted; 0 = the broker works it out",
    "replication_factor" / Int16.of(STREAMS_TOPIC_SETTING) * "replication factor wanted; 0 = the broker's default",
    "topic_configs" / Array(TopicConfig) * "topic configs to create the topic with",
)

RepartitionTopic = Struct(
    "name" / TopicName * "repartition topic name",
    "partitions" / Int32.of(STREAMS_TOPIC_SETTING) * "number of partitions wanted; 0 = the broker works it out",
    "replication_factor" / Int16.of(STREAMS_TOPIC_SETTING) * "replication factor wanted; 0 = the broker's default",
    "topic_configs" / Array(TopicConfig) * "topic configs to create the topic with",
)

StreamsEndpoint = Struct(
    "host" / String * "host of application.server",
    "port" / Uint16 * "port of application.server",
)

ClientTag = Struct(
    "key" / String * "client tag name",
    "value" / String * "client tag value",
)

Subtopology = Struct(
    "subtopology_id" / String * "subtopology id, unique in the topology",
    "source_topics" / Array(TopicName) * "user topics that the subtopology reads",
    "source_topic_regex" / Array(String) * "regular expressions for user topics that the subtopology reads",
    "state_changelog_topics" / Array(ChangelogTopic) * "changelog topics of the state stores",
    "repartition_sink_topics" / Array(TopicName) * "repartition topics that the subtopology writes",
    "repartition_source_topics" / Array(RepartitionTopic) * "repartition topics that the subtopology reads",
    "copartition_groups" / Array(
        "source_topics" / Array(Int16) * "indexes into source_topics of this subtopology",
        "source_topic_regex" / Array(Int16) * "indexes into source_topic_regex of this subtopology",
        "repartition_source_topics" / Array(Int16) * "indexes into repartition_source_topics of this subtopology",
    ) * "topics that must have the same number of partitions",
)

TopologyDescription = Struct(
    "subtopologies" / Array(
        "subtopology_id" / String * "subtopology id",
        "nodes" / Array(StreamsNode) * "nodes of the subtopology",
    ) * "subtopologies with their graph of nodes",
    "global_stores" / Array(
        "source" / StreamsNode * "source node that feeds the global store",
        "processor" / StreamsNode * "processor node that fills the global store",
    ) * "global state stores, one source and one processor each",
)

ShareStateBatch = Struct(
    "first_offset" / Int64 * "first offset of the range",
    "last_offset" / Int64 * "last offset of the range (included)",
    "delivery_state" / Int8.of(SHARE_DELIVERY_STATE) * "0 available, 1 acquired, 2 acknowledged, 4 archived",
    "delivery_count" / Int16 * "how often the records were handed to a consumer",
)

TopicPartitionNumbers = Struct(
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "topic_name" / TopicName * "topic name",
    "partitions" / Array(Int32) * "partition numbers",
)

AssignmentByTopic = Struct(
    "topic_partitions" / Array(TopicPartitionNumbers) * "partitions by topic",
)

TopicIdPartitions = Struct(
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partitions" / Array(Int32) * "partition numbers",
)

QuorumNode = Struct(
    "node_id" / BrokerId * "node id",
    "host" / String * "host name or address",
    "port" / Uint16 * "port",
)

QuorumListener = Struct(
    "name" / String * "listener name, e.g. CONTROLLER",
    "host" / String * "host name or address",
    "port" / Uint16 * "port",
)

QuorumTopicResult = Struct(
    "topic_name" / TopicName * "__cluster_metadata",
    "partitions" / Array(
        "partition_index" / Int32 * "partition number, 0",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the voter refused (74 = older epoch)",
        "leader_id" / BrokerId.of(LEADER_ID) * "node id of the leader the voter knows; -1 = unknown",
        "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch the voter is in",
    ) * "result for each partition",
)

NodeEndpoint = Struct(
    "node_id" / BrokerId * "broker id",
    "host" / String * "host name or address of the broker",
    "port" / Int32 * "port of the broker",
    "rack" / String.null().default(None) * "rack of the broker; null = none",
)

CurrentLeader = Struct(
    "leader_id" / BrokerId.of(LEADER_ID) * "node id of the leader; -1 = unknown",
    "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the leader; -1 = unknown",
)

AcknowledgementBatch = Struct(
    "first_offset" / Int64 * "first offset acknowledged",
    "last_offset" / Int64 * "last offset acknowledged (inclusive)",
    "acknowledge_types" / Array(Int8.of(ACKNOWLEDGE_TYPE)) * "one per offset, or one for all: 0 gap, 1 accept, 2 release, 3 reject, 4 renew (v2+)",
)

ShareStateResult = Struct(
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "partitions" / Array(
        "partition" / Int32 * "partition index",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why nothing was done for this partition",
        "error_message" / String.null().default(None) * "text for the error; null = none",
    ) * "result for each partition",
)

TopicPartitions = Struct(
    "topic" / TopicName * "topic name",
    "partitions" / Array(Int32) * "partition numbers",
)

StreamsTaskOffset = Struct(
    "subtopology_id" / String * "subtopology of the task",
    "partition" / Int32 * "partition of the task",
    "offset" / Int64 * "sum of the offsets of the task's changelogs",
)

Listener = Struct(
    "name" / String * "listener name",
    "host" / String * "advertised host name or address",
    "port" / Uint16 * "advertised port",
    "security_protocol" / Int16.of(SECURITY_PROTOCOL) * "0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL",
)

SupportedFeature = Struct(
    "name" / String * "feature name, such as metadata.version",
    "min_supported_version" / Int16 * "lowest level that the node supports",
    "max_supported_version" / Int16 * "highest level that the node supports",
)

QuotaEntity = Struct(
    "entity_type" / String * "user, client-id or ip",
    "entity_name" / String.null() * "user name, client id or address; null = the default entity",
)

Principal = Struct(
    "principal_type" / String * "type of the principal, such as User",
    "principal_name" / String * "name of the principal",
)

AclFilter = Struct(
    "resource_type_filter" / Int8.of(RESOURCE_TYPE) * "resource type: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 token, 7 user",
    "resource_name_filter" / String.null() * "resource name to match; null = any",
    "pattern_type_filter" / Int8.of(PATTERN_TYPE).default(3) @ "1+" * "1 any, 2 match (all that apply to the name), 3 literal, 4 prefixed",
    "principal_filter" / String.null() * "principal to match, as in User:alice; null = any",
    "host_filter" / String.null() * "client host to match; null = any",
    "operation" / Int8.of(ACL_OPERATION) * "ACL operation to match (2 all, 3 read, 4 write, 8 describe ...); 1 = any",
    "permission_type" / Int8.of(ACL_PERMISSION) * "1 any, 2 deny, 3 allow",
)

AclRule = Struct(
    "principal" / String * "principal the ACL applies to, as in User:alice; User:* = everyone",
    "host" / String * "client host the ACL applies to; * = all",
    "operation" / Int8.of(ACL_OPERATION) * "operation allowed or denied (2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe ...)",
    "permission_type" / Int8.of(ACL_PERMISSION) * "2 deny, 3 allow",
)

ConfigResourceResult = Struct(
    "error_code" / Int16.of(ERROR_CODE) * "0 or why this resource was not changed",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
    "resource_name" / String * "name or id of the resource",
)

ControllerPartitionState = Struct(
    "partition_index" / Int32 * "partition number",
    "controller_epoch" / Int32 * "controller epoch in which the state was last changed",
    "leader" / BrokerId.of(CONTROLLER_LEADER_ID) * "broker id of the leader; -1 = none, -2 = topic being deleted",
    "leader_epoch" / Int32.of(CONTROLLER_LEADER_EPOCH) * "epoch of the leader",
    "isr" / Array(BrokerId) * "broker ids of the in-sync replicas",
)
