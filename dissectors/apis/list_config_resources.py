"""ListConfigResources (key 74): an admin client lists the resources that can have settings

v0 (ListClientMetricsResources, KIP-714) lists only client metrics subscriptions; v1 lists any
type (KIP-1142).
"""

from dissectors.domains import CONFIG_RESOURCE_TYPE, DURATION_MS, ERROR_CODE
from dissectors.schema import Array, Int8, Int16, Int32, Message, String

ListConfigResourcesRequest = Message(
    "ListConfigResourcesRequest", 74, "request", "0-1", "0+",
    "resource_types" / Array(Int8.of(CONFIG_RESOURCE_TYPE)) @ "1+" * "types wanted: 2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group; empty = all",
)

ListConfigResourcesResponse = Message(
    "ListConfigResourcesResponse", 74, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the list cannot be given",
    "config_resources" / Array(
        "resource_name" / String * "name or id of the resource",
        "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE).default(16) @ "1+" * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
    ) * "resources found",
)
