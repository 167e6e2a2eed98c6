"""DeleteAcls (key 31): an admin client deletes all ACLs that match its filters

v1 adds the pattern type (prefixed ACLs, KIP-290); before it all patterns are literal.
v2 is flexible, v3 knows the resource type user (KIP-373).
Results are in the order of the filters; a filter without a match is not an error.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PATTERN_TYPE, RESOURCE_TYPE
from dissectors.schema import Array, Int8, Int16, Int32, Message, String
from dissectors.structs import AclFilter, AclRule

DeleteAclsRequest = Message(
    "DeleteAclsRequest", 31, "request", "0-3", "2+",
    "filters" / Array(AclFilter) * "filters; an ACL that matches any of them is deleted",
)

DeleteAclsResponse = Message(
    "DeleteAclsResponse", 31, "response", "0-3", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "filter_results" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this filter failed as a whole",
        "error_message" / String.null() * "explanation of error_code; null = none",
        "matching_acls" / Array(
            "error_code" / Int16.of(ERROR_CODE) * "0 = deleted, or why this ACL was not deleted",
            "error_message" / String.null() * "explanation of error_code; null = none",
            "resource_type" / Int8.of(RESOURCE_TYPE) * "2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user",
            "resource_name" / String * "name or prefix of the resource; * = all",
            "pattern_type" / Int8.of(PATTERN_TYPE).default(3) @ "1+" * "3 literal, 4 prefixed",
            *AclRule.fields,
        ) * "ACLs that matched this filter",
    ) * "result for each filter, in the order of the request",
)
