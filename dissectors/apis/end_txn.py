"""EndTxn (key 26): commit or abort a transaction (KIP-98).

v2 error 90 = fenced (KIP-588). v5 belongs to transactions v2 (KIP-890): every EndTxn raises the
epoch, the answer holds the producer id and epoch for the next transaction.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PRODUCER_EPOCH, PRODUCER_ID, TRANSACTION_RESULT
from dissectors.entities import ProducerId, TransactionalId
from dissectors.schema import Bool, Int16, Int32, Message

EndTxnRequest = Message(
    "EndTxnRequest", 26, "request", "0-5", "3+",
    "transactional_id" / TransactionalId * "transactional.id of the producer",
    "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch; an older one is fenced",
    "committed" / Bool.of(TRANSACTION_RESULT) * "true = commit, false = abort",
)

EndTxnResponse = Message(
    "EndTxnResponse", 26, "response", "0-5", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the transaction was not ended, e.g. 90 = fenced",
    "producer_id" / ProducerId.of(PRODUCER_ID).default(-1) @ "5+" * "producer id for the next transaction (KIP-890); -1 on error",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH).default(-1) @ "5+" * "producer epoch for the next transaction (KIP-890); -1 on error",
)
