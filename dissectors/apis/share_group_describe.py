"""ShareGroupDescribe (key 77): an admin client describes share groups (KIP-932)

v0 exists only in the early access of 3.9-4.0, v1 came with 4.1.
"""

from dissectors.domains import AUTHORIZED_OPERATIONS, DURATION_MS, ERROR_CODE, MEMBER_EPOCH_REACHED
from dissectors.entities import GroupId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Message, String
from dissectors.structs import AssignmentByTopic

ShareGroupDescribeRequest = Message(
    "ShareGroupDescribeRequest", 77, "request", "0-1", "0+",
    "group_ids" / Array(GroupId) * "ids of the share groups to describe",
    "include_authorized_operations" / Bool * "true = say what this client may do with each group",
)

ShareGroupDescribeResponse = Message(
    "ShareGroupDescribeResponse", 77, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "groups" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this group cannot be described (69 = not found, 16 = not the coordinator)",
        "error_message" / String.null().default(None) * "explanation of error_code; null = none",
        "group_id" / GroupId * "share group id",
        "group_state" / String * "Empty, Stable or Dead",
        "group_epoch" / Int32 * "group epoch; rises when members, subscriptions or topics change",
        "assignment_epoch" / Int32 * "group epoch the assignment was computed for",
        "assignor_name" / String * "assignor in use on the broker",
        "members" / Array(
            "member_id" / String * "member id",
            "rack_id" / String.null().default(None) * "rack of the member; null = none",
            "member_epoch" / Int32.of(MEMBER_EPOCH_REACHED) * "member epoch",
            "client_id" / String * "client id",
            "client_host" / String * "client address",
            "subscribed_topic_names" / Array(TopicName) * "topics the member subscribes to",
            "assignment" / AssignmentByTopic * "partitions the member reads from",
        ) * "members of the group",
        "authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = ACL operation n allowed; -2147483648 = not asked for",
    ) * "result for each group",
)
