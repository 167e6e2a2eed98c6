"""Records of ``__transaction_state``: the state of the transaction coordinator."""

from dissectors.domains import (
    DURATION_MS,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TIMESTAMP_MS,
    TRANSACTION_STATUS,
    TRANSACTION_VERSION,
)
from dissectors.entities import ProducerId, TopicName, TransactionalId
from dissectors.schema import Array, Int8, Int16, Int32, Int64, Message

TransactionLogKey = Message(
    "TransactionLogKey", 0, "data", "0", "none",
    "transactional_id" / TransactionalId * "transactional.id of the producer",
)

TransactionLogValue = Message(
    "TransactionLogValue", 0, "data", "0-1", "1+",
    "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id in use",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch; an older one is fenced",
    "transaction_timeout_ms" / Int32.of(DURATION_MS) * "ms after which the coordinator aborts the open transaction",
    "transaction_status" / Int8.of(TRANSACTION_STATUS) * "0 empty, 1 ongoing, 2/3 prepare commit/abort, 4/5 complete commit/abort, 6 dead, 7 fencing",
    "transaction_partitions" / Array(
        "topic" / TopicName * "topic name",
        "partition_ids" / Array(Int32) * "partition indexes",
    ).null() * "partitions of the open transaction; null = none",
    "transaction_last_update_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when this state was reached, ms since 1970",
    "transaction_start_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "when the transaction began, ms since 1970; -1 = none",
    "previous_producer_id" / ProducerId.of(PRODUCER_ID).tag(0).default(-1) @ "1+" * "producer id before the last change; -1 = none",
    "next_producer_id" / ProducerId.of(PRODUCER_ID).tag(1).default(-1) @ "1+" * "producer id to use after this transaction (KIP-890); -1 = none",
    "client_transaction_version" / Int16.of(TRANSACTION_VERSION).tag(2) @ "1+" * "transaction.version of the client: 2 = transactions v2 (KIP-890)",
    "next_producer_epoch" / Int16.of(PRODUCER_EPOCH).tag(3).default(-1) @ "1+" * "producer epoch to use after this transaction; -1 = none",
)
