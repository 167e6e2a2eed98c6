"""CreateAcls (key 30): an admin client adds ACLs

v1 adds the pattern type (prefixed ACLs, KIP-290); before it all patterns are literal.
v2 is flexible, v3 knows the resource type user (KIP-373).
Results carry no names: they are in the order of the request.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PATTERN_TYPE, RESOURCE_TYPE
from dissectors.schema import Array, Int8, Int16, Int32, Message, String
from dissectors.structs import AclRule

CreateAclsRequest = Message(
    "CreateAclsRequest", 30, "request", "0-3", "2+",
    "creations" / Array(
        "resource_type" / Int8.of(RESOURCE_TYPE) * "2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user",
        "resource_name" / String * "name or prefix of the resource; * = all",
        "resource_pattern_type" / Int8.of(PATTERN_TYPE).default(3) @ "1+" * "3 literal, 4 prefixed",
        *AclRule.fields,
    ) * "ACLs to add",
)

CreateAclsResponse = Message(
    "CreateAclsResponse", 30, "response", "0-3", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this ACL was not added",
        "error_message" / String.null() * "explanation of error_code; null = none",
    ) * "result for each ACL, in the order of the request",
)
