"""BrokerHeartbeat (key 63): a KRaft broker tells the controller that it lives and what state it wants

KIP-631. A broker without heartbeats is fenced after broker.session.timeout.ms.
v1 adds failed log dirs (KIP-858), v2 cordoned ones.
"""

from dissectors.domains import BROKER_EPOCH, DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, Uuid

BrokerHeartbeatRequest = Message(
    "BrokerHeartbeatRequest", 63, "request", "0-2", "0+",
    "broker_id" / BrokerId * "broker id",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch from the registration; -1 = unknown",
    "current_metadata_offset" / Int64 * "highest metadata offset the broker has applied",
    "want_fence" / Bool * "true = wants to be or stay fenced, as while starting",
    "want_shut_down" / Bool * "true = wants a controlled shutdown",
    "offline_log_dirs" / Array(Uuid).tag(0) @ "1+" * "ids of log dirs that failed (KIP-858)",
    "cordoned_log_dirs" / Array(Uuid).null().tag(1).default(None) @ "2+" * "ids of log dirs that shall get no new replicas",
)

BrokerHeartbeatResponse = Message(
    "BrokerHeartbeatResponse", 63, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the heartbeat failed (77 = old broker epoch, 102 = not registered)",
    "is_caught_up" / Bool * "true = broker has about all the metadata and can be unfenced",
    "is_fenced" / Bool.default(True) * "true = broker is fenced: gets no leaders, serves no clients",
    "should_shut_down" / Bool * "true = leaders have moved away, the broker may stop now",
)
