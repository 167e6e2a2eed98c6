"""DescribeGroups (key 15): state, members and assignments of classic groups.

v3 allowed operations (KIP-430), v4 static members (KIP-345), v6 error text and error 69 for a group
that does not exist (KIP-1043; before that it is shown with the state Dead).
Groups of the new protocol (KIP-848) are described by ConsumerGroupDescribe.
"""

from dissectors.domains import AUTHORIZED_OPERATIONS, DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Array, Bool, Bytes, Int16, Int32, Message, String

DescribeGroupsRequest = Message(
    "DescribeGroupsRequest", 15, "request", "0-6", "5+",
    "groups" / Array(GroupId) * "group ids to describe",
    "include_authorized_operations" / Bool @ "3+" * "whether to list what the user may do on each group",
)

DescribeGroupsResponse = Message(
    "DescribeGroupsResponse", 15, "response", "0-6", "5+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "groups" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this group could not be described; 69 = not found (v6+)",
        "error_message" / String.null().default(None) @ "6+" * "text of the error; null = none",
        "group_id" / GroupId * "group id",
        "group_state" / String * "state: PreparingRebalance, CompletingRebalance, Stable, Empty or Dead; empty on error",
        "protocol_type" / String * "kind of group: consumer, connect or another; empty = none",
        "protocol_data" / String * "protocol or assignor chosen; empty unless the group is stable",
        "members" / Array(
            "member_id" / String * "member id",
            "group_instance_id" / String.null().default(None) @ "4+" * "group.instance.id of a static member; null = dynamic member",
            "client_id" / String * "client id of the member",
            "client_host" / String * "host the member connects from",
            "member_metadata" / Bytes.holds("group_metadata") * "member's metadata, for consumers the subscription; empty unless stable",
            "member_assignment" / Bytes.holds("group_assignment") * "member's assignment, for consumers its partitions; empty unless stable",
        ) * "members of the group",
        "authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) @ "3+" * "bit n = ACL operation n allowed on the group; -2147483648 = not asked",
    ) * "description by group",
)
