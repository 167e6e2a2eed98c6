"""StreamsGroupDescribe (key 89): admin tools read the state, topology and members of streams groups.

KIP-1071; used by kafka-streams-groups. v1 (4.4) adds the full topology description (KIP-1331) and
the assignor name (KIP-1357).
"""

from dissectors.domains import (
    AUTHORIZED_OPERATIONS,
    DURATION_MS,
    ERROR_CODE,
    MEMBER_EPOCH_REACHED,
    STREAMS_NODE_TYPE,
    STREAMS_TOPIC_SETTING,
    TOPOLOGY_DESCRIPTION_STATUS,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Struct, Uint16

StreamsGroupDescribeRequest = Message(
    "StreamsGroupDescribeRequest", 89, "request", "0-1", "0+",
    "group_ids" / Array(GroupId) * "streams groups to describe",
    "include_authorized_operations" / Bool * "true = also say which operations the caller may do on the groups",
    "include_topology_description" / Bool @ "1+" * "true = also return the full topology, if the broker has it (KIP-1331)",
)

StreamsGroupDescribeResponse = Message(
    "StreamsGroupDescribeResponse", 89, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "groups" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this group was not described",
        "error_message" / String.null().default(None) * "text for the error; null = none",
        "group_id" / GroupId * "streams group (application.id)",
        "group_state" / String * "state of the group: Empty, NotReady, Assigning, Reconciling, Stable or Dead",
        "group_epoch" / Int32 * "rises when members, topology or topics change",
        "assignment_epoch" / Int32 * "group epoch for which the target assignment was made; lower = not yet made anew",
        "topology" / Struct(
            "epoch" / Int32 * "version of the topology",
            "subtopologies" / Array(
                "subtopology_id" / String * "subtopology id, unique in the topology",
                "source_topics" / Array(TopicName) * "user topics that the subtopology reads",
                "repartition_sink_topics" / Array(TopicName) * "repartition topics that the subtopology writes",
                "state_changelog_topics" / Array(
                    "name" / TopicName * "changelog topic name",
                    "partitions" / Int32.of(STREAMS_TOPIC_SETTING) * "number of partitions wanted; 0 = the broker works it out",
                    "replication_factor" / Int16.of(STREAMS_TOPIC_SETTING) * "replication factor wanted; 0 = the broker's default",
                    "topic_configs" / Array(
                        "key" / String * "topic config name",
                        "value" / String * "topic config value",
                    ) * "topic configs to create the topic with",
                ) * "changelog topics of the state stores",
                "repartition_source_topics" / Array(
                    "name" / TopicName * "repartition topic name",
                    "partitions" / Int32.of(STREAMS_TOPIC_SETTING) * "number of partitions wanted; 0 = the broker works it out",
                    "replication_factor" / Int16.of(STREAMS_TOPIC_SETTING) * "replication factor wanted; 0 = the broker's default",
                    "topic_configs" / Array(
                        "key" / String * "topic config name",
                        "value" / String * "topic config value",
                    ) * "topic configs to create the topic with",
                ) * "repartition topics that the subtopology reads",
            ).null().default(None) * "subtopologies of the application; null = none",
        ).null().default(None) * "topology as the coordinator uses it; null = none yet",
        "members" / Array(
            "member_id" / String * "member id",
            "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "epoch that the member has reached",
            "instance_id" / String.null().default(None) * "group.instance.id of a static member; null = dynamic",
            "rack_id" / String.null().default(None) * "rack of the member; null = none",
            "client_id" / String * "client.id of the member",
            "client_host" / String * "host that the member connects from",
            "topology_epoch" / Int32 * "version of the topology that the member runs",
            "process_id" / String * "id of the Streams instance, shared by its threads",
            "user_endpoint" / Struct(
                "host" / String * "host of application.server",
                "port" / Uint16 * "port of application.server",
            ).null().default(None) * "endpoint for interactive queries (application.server); null = none",
            "client_tags" / Array(
                "key" / String * "client tag name",
                "value" / String * "client tag value",
            ) * "client tags for rack-aware standby tasks",
            "task_offsets" / Array(
                "subtopology_id" / String * "subtopology of the task",
                "partition" / Int32 * "partition of the task",
                "offset" / Int64 * "sum of the changelog offsets that the task has reached",
            ) * "changelog offsets of the member's stateful tasks",
            "task_end_offsets" / Array(
                "subtopology_id" / String * "subtopology of the task",
                "partition" / Int32 * "partition of the task",
                "offset" / Int64 * "sum of the end offsets of the task's changelogs",
            ) * "changelog end offsets of the member's stateful tasks",
            "assignment" / Struct(
                "active_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "active tasks it runs",
                "standby_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "standby tasks it keeps",
                "warmup_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "warm-up tasks it builds up",
            ) * "tasks that the member has now",
            "target_assignment" / Struct(
                "active_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "active tasks it shall run",
                "standby_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "standby tasks it shall keep",
                "warmup_tasks" / Array(
                    "subtopology_id" / String * "subtopology of the tasks",
                    "partitions" / Array(Int32) * "partitions of the subtopology, one task each",
                ) * "warm-up tasks it shall build up",
            ) * "tasks that the member shall have in the end",
            "is_classic" / Bool * "true = the member uses the classic protocol (migration)",
        ) * "members of the group",
        "authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = operation n allowed on the group; -2147483648 = not asked for",
        "topology_description" / Struct(
            "subtopologies" / Array(
                "subtopology_id" / String * "subtopology id",
                "nodes" / Array(
                    "name" / String * "name of the node in the topology",
                    "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                    "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                    "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                    "stores" / Array(String) * "state stores that a processor node uses",
                    "successors" / Array(String) * "names of the nodes that get this node's output",
                ) * "nodes of the subtopology",
            ) * "subtopologies with their graph of nodes",
            "global_stores" / Array(
                "source" / Struct(
                    "name" / String * "name of the node in the topology",
                    "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                    "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                    "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                    "stores" / Array(String) * "state stores that a processor node uses",
                    "successors" / Array(String) * "names of the nodes that get this node's output",
                ) * "source node that feeds the global store",
                "processor" / Struct(
                    "name" / String * "name of the node in the topology",
                    "node_type" / Int8.of(STREAMS_NODE_TYPE) * "code of the node's kind: source, processor or sink",
                    "source_topics" / Array(TopicName) * "topics that a source node reads; empty for other nodes",
                    "sink_topic" / TopicName.null().default(None) * "topic that a sink node writes; null for other nodes or a topic chosen per record",
                    "stores" / Array(String) * "state stores that a processor node uses",
                    "successors" / Array(String) * "names of the nodes that get this node's output",
                ) * "processor node that fills the global store",
            ) * "global state stores, one source and one processor each",
        ).null().default(None) @ "1+" * "full topology with all nodes (KIP-1331); null = not asked for or not available",
        "topology_description_status" / Int8.of(TOPOLOGY_DESCRIPTION_STATUS) @ "1+" * "0 not asked for, 1 not stored, 2 error, 3 available",
        "assignor_name" / String.null().default(None) @ "1+" * "assignor that the coordinator uses for the group (KIP-1357); null = none",
    ) * "one entry for each group asked for",
)
