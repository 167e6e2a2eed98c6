"""WriteTxnMarkers (key 27): the transaction coordinator has leaders write commit or abort markers.

Normally sent between brokers only (KIP-98); admin tools use it to abort a hanging transaction
(KIP-664). The markers appear in the log as control records. v2 adds the transaction version.
"""

from dissectors.domains import (
    ERROR_CODE,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    TRANSACTION_RESULT,
    TRANSACTION_VERSION,
)
from dissectors.entities import ProducerId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message

WriteTxnMarkersRequest = Message(
    "WriteTxnMarkersRequest", 27, "request", "0-2", "1+",
    "markers" / Array(
        "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id of the transaction",
        "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "producer epoch for the marker",
        "transaction_result" / Bool.of(TRANSACTION_RESULT) * "true = commit, false = abort",
        "topics" / Array(
            "name" / TopicName * "topic name",
            "partition_indexes" / Array(Int32) * "partition numbers that get the marker",
        ) * "topics that get the marker",
        "coordinator_epoch" / Int32 * "epoch of the transaction coordinator; an older one is refused",
        "transaction_version" / Int8.of(TRANSACTION_VERSION) @ "2+" * "transaction.version in use: 0/1 = classic, 2 = transactions v2 (KIP-890)",
    ) * "transactions to end",
)

WriteTxnMarkersResponse = Message(
    "WriteTxnMarkersResponse", 27, "response", "0-2", "1+",
    "markers" / Array(
        "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id of the transaction",
        "topics" / Array(
            "name" / TopicName * "topic name",
            "partitions" / Array(
                "partition_index" / Int32 * "partition number",
                "error_code" / Int16.of(ERROR_CODE) * "0 or why the marker was not written to this partition",
            ) * "result by partition",
        ) * "result by topic",
    ) * "result by transaction",
)
