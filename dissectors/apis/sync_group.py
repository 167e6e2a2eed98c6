"""SyncGroup (key 14): the group leader hands in the assignment, every member gets its own part.

Follows JoinGroup in the classic protocol; the answer waits for the leader's request.
v3 static members (KIP-345), v5 protocol type and name (KIP-559).
Error 27 = another rebalance has overtaken this one.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, GENERATION_ID
from dissectors.entities import GroupId
from dissectors.schema import Array, Bytes, Int16, Int32, Message, String

SyncGroupRequest = Message(
    "SyncGroupRequest", 14, "request", "0-5", "4+",
    "group_id" / GroupId * "group id",
    "generation_id" / Int32.of(GENERATION_ID) * "generation the assignment is for",
    "member_id" / String * "member id given by the coordinator",
    "group_instance_id" / String.null().default(None) @ "3+" * "group.instance.id of a static member (KIP-345); null = dynamic member",
    "protocol_type" / String.null().default(None) @ "5+" * "kind of group, checked by the coordinator; null = not checked",
    "protocol_name" / String.null().default(None) @ "5+" * "protocol or assignor chosen in JoinGroup, checked by the coordinator; null = not checked",
    "assignments" / Array(
        "member_id" / String * "member the assignment is for",
        "assignment" / Bytes.holds("group_assignment") * "what this member gets, for consumers its partitions",
    ) * "assignment for every member; filled only by the leader",
)

SyncGroupResponse = Message(
    "SyncGroupResponse", 14, "response", "0-5", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the member got no assignment; 27 = another rebalance has begun",
    "protocol_type" / String.null().default(None) @ "5+" * "kind of group; null on error",
    "protocol_name" / String.null().default(None) @ "5+" * "protocol or assignor chosen for this generation; null on error",
    "assignment" / Bytes.holds("group_assignment") * "what this member gets, for consumers its partitions; empty on error",
)
