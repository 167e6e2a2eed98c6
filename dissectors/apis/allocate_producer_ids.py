"""AllocateProducerIds (key 67): a broker gets a block of producer ids from the controller (KIP-730)

The broker then gives them out one by one in InitProducerId responses.
"""

from dissectors.domains import BROKER_EPOCH, DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, ProducerId
from dissectors.schema import Int16, Int32, Int64, Message

AllocateProducerIdsRequest = Message(
    "AllocateProducerIdsRequest", 67, "request", "0", "0+",
    "broker_id" / BrokerId * "broker that wants ids",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch of that broker's registration; -1 = unknown",
)

AllocateProducerIdsResponse = Message(
    "AllocateProducerIdsResponse", 67, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why no block was given (77 = old broker epoch, 41 = not the controller)",
    "producer_id_start" / ProducerId * "first producer id of the block",
    "producer_id_len" / Int32 * "number of producer ids in the block",
)
