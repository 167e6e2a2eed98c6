"""Heartbeat (key 12): tell the group coordinator that a classic group member is alive.

Error 27 tells the member to rejoin (a rebalance runs), 22 or 25 that it is no longer known in this
form, 82 that another member uses its instance id. v3 adds static members (KIP-345).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, GENERATION_ID
from dissectors.entities import GroupId
from dissectors.schema import Int16, Int32, Message, String

HeartbeatRequest = Message(
    "HeartbeatRequest", 12, "request", "0-4", "4+",
    "group_id" / GroupId * "group id",
    "generation_id" / Int32.of(GENERATION_ID) * "generation the member is in",
    "member_id" / String * "member id given by the coordinator",
    "group_instance_id" / String.null().default(None) @ "3+" * "group.instance.id of a static member (KIP-345); null = dynamic member",
)

HeartbeatResponse = Message(
    "HeartbeatResponse", 12, "response", "0-4", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0, 27 = rejoin, 22/25 = generation or member unknown, 82 = fenced static member",
)
