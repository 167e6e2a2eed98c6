"""ListGroups (key 16): list the groups that the asked broker coordinates.

Every broker must be asked to see all groups. v4 filter by state (KIP-518), v5 by type (KIP-848).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Array, Int16, Int32, Message, String

ListGroupsRequest = Message(
    "ListGroupsRequest", 16, "request", "0-5", "3+",
    "states_filter" / Array(String) @ "4+" * "states wanted, e.g. Stable, Empty; empty = all",
    "types_filter" / Array(String) @ "5+" * "group types wanted, e.g. classic, consumer; empty = all",
)

ListGroupsResponse = Message(
    "ListGroupsResponse", 16, "response", "0-5", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the groups could not be listed, e.g. 14 = coordinator still loading",
    "groups" / Array(
        "group_id" / GroupId * "group id",
        "protocol_type" / String * "kind of group: consumer, connect or another; empty = none",
        "group_state" / String @ "4+" * "state of the group, e.g. Stable, Empty, PreparingRebalance",
        "group_type" / String @ "5+" * "type of the group, e.g. classic, consumer",
    ) * "groups this broker coordinates",
)
