"""Produce (key 0): write records to partition leaders.

acks=0 gets no response; a failure then shows only as a closed connection.
v0-v1 carry magic 0 messages, v2 magic 1, v3+ (KIP-98) one magic 2 batch a partition; v7+ zstd.
v8 names rejected records (KIP-467), v10 tells the new leader (KIP-951), v12 goes with
transactions v2 (KIP-890: no AddPartitionsToTxn before it), v13 uses topic ids (KIP-516).
Kafka 4 brokers announce v0 as minimum but only accept v3+ (KAFKA-18659).
"""

from dissectors.domains import ACKS, DURATION_MS, ERROR_CODE, LEADER_EPOCH, LEADER_ID, LOG_APPEND_TIME, OFFSET
from dissectors.entities import BrokerId, TopicName, TransactionalId
from dissectors.schema import Array, Int16, Int32, Int64, Message, Records, String, Struct, Uuid
from dissectors.structs import NodeEndpoint

ProduceRequest = Message(
    "ProduceRequest", 0, "request", "0-13", "9+",
    "transactional_id" / TransactionalId.null().default(None) @ "3+" * "transactional.id of the producer; null = not transactional",
    "acks" / Int16.of(ACKS) * "acks awaited: 0 = none and no response, 1 = leader only, -1 = all in-sync replicas",
    "timeout_ms" / Int32.of(DURATION_MS) * "longest time in ms the leader may wait for the replicas when acks = -1",
    "topic_data" / Array(
        "name" / TopicName @ "0-12" * "topic name; replaced by topic_id in v13",
        "topic_id" / Uuid.holds("topic_id") @ "13+" * "topic id (KIP-516); replaces the name",
        "partition_data" / Array(
            "index" / Int32 * "partition number",
            "records" / Records.null() * "records to append: message set up to v2, one record batch from v3",
        ) * "partitions of this topic with their records",
    ) * "topics to write to",
)

ProduceResponse = Message(
    "ProduceResponse", 0, "response", "0-13", "9+",
    "responses" / Array(
        "name" / TopicName @ "0-12" * "topic name; replaced by topic_id in v13",
        "topic_id" / Uuid.holds("topic_id") @ "13+" * "topic id (KIP-516); replaces the name",
        "partition_responses" / Array(
            "index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the write to this partition failed",
            "base_offset" / Int64.of(OFFSET) * "offset given to the first record; -1 on error",
            "log_append_time_ms" / Int64.of(LOG_APPEND_TIME).default(-1) @ "2+" * "broker's append time (ms since epoch) if LogAppendTime is used; -1 = CreateTime",
            "log_start_offset" / Int64.of(OFFSET).default(-1) @ "5+" * "first offset in the partition's log; -1 = unknown",
            "record_errors" / Array(
                "batch_index" / Int32 * "index of the rejected record within the batch",
                "batch_index_error_message" / String.null().default(None) * "why this record was rejected; null = no text",
            ) @ "8+" * "records that made the broker reject the batch (KIP-467)",
            "error_message" / String.null().default(None) @ "8+" * "summary of why the batch was rejected; null = no text",
            "current_leader" / Struct(
                "leader_id" / BrokerId.of(LEADER_ID).default(-1) * "broker id of the current leader; -1 = unknown",
                "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "epoch of the current leader; -1 = unknown",
            ).tag(0) @ "10+" * "leader to use instead, sent when this broker is not the leader (KIP-951)",
        ) * "result by partition",
    ) * "result by topic",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "node_endpoints" / Array(NodeEndpoint).tag(0) @ "10+" * "addresses of the leaders named in current_leader (KIP-951)",
)
