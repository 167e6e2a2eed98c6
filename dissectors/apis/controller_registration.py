"""ControllerRegistration (key 70): a KRaft controller tells the active one its listeners and features

KIP-919.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId
from dissectors.schema import Array, Bool, Int16, Int32, Message, String, Uuid
from dissectors.structs import Listener, SupportedFeature

ControllerRegistrationRequest = Message(
    "ControllerRegistrationRequest", 70, "request", "0", "0+",
    "controller_id" / BrokerId * "node id of the controller that registers",
    "incarnation_id" / Uuid * "random id of this run of the controller process",
    "zk_migration_ready" / Bool * "true = ready for the migration from ZooKeeper",
    "listeners" / Array(Listener) * "listeners of the controller",
    "features" / Array(SupportedFeature) * "features the controller can handle",
)

ControllerRegistrationResponse = Message(
    "ControllerRegistrationResponse", 70, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the registration was refused",
    "error_message" / String.null() * "explanation of error_code; null = none",
)
