"""AddOffsetsToTxn (key 25): announce that a transaction will commit offsets of a group (KIP-98).

Sent to the transaction coordinator before TxnOffsetCommit; v2 error 90 = fenced (KIP-588).
Not sent with transactions v2 (KIP-890): TxnOffsetCommit v5 does it.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PRODUCER_EPOCH, PRODUCER_ID
from dissectors.entities import GroupId, ProducerId, TransactionalId
from dissectors.schema import Int16, Int32, Message

AddOffsetsToTxnRequest = Message(
    "AddOffsetsToTxnRequest", 25, "request", "0-4", "3+",
    "transactional_id" / TransactionalId * "transactional.id of the producer",
    "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch; an older one is fenced",
    "group_id" / GroupId * "group whose offsets the transaction will commit",
)

AddOffsetsToTxnResponse = Message(
    "AddOffsetsToTxnResponse", 25, "response", "0-4", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the group was not added to the transaction, e.g. 51 = previous one not done",
)
