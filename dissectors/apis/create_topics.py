"""CreateTopics (key 19): create topics.

v1 dry run and error texts, v4 broker defaults for partitions and replicas (KIP-464), v5 answer with
the resulting configuration (KIP-525), v6 quota error 89 (KIP-599), v7 topic ids (KIP-516).
"""

from dissectors.domains import CONFIG_SOURCE, DURATION_MS, ERROR_CODE, TOPIC_COUNT, TOPIC_SETTING
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String, Uuid

CreateTopicsRequest = Message(
    "CreateTopicsRequest", 19, "request", "0-7", "5+",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "num_partitions" / Int32.of(TOPIC_SETTING) * "number of partitions; -1 = from assignments or, v4+, the broker default",
        "replication_factor" / Int16.of(TOPIC_SETTING) * "replicas of each partition; -1 = from assignments or, v4+, the broker default",
        "assignments" / Array(
            "partition_index" / Int32 * "partition number",
            "broker_ids" / Array(BrokerId) * "broker ids for the replicas, preferred leader first",
        ) * "replicas chosen by hand; empty = the cluster chooses",
        "configs" / Array(
            "name" / String * "name of the setting, e.g. cleanup.policy",
            "value" / String.holds("config_value").null() * "value of the setting; null is refused",
        ) * "topic settings to set",
    ) * "topics to create",
    "timeout_ms" / Int32.of(DURATION_MS).default(60000) * "longest time in ms to wait until the topics are created",
    "validate_only" / Bool @ "1+" * "true = only check, create nothing",
)

CreateTopicsResponse = Message(
    "CreateTopicsResponse", 19, "response", "0-7", "5+",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "2+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "7+" * "id of the new topic (KIP-516); all-zero = none",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why the topic was not created, e.g. 36 = exists already",
        "error_message" / String.null() @ "1+" * "text of the error; null = none",
        "num_partitions" / Int32.of(TOPIC_COUNT).default(-1) @ "5+" * "partitions of the new topic; -1 = not given",
        "replication_factor" / Int16.of(TOPIC_COUNT).default(-1) @ "5+" * "replicas of each partition; -1 = not given",
        "configs" / Array(
            "name" / String * "name of the setting",
            "value" / String.holds("config_value").null() * "value of the setting; null if sensitive or unset",
            "read_only" / Bool * "whether the setting cannot be changed",
            "config_source" / Int8.of(CONFIG_SOURCE).default(-1) * "where the value is from: 1 topic, 2 broker, 3 all brokers, 4 config file, 5 default",
            "is_sensitive" / Bool.holds("sensitivity") * "whether the value is secret and therefore hidden",
        ).null() @ "5+" * "settings of the new topic (KIP-525); null = not given",
        "topic_config_error_code" / Int16.of(ERROR_CODE).tag(0) @ "5+" * "0 or why the settings are missing, e.g. 29 = not authorized",
    ) * "result by topic",
)
