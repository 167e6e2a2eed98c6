"""LeaveGroup (key 13): leave a classic group, or remove members as an admin.

v3+ takes several members and instance ids (KIP-345), v5 a reason (KIP-800).
Static members do not send it when they close. A generation with a member fewer and no LeaveGroup
before it points to a session timeout.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Array, Int16, Int32, Message, String

LeaveGroupRequest = Message(
    "LeaveGroupRequest", 13, "request", "0-5", "4+",
    "group_id" / GroupId * "group id",
    "member_id" / String @ "0-2" * "member that leaves (v0-2)",
    "members" / Array(
        "member_id" / String * "member id; empty = found by the instance id",
        "group_instance_id" / String.null().default(None) * "group.instance.id of a static member; null = dynamic member",
        "reason" / String.null().default(None) @ "5+" * "why the member leaves (KIP-800); null = not said",
    ) @ "3+" * "members that leave (v3+)",
)

LeaveGroupResponse = Message(
    "LeaveGroupResponse", 13, "response", "0-5", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "members" / Array(
        "member_id" / String * "member id",
        "group_instance_id" / String.null() * "group.instance.id of a static member; null = dynamic member",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this member could not be removed",
    ) @ "3+" * "result by member (v3+)",
)
