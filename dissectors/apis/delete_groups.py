"""DeleteGroups (key 42): an admin client deletes empty groups with their committed offsets

KIP-229. Each request goes to the coordinator of its groups; a group with members is refused (68).
v2 is flexible, v3 adds an error message for each group.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import GroupId
from dissectors.schema import Array, Int16, Int32, Message, String

DeleteGroupsRequest = Message(
    "DeleteGroupsRequest", 42, "request", "0-3", "2+",
    "groups_names" / Array(GroupId) * "ids of the groups to delete",
)

DeleteGroupsResponse = Message(
    "DeleteGroupsResponse", 42, "response", "0-3", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "group_id" / GroupId * "group id",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the group was not deleted (68 = has members, 69 = not found)",
        "error_message" / String.null().default(None) @ "3+" * "explanation of error_code; null = none",
    ) * "result for each group",
)
