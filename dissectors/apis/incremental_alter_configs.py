"""IncrementalAlterConfigs (key 44): an admin client changes single settings of resources

KIP-339. Unlike AlterConfigs it leaves settings that it does not name as they are. v1 is flexible.
"""

from dissectors.domains import ALTER_CONFIG_OP, CONFIG_RESOURCE_TYPE, DURATION_MS
from dissectors.schema import Array, Bool, Int8, Int32, Message, String
from dissectors.structs import ConfigResourceResult

IncrementalAlterConfigsRequest = Message(
    "IncrementalAlterConfigsRequest", 44, "request", "0-1", "1+",
    "resources" / Array(
        "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
        "resource_name" / String * "topic, group or subscription name or broker id; empty broker = cluster-wide default",
        "configs" / Array(
            "name" / String * "name of the setting",
            "config_operation" / Int8.of(ALTER_CONFIG_OP) * "0 set, 1 delete (back to default), 2 append to list, 3 subtract from list",
            "value" / String.holds("config_value").null() * "value to set, append or subtract; null with delete",
        ) * "changes to make",
    ) * "resources to change",
    "validate_only" / Bool * "true = only check, change nothing",
)

IncrementalAlterConfigsResponse = Message(
    "IncrementalAlterConfigsResponse", 44, "response", "0-1", "1+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "responses" / Array(ConfigResourceResult) * "result for each resource",
)
