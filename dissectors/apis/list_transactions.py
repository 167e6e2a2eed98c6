"""ListTransactions (key 66): an admin client lists the transactional ids of one coordinator (KIP-664)

Each broker answers only for its own, so tools ask them all.
v1 filters by duration (KIP-994), v2 by a pattern of the id (KIP-1152).
"""

from dissectors.domains import DURATION_FILTER, DURATION_MS, ERROR_CODE, PRODUCER_ID
from dissectors.entities import ProducerId, TransactionalId
from dissectors.schema import Array, Int16, Int32, Int64, Message, String

ListTransactionsRequest = Message(
    "ListTransactionsRequest", 66, "request", "0-2", "0+",
    "state_filters" / Array(String) * "states wanted, such as Ongoing; empty = all",
    "producer_id_filters" / Array(ProducerId.of(PRODUCER_ID)) * "producer ids wanted; empty = all",
    "duration_filter" / Int64.of(DURATION_FILTER).default(-1) @ "1+" * "only transactions open for longer than this many ms; -1 = all",
    "transactional_id_pattern" / String.null().default(None) @ "2+" * "regular expression for the transactional id; null or empty = all",
)

ListTransactionsResponse = Message(
    "ListTransactionsResponse", 66, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the list cannot be given (14 = coordinator still loading)",
    "unknown_state_filters" / Array(String) * "states of the request that the broker does not know",
    "transaction_states" / Array(
        "transactional_id" / TransactionalId * "transactional id",
        "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id in use",
        "transaction_state" / String * "Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort ...",
    ) * "transactional ids found",
)
