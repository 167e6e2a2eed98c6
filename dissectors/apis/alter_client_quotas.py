"""AlterClientQuotas (key 49): an admin client sets or removes client quotas (KIP-546)

Quotas belong to an entity, a combination of user, client-id or ip (ip since KIP-612).
v1 is flexible.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.schema import Array, Bool, Float64, Int16, Int32, Message, String
from dissectors.structs import QuotaEntity

AlterClientQuotasRequest = Message(
    "AlterClientQuotasRequest", 49, "request", "0-1", "1+",
    "entries" / Array(
        "entity" / Array(QuotaEntity) * "parts that together name the entity",
        "ops" / Array(
            "key" / String * "quota name: producer_byte_rate, consumer_byte_rate, request_percentage ...",
            "value" / Float64 * "new limit; bytes per second, percent or rate; unused with remove",
            "remove" / Bool * "true = remove this quota",
        ) * "changes to make",
    ) * "entities to change",
    "validate_only" / Bool * "true = only check, change nothing",
)

AlterClientQuotasResponse = Message(
    "AlterClientQuotasResponse", 49, "response", "0-1", "1+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "entries" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the quotas of this entity were not changed",
        "error_message" / String.null() * "explanation of error_code; null = none",
        "entity" / Array(QuotaEntity) * "parts that together name the entity",
    ) * "result for each entity",
)
