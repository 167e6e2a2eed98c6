"""Metadata (key 3): find brokers, controller, topics and partition leaders; the routing table.

v0: an empty topic list means all topics; v1+: null means all, empty means none.
v2 cluster id (KIP-78), v5 offline replicas (KIP-112), v7 leader epochs (KIP-320), v8 allowed
operations (KIP-430; for the cluster only up to v10, then in DescribeCluster), v10 topic ids
(KIP-516; lookup by id works from v12), v13 a top-level error (KIP-1102).
A storm of these means that a client cannot find a topic or a leader.
"""

from dissectors.domains import (
    AUTHORIZED_OPERATIONS,
    CONTROLLER_ID,
    DURATION_MS,
    ERROR_CODE,
    LEADER_EPOCH,
    LEADER_ID,
)
from dissectors.entities import BrokerId, ClusterId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Message, String, Uuid

MetadataRequest = Message(
    "MetadataRequest", 3, "request", "0-13", "9+",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id to look up; all-zero = by name",
        "name" / TopicName.null("10+") * "topic name; null when the id is used",
    ).null("1+") * "topics wanted; null = all (v0: empty = all), empty = none",
    "allow_auto_topic_creation" / Bool.default(True) @ "4+" * "whether the broker may create missing topics (also needs auto.create.topics.enable)",
    "include_cluster_authorized_operations" / Bool @ "8-10" * "whether to list what the user may do on the cluster (v8-10)",
    "include_topic_authorized_operations" / Bool @ "8+" * "whether to list what the user may do on each topic",
)

MetadataResponse = Message(
    "MetadataResponse", 3, "response", "0-13", "9+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "3+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "brokers" / Array(
        "node_id" / BrokerId * "broker id",
        "host" / String * "advertised host name on this listener",
        "port" / Int32 * "advertised port on this listener",
        "rack" / String.null().default(None) @ "1+" * "rack of the broker; null = none",
    ) * "brokers that are alive",
    "cluster_id" / ClusterId.null().default(None) @ "2+" * "cluster id; null = unknown",
    "controller_id" / BrokerId.of(CONTROLLER_ID).default(-1) @ "1+" * "broker id of the controller, -1 = none; under KRaft just some live broker",
    "topics" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this topic failed, e.g. 3 = unknown, 29 = not authorized",
        "name" / TopicName.null("12+") * "topic name; null when the id asked for is unknown",
        "topic_id" / Uuid.holds("topic_id") @ "10+" * "topic id; all-zero = none or unknown",
        "is_internal" / Bool @ "1+" * "true for Kafka's own topics such as __consumer_offsets",
        "partitions" / Array(
            "error_code" / Int16.of(ERROR_CODE) * "0 or what is wrong with this partition, e.g. 5 = no leader",
            "partition_index" / Int32 * "partition number",
            "leader_id" / BrokerId.of(LEADER_ID) * "broker id of the leader; -1 = none",
            "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "7+" * "epoch of the leader; -1 = unknown",
            "replica_nodes" / Array(BrokerId) * "broker ids of all replicas, preferred leader first",
            "isr_nodes" / Array(BrokerId) * "broker ids of the in-sync replicas",
            "offline_replicas" / Array(BrokerId) @ "5+" * "broker ids of the replicas that are offline",
        ) * "partitions of the topic",
        "topic_authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) @ "8+" * "bit n = ACL operation n allowed on the topic; -2147483648 = not asked",
    ) * "topics asked for",
    "cluster_authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) @ "8-10" * "bit n = ACL operation n allowed on the cluster; -2147483648 = not asked",
    "error_code" / Int16.of(ERROR_CODE) @ "13+" * "0 or why the whole request failed; 129 = client must bootstrap again (KIP-1102)",
)
