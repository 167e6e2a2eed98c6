"""DescribeTransactions (key 65): an admin client asks for the state of transactional ids (KIP-664)

Goes to the transaction coordinator of each transactional id.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PRODUCER_EPOCH, PRODUCER_ID, TIMESTAMP_MS
from dissectors.entities import ProducerId, TransactionalId
from dissectors.schema import Array, Int16, Int32, Int64, Message, String
from dissectors.structs import TopicPartitions

DescribeTransactionsRequest = Message(
    "DescribeTransactionsRequest", 65, "request", "0", "0+",
    "transactional_ids" / Array(TransactionalId) * "transactional ids to describe; empty = none",
)

DescribeTransactionsResponse = Message(
    "DescribeTransactionsResponse", 65, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "transaction_states" / Array(
        "error_code" / Int16.of(ERROR_CODE) * "0 or why it cannot be described (105 not found, 16 not the coordinator, 14 loading)",
        "transactional_id" / TransactionalId * "transactional id",
        "transaction_state" / String * "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort ...",
        "transaction_timeout_ms" / Int32.of(DURATION_MS) * "ms after which the coordinator aborts the transaction",
        "transaction_start_time_ms" / Int64.of(TIMESTAMP_MS) * "time the transaction began, ms since 1970; -1 = none open",
        "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id in use",
        "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "current epoch of the producer",
        "topics" / Array(TopicPartitions) * "topics in the open transaction",
    ) * "result for each transactional id",
)
