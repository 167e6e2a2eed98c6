"""ConsumerGroupDescribe (key 69): an admin client describes consumer groups of the KIP-848 protocol

Classic groups are described with DescribeGroups instead. v1 tells classic members in such a group
apart (KIP-1099).
The v0 response of the 3.7 preview has another layout than v0 of 3.8 and later.
"""

from dissectors.domains import (
    AUTHORIZED_OPERATIONS,
    DURATION_MS,
    ERROR_CODE,
    MEMBER_EPOCH_REACHED,
    MEMBER_TYPE,
)
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Bool, Bytes, EarlierLayout, Int8, Int16, Int32, Message, String, Struct
from dissectors.structs import AssignmentByTopic, TopicPartitionNumbers

ConsumerGroupDescribeRequest = Message(
    "ConsumerGroupDescribeRequest", 69, "request", "0-1", "0+",
    "group_ids" / Array(GroupId) * "ids of the groups to describe",
    "include_authorized_operations" / Bool * "true = say what this client may do with each group",
)

_DescribedAssignment = Struct(
    "topic_partitions" / Array(TopicPartitionNumbers) * "partitions by topic",
    "error" / Int8 * "assignor-defined error; 0 = none",
    "metadata_version" / Int32 * "version of the assignor's own metadata",
    "metadata_bytes" / Bytes * "the assignor's own metadata, opaque",
)

ConsumerGroupDescribeResponse = Message(
    "ConsumerGroupDescribeResponse", 69, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "groups" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this group cannot be described (69 = not found, 16 = not the coordinator)",
        "error_message" / String.null().default(None) * "explanation of error_code; null = none",
        "group_id" / GroupId * "group id",
        "group_state" / String * "Empty, Assigning, Reconciling, Stable or Dead",
        "group_epoch" / Int32 * "group epoch; rises when members, subscriptions or topics change",
        "assignment_epoch" / Int32 * "group epoch the target assignment was computed for",
        "assignor_name" / String * "assignor in use on the broker",
        "members" / Array(
            "member_id" / String * "member id",
            "instance_id" / String.null().default(None) * "static member name (group.instance.id); null = dynamic member",
            "rack_id" / String.null().default(None) * "rack of the member; null = none",
            "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "member epoch; below the assignment epoch = still moving to the new assignment",
            "client_id" / String * "client id",
            "client_host" / String * "client address",
            "subscribed_topic_names" / Array(TopicName) * "topics the member subscribes to",
            "subscribed_topic_regex" / String.null().default(None) * "topic pattern the member subscribes to; null = none",
            "assignment" / AssignmentByTopic * "partitions the member has now",
            "target_assignment" / AssignmentByTopic * "partitions the member shall have in the end",
            "member_type" / Int8.of(MEMBER_TYPE).default(-1) @ "1+" * "protocol of the member: 0 classic, 1 consumer (KIP-848), -1 unknown",
        ) * "members of the group",
        "authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = ACL operation n allowed; -2147483648 = not asked for",
    ) * "result for each group",
    older=(
        EarlierLayout("0", "0+", instead={
            "groups.members.assignment": ("assignment" / _DescribedAssignment * "partitions the member has now",),
            "groups.members.target_assignment": (
                "target_assignment" / _DescribedAssignment * "partitions the member shall have in the end",
            ),
        }),
    ),
)
