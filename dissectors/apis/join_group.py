"""JoinGroup (key 11): enter a classic group or a new round of its rebalance.

The answer waits until all members have joined or the rebalance timeout ends, so seconds are normal.
v1 own rebalance timeout (KIP-62), v4 first join refused with 79 to hand out a member id (KIP-394),
v5 static members (KIP-345), v8 reason (KIP-800), v9 skip_assignment (KIP-814).
Errors: 23 = no common protocol, 81 = group full. 0.8.2 knew an unusable draft with another layout.
Metadata bytes are read by protocol_type: consumer, connect and so on.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, GENERATION_ID
from dissectors.entities import GroupId
from dissectors.schema import Array, Bool, Bytes, Int16, Int32, Message, String

JoinGroupRequest = Message(
    "JoinGroupRequest", 11, "request", "0-9", "6+",
    "group_id" / GroupId * "group id",
    "session_timeout_ms" / Int32.of(DURATION_MS) * "ms without a heartbeat after which the member is dropped",
    "rebalance_timeout_ms" / Int32.of(DURATION_MS).default(-1) @ "1+" * "ms the group waits for this member to rejoin (max.poll.interval.ms); -1 = session timeout",
    "member_id" / String * "member id given by the coordinator; empty = new member",
    "group_instance_id" / String.null().default(None) @ "5+" * "group.instance.id of a static member (KIP-345); null = dynamic member",
    "protocol_type" / String * "kind of group: consumer, connect or another; must be the same for all members",
    "protocols" / Array(
        "name" / String * "name of the assignor or protocol, e.g. range, cooperative-sticky",
        "metadata" / Bytes.holds("group_metadata") * "member's input to the assignment, for consumers the subscription",
    ) * "assignors or protocols the member supports, most wanted first",
    "reason" / String.null().default(None) @ "8+" * "why the member joins (KIP-800); null = not said",
)

JoinGroupResponse = Message(
    "JoinGroupResponse", 11, "response", "0-9", "6+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "2+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the join failed; 79 on a first join is normal: join again with the id given",
    "generation_id" / Int32.of(GENERATION_ID).default(-1) * "generation of the group after this rebalance; -1 on error",
    "protocol_type" / String.null().default(None) @ "7+" * "kind of group; null on error",
    "protocol_name" / String.null("7+") * "protocol or assignor chosen for this generation; null or empty on error",
    "leader" / String * "member id of the leader, who computes the assignment",
    "skip_assignment" / Bool @ "9+" * "true = the leader need not assign, the old assignment stays (KIP-814)",
    "member_id" / String * "member id of the receiver; if equal to leader, it is the leader",
    "members" / Array(
        "member_id" / String * "member id",
        "group_instance_id" / String.null().default(None) @ "5+" * "group.instance.id of a static member; null = dynamic member",
        "metadata" / Bytes.holds("group_metadata") * "what this member sent for the chosen protocol, for consumers the subscription",
    ) * "all members and their metadata; filled only for the leader",
)
