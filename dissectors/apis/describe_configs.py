"""DescribeConfigs (key 32): a client reads the settings of topics, brokers, loggers, groups and others

v1 adds sources and synonyms (KIP-226), v3 types and documentation (KIP-569), v4 is flexible.
A broker's own settings are known to that broker only, so such requests go to it.
"""

from dissectors.domains import CONFIG_RESOURCE_TYPE, CONFIG_SOURCE, CONFIG_TYPE, DURATION_MS, ERROR_CODE
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String

DescribeConfigsRequest = Message(
    "DescribeConfigsRequest", 32, "request", "0-4", "4+",
    "resources" / Array(
        "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
        "resource_name" / String * "topic, group or subscription name or broker id; empty broker = cluster-wide default",
        "configuration_keys" / Array(String).null() * "settings wanted; null = all",
    ) * "resources to describe",
    "include_synonyms" / Bool @ "1+" * "true = list the other places each value can come from",
    "include_documentation" / Bool @ "3+" * "true = send the description of each setting too",
)

DescribeConfigsResponse = Message(
    "DescribeConfigsResponse", 32, "response", "0-4", "4+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this resource cannot be described",
        "error_message" / String.null() * "explanation of error_code; null = none",
        "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 8 broker logger, 16 client metrics, 32 group",
        "resource_name" / String * "topic, group or subscription name or broker id; empty broker = cluster-wide default",
        "configs" / Array(
            "name" / String * "name of the setting, such as retention.ms",
            "value" / String.holds("config_value").null() * "value in effect; null = none or hidden because it is sensitive",
            "read_only" / Bool * "true = cannot be changed while the broker runs",
            "is_default" / Bool @ "0" * "true = it was not set, the default is in effect",
            "config_source" / Int8.of(CONFIG_SOURCE).default(-1) @ "1+" * "origin: 1 topic, 2 broker, 3 cluster, 4 file, 5 default, 6 logger, 7 metrics, 8 group",
            "is_sensitive" / Bool.holds("sensitivity") * "true = a secret, its value is never sent",
            "synonyms" / Array(
                "name" / String * "name of the setting at that place, such as log.retention.ms",
                "value" / String.holds("config_value").null() * "value at that place; null = none or sensitive",
                "source" / Int8.of(CONFIG_SOURCE) * "origin, numbers as in config_source",
            ) @ "1+" * "places the value can come from, the one in effect first",
            "config_type" / Int8.of(CONFIG_TYPE) @ "3+" * "1 boolean, 2 string, 3 int, 4 short, 5 long, 6 double, 7 list, 8 class, 9 password",
            "documentation" / String.null() @ "3+" * "description of the setting; null = none or not asked for",
        ) * "settings of the resource",
    ) * "result for each resource",
)
