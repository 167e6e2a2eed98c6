"""ControllerRegistration (key 70): a KRaft controller tells the active one its listeners and features

KIP-919.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, SECURITY_PROTOCOL
from dissectors.entities import BrokerId
from dissectors.schema import Array, Bool, Int16, Int32, Message, String, Uint16, Uuid

ControllerRegistrationRequest = Message(
    "ControllerRegistrationRequest", 70, "request", "0", "0+",
    "controller_id" / BrokerId * "node id of the controller that registers",
    "incarnation_id" / Uuid * "random id of this run of the controller process",
    "zk_migration_ready" / Bool * "true = ready for the migration from ZooKeeper",
    "listeners" / Array(
        "name" / String * "listener name",
        "host" / String * "advertised host name or address",
        "port" / Uint16 * "advertised port",
        "security_protocol" / Int16.of(SECURITY_PROTOCOL) * "0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL",
    ) * "listeners of the controller",
    "features" / Array(
        "name" / String * "feature name, such as metadata.version",
        "min_supported_version" / Int16 * "lowest level the controller can handle",
        "max_supported_version" / Int16 * "highest level the controller can handle",
    ) * "features the controller can handle",
)

ControllerRegistrationResponse = Message(
    "ControllerRegistrationResponse", 70, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the registration was refused",
    "error_message" / String.null() * "explanation of error_code; null = none",
)
