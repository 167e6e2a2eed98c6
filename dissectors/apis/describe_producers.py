"""DescribeProducers (key 61): an admin client lists the producers that a partition leader knows (KIP-664)

Used to find hanging transactions: a start offset that stays and holds back the last stable offset.
"""

from dissectors.domains import (
    DURATION_MS,
    ERROR_CODE,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SEQUENCE,
    TIMESTAMP_MS,
    TRANSACTION_START_OFFSET,
)
from dissectors.entities import ProducerId, TopicName
from dissectors.schema import Array, Int16, Int32, Int64, Message, String

DescribeProducersRequest = Message(
    "DescribeProducersRequest", 61, "request", "0", "0+",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partition_indexes" / Array(Int32) * "partition numbers to look at",
    ) * "topics to look at",
)

DescribeProducersResponse = Message(
    "DescribeProducersResponse", 61, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why this partition cannot be described (6 = not the leader)",
            "error_message" / String.null().default(None) * "explanation of error_code; null = none",
            "active_producers" / Array(
                "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id",
                "producer_epoch" / Int32.of(PRODUCER_EPOCH) * "latest epoch of the producer",
                "last_sequence" / Int32.of(SEQUENCE).default(-1) * "sequence number of its last record here; -1 = none",
                "last_timestamp" / Int64.of(TIMESTAMP_MS).default(-1) * "timestamp of its last batch here, ms since 1970; -1 = none",
                "coordinator_epoch" / Int32 * "epoch of the transaction coordinator that wrote the last marker here",
                "current_txn_start_offset" / Int64.of(TRANSACTION_START_OFFSET).default(-1) * "first offset of its open transaction; -1 = no open transaction",
            ) * "idempotent and transactional producers with state in the partition",
        ) * "result for each partition",
    ) * "result for each topic",
)
