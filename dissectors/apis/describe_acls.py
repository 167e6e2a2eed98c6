"""DescribeAcls (key 29): an admin client lists the ACLs that match a filter

v1 adds the pattern type (prefixed ACLs, KIP-290); before it all patterns are literal.
v2 is flexible, v3 knows the resource type user (KIP-373).
A broker closes the connection without an answer when a type in the filter is 0 (unknown).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PATTERN_TYPE, RESOURCE_TYPE
from dissectors.schema import Array, Int8, Int16, Int32, Message, String
from dissectors.structs import AclFilter, AclRule

DescribeAclsRequest = Message(
    "DescribeAclsRequest", 29, "request", "0-3", "2+",
    *AclFilter.fields,
)

DescribeAclsResponse = Message(
    "DescribeAclsResponse", 29, "response", "0-3", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the ACLs cannot be listed (31 not authorized, 54 no authorizer)",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "resources" / Array(
        "resource_type" / Int8.of(RESOURCE_TYPE) * "2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user",
        "resource_name" / String * "name or prefix of the resource; * = all",
        "pattern_type" / Int8.of(PATTERN_TYPE).default(3) @ "1+" * "3 literal, 4 prefixed",
        "acls" / Array(AclRule) * "ACLs on this resource pattern",
    ) * "resource patterns with matching ACLs",
)
