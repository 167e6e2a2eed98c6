"""AlterConfigs (key 33): an admin client replaces the whole set of dynamic settings of resources

Settings that the request does not name go back to their defaults, a common cause of lost settings.
IncrementalAlterConfigs (key 44, KIP-339) replaces this API and changes only what it names.
"""

from dissectors.domains import CONFIG_RESOURCE_TYPE, DURATION_MS
from dissectors.schema import Array, Bool, Int8, Int32, Message, String
from dissectors.structs import ConfigResourceResult

AlterConfigsRequest = Message(
    "AlterConfigsRequest", 33, "request", "0-2", "2+",
    "resources" / Array(
        "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
        "resource_name" / String * "topic, group or subscription name or broker id; empty broker = cluster-wide default",
        "configs" / Array(
            "name" / String * "name of the setting",
            "value" / String.holds("config_value").null() * "new value; null is refused",
        ) * "the complete new set; settings not named are reset",
    ) * "resources to change",
    "validate_only" / Bool * "true = only check, change nothing",
)

AlterConfigsResponse = Message(
    "AlterConfigsResponse", 33, "response", "0-2", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "responses" / Array(ConfigResourceResult) * "result for each resource",
)
