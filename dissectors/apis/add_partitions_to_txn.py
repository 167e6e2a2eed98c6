"""AddPartitionsToTxn (key 24): add partitions to a transaction before writing to them (KIP-98).

Clients send v0-3; v4+ is for brokers, which use it to check or add partitions of several
transactions (KIP-890). With transactions v2 clients no longer send it: Produce v12+ does it.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PRODUCER_EPOCH, PRODUCER_ID
from dissectors.entities import ProducerId, TopicName, TransactionalId
from dissectors.schema import Array, Bool, Int16, Int32, Message

AddPartitionsToTxnRequest = Message(
    "AddPartitionsToTxnRequest", 24, "request", "0-5", "3+",
    "v3_and_below_transactional_id" / TransactionalId @ "0-3" * "transactional.id of the producer (v0-3)",
    "v3_and_below_producer_id" / ProducerId.of(PRODUCER_ID) @ "0-3" * "producer id (v0-3)",
    "v3_and_below_producer_epoch" / Int16.of(PRODUCER_EPOCH) @ "0-3" * "producer epoch; an older one is fenced (v0-3)",
    "v3_and_below_topics" / Array(
        "name" / TopicName * "topic name",
        "partitions" / Array(Int32) * "partition numbers to add",
    ) @ "0-3" * "topics to add to the transaction (v0-3)",
    "transactions" / Array(
        "transactional_id" / TransactionalId * "transactional.id of the producer",
        "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id",
        "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch; an older one is fenced",
        "verify_only" / Bool * "true = only check that the partitions are in the transaction (KIP-890)",
        "topics" / Array(
            "name" / TopicName * "topic name",
            "partitions" / Array(Int32) * "partition numbers to add or check",
        ) * "topics to add or check",
    ) @ "4+" * "transactions to extend or check (v4+, from brokers)",
)

AddPartitionsToTxnResponse = Message(
    "AddPartitionsToTxnResponse", 24, "response", "0-5", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "results_by_topic_v3_and_below" / Array(
        "name" / TopicName * "topic name",
        "results_by_partition" / Array(
            "partition_index" / Int32 * "partition number",
            "partition_error_code" / Int16.of(ERROR_CODE) * "0 or why the partition was not added; 55 = not tried since another one failed",
        ) * "result by partition",
    ) @ "0-3" * "result by topic (v0-3)",
    "error_code" / Int16.of(ERROR_CODE) @ "4+" * "0 or why the whole request failed (v4+)",
    "results_by_transaction" / Array(
        "transactional_id" / TransactionalId * "transactional.id of the transaction",
        "topic_results" / Array(
            "name" / TopicName * "topic name",
            "results_by_partition" / Array(
                "partition_index" / Int32 * "partition number",
                "partition_error_code" / Int16.of(ERROR_CODE) * "0 or why the partition was not added or not found in the transaction",
            ) * "result by partition",
        ) * "result by topic",
    ) @ "4+" * "result by transaction (v4+)",
)
