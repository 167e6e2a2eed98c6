"""InitProducerId (key 22): get a producer id and epoch, for an idempotent or transactional producer.

With a transactional id it fences older producers of that id, ends their transaction (KIP-98).
v3 can raise the epoch after errors (KIP-360), v4 error 90 = fenced (KIP-588), v6 two-phase commit
(KIP-939).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, PRODUCER_EPOCH, PRODUCER_ID
from dissectors.entities import ProducerId, TransactionalId
from dissectors.schema import Bool, Int16, Int32, Message

InitProducerIdRequest = Message(
    "InitProducerIdRequest", 22, "request", "0-6", "2+",
    "transactional_id" / TransactionalId.null() * "transactional.id of the producer; null = only idempotent",
    "transaction_timeout_ms" / Int32.of(DURATION_MS) * "ms after which the coordinator aborts an open transaction",
    "producer_id" / ProducerId.of(PRODUCER_ID).default(-1) @ "3+" * "producer id the client has, to raise its epoch (KIP-360); -1 = none",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH).default(-1) @ "3+" * "producer epoch the client has (KIP-360); -1 = none",
    "enable_2pc" / Bool @ "6+" * "true = transactions take part in a two-phase commit and do not time out (KIP-939)",
    "keep_prepared_txn" / Bool @ "6+" * "true = keep an open prepared transaction instead of aborting it (KIP-939)",
)

InitProducerIdResponse = Message(
    "InitProducerIdResponse", 22, "response", "0-6", "2+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why no producer id was given, e.g. 51 = try again, 90 = fenced",
    "producer_id" / ProducerId.of(PRODUCER_ID).default(-1) * "producer id to use from now on; -1 on error",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch to use from now on; -1 on error",
    "ongoing_txn_producer_id" / ProducerId.of(PRODUCER_ID).default(-1) @ "6+" * "producer id of the prepared transaction that was kept (KIP-939); -1 = none",
    "ongoing_txn_producer_epoch" / Int16.of(PRODUCER_EPOCH).default(-1) @ "6+" * "producer epoch of the prepared transaction that was kept (KIP-939); -1 = none",
)
