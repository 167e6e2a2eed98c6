"""Structs that several messages share, each declared once.

Kafka's definitions repeat them in every message. They are shared here only if the fields and their meaning are the same
in all versions of all messages that carry them.
"""

from dissectors.domains import (
    ERROR_CODE,
    LEADER_EPOCH,
    LEADER_ID,
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
    "name" / String * "listener name",
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
