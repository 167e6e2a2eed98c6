"""UnregisterController (key 94): admin tools remove the registration of a controller that is gone.

KIP-1312 (4.4, not released when this was written); the counterpart of UnregisterBroker. It does not
change the voters: see RemoveRaftVoter.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId
from dissectors.schema import Int16, Int32, Message, String

UnregisterControllerRequest = Message(
    "UnregisterControllerRequest", 94, "request", "0", "0+",
    "controller_id" / BrokerId * "node id of the controller whose registration is removed",
)

UnregisterControllerResponse = Message(
    "UnregisterControllerResponse", 94, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the controller was not unregistered",
    "error_message" / String.null() * "text for the error; null = none",
)
