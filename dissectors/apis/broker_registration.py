"""BrokerRegistration (key 62): a KRaft broker that starts registers with the controller (KIP-631)

v1 adds the ZooKeeper migration flag (KIP-866), v2 log dirs (KIP-858), v3 the previous epoch
(KIP-966). v4 has the layout of v3 and allows features whose lowest version is 0.
"""

from dissectors.domains import BROKER_EPOCH, DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, String, Uuid
from dissectors.structs import Listener, SupportedFeature

BrokerRegistrationRequest = Message(
    "BrokerRegistrationRequest", 62, "request", "0-4", "0+",
    "broker_id" / BrokerId * "broker id",
    "cluster_id" / ClusterId * "cluster id the broker belongs to",
    "incarnation_id" / Uuid * "random id of this run of the broker process",
    "listeners" / Array(Listener) * "listeners of the broker",
    "features" / Array(SupportedFeature) * "features the broker can handle",
    "rack" / String.null() * "rack of the broker; null = none",
    "is_migrating_zk_broker" / Bool @ "1+" * "true = ZooKeeper broker in migration to KRaft (KIP-866)",
    "log_dirs" / Array(Uuid) @ "2+" * "ids of the log dirs that are online (KIP-858)",
    "previous_broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) @ "3+" * "epoch before a clean shutdown; -1 = unknown or not clean (KIP-966)",
)

BrokerRegistrationResponse = Message(
    "BrokerRegistrationResponse", 62, "response", "0-4", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why refused (101 = id in use, 104 = other cluster id, 35 = feature level not supported)",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch given to the broker for this run; -1 = none",
)
