"""UnregisterBroker (key 64): an admin client removes a broker from the KRaft cluster (KIP-631)

Meant for brokers that are gone for good; one that still runs should be stopped first.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId
from dissectors.schema import Int16, Int32, Message, String

UnregisterBrokerRequest = Message(
    "UnregisterBrokerRequest", 64, "request", "0", "0+",
    "broker_id" / BrokerId * "id of the broker to remove",
)

UnregisterBrokerResponse = Message(
    "UnregisterBrokerResponse", 64, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the broker was not removed (102 = no such registration)",
    "error_message" / String.null() * "explanation of error_code; null = none",
)
