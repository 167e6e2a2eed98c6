"""DescribeClientQuotas (key 48): an admin client reads client quotas (KIP-546)

Quotas belong to an entity, a combination of user, client-id or ip (ip since KIP-612).
v1 is flexible.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, QUOTA_MATCH_TYPE
from dissectors.schema import Array, Bool, Float64, Int8, Int16, Int32, Message, String
from dissectors.structs import QuotaEntity

DescribeClientQuotasRequest = Message(
    "DescribeClientQuotasRequest", 48, "request", "0-1", "1+",
    "components" / Array(
        "entity_type" / String * "user, client-id or ip",
        "match_type" / Int8.of(QUOTA_MATCH_TYPE) * "0 this exact name, 1 the default entity, 2 any name given",
        "match" / String.null() * "name to match with match_type 0; null otherwise",
    ) * "filter, one part for each entity type; empty = everything",
    "strict" / Bool * "true = leave out entities with types that the filter does not name",
)

DescribeClientQuotasResponse = Message(
    "DescribeClientQuotasResponse", 48, "response", "0-1", "1+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the quotas cannot be read",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "entries" / Array(
        "entity" / Array(QuotaEntity) * "parts that together name the entity",
        "values" / Array(
            "key" / String * "quota name: producer_byte_rate, consumer_byte_rate, request_percentage ...",
            "value" / Float64 * "limit; bytes per second, percent or rate, depending on the key",
        ) * "quotas of the entity",
    ).null() * "entities with their quotas; null on error",
)
