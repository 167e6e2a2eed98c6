"""StreamsGroupDescribe (key 89): admin tools read the state, topology and members of streams groups.

KIP-1071; used by kafka-streams-groups. v1 (4.4) adds the full topology description (KIP-1331) and
the assignor name (KIP-1357).
"""

from dissectors.domains import (
    AUTHORIZED_OPERATIONS,
    DURATION_MS,
    ERROR_CODE,
    MEMBER_EPOCH_REACHED,
    TOPOLOGY_DESCRIPTION_STATUS,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String, Struct
from dissectors.structs import (
    ChangelogTopic,
    ClientTag,
    RepartitionTopic,
    StreamsEndpoint,
    StreamsTaskOffset,
    StreamsTasks,
    TopologyDescription,
)

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
                "state_changelog_topics" / Array(ChangelogTopic) * "changelog topics of the state stores",
                "repartition_source_topics" / Array(RepartitionTopic) * "repartition topics that the subtopology reads",
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
            "user_endpoint" / StreamsEndpoint.null().default(None) * "endpoint for interactive queries (application.server); null = none",
            "client_tags" / Array(ClientTag) * "client tags for rack-aware standby tasks",
            "task_offsets" / Array(StreamsTaskOffset) * "changelog offsets that the member's stateful tasks have reached",
            "task_end_offsets" / Array(StreamsTaskOffset) * "changelog end offsets of the member's stateful tasks",
            "assignment" / Struct(
                "active_tasks" / Array(StreamsTasks) * "active tasks it runs",
                "standby_tasks" / Array(StreamsTasks) * "standby tasks it keeps",
                "warmup_tasks" / Array(StreamsTasks) * "warm-up tasks it builds up",
            ) * "tasks that the member has now",
            "target_assignment" / Struct(
                "active_tasks" / Array(StreamsTasks) * "active tasks it shall run",
                "standby_tasks" / Array(StreamsTasks) * "standby tasks it shall keep",
                "warmup_tasks" / Array(StreamsTasks) * "warm-up tasks it shall build up",
            ) * "tasks that the member shall have in the end",
            "is_classic" / Bool * "true = the member uses the classic protocol (migration)",
        ) * "members of the group",
        "authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = operation n allowed on the group; -2147483648 = not asked for",
        "topology_description" / TopologyDescription.null().default(None) @ "1+" * "full topology with all nodes (KIP-1331); null = not asked for or not available",
        "topology_description_status" / Int8.of(TOPOLOGY_DESCRIPTION_STATUS) @ "1+" * "0 not asked for, 1 not stored, 2 error, 3 available",
        "assignor_name" / String.null().default(None) @ "1+" * "assignor that the coordinator uses for the group (KIP-1357); null = none",
    ) * "one entry for each group asked for",
)
