"""UpdateMetadata (key 6): the ZooKeeper controller gives a broker the metadata it serves to clients.

Only between brokers and only with ZooKeeper; removed in 4.0, the key stays reserved.
v1 several endpoints a broker, v2 racks (KIP-36), v3 listener names (KIP-103), v4 offline replicas
(KIP-112), v5 broker epoch (KIP-380), v7 topic ids (KIP-516), v8 migration to KRaft (KIP-866).
"""

from dissectors.domains import BROKER_EPOCH, CONTROLLER_REQUEST_TYPE, ERROR_CODE, SECURITY_PROTOCOL
from dissectors.entities import BrokerId, TopicName
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, String, Uuid
from dissectors.structs import ControllerPartitionState

UpdateMetadataRequest = Message(
    "UpdateMetadataRequest", 6, "request", "0-8", "6+",
    "controller_id" / BrokerId * "broker id of the controller",
    "is_kraft_controller" / Bool @ "8+" * "true when a KRaft controller sends it during migration (KIP-866)",
    "controller_epoch" / Int32 * "epoch of the sending controller; an older one is refused",
    "ungrouped_partition_states" / Array(
        "topic_name" / TopicName * "topic name",
        *ControllerPartitionState.fields,
        "zk_version" / Int32 * "version of the partition state in ZooKeeper",
        "replicas" / Array(BrokerId) * "broker ids of all replicas, preferred leader first",
        "offline_replicas" / Array(BrokerId) @ "4" * "broker ids of the replicas that are offline",
    ) @ "0-4" * "partition states, flat list (v0-4)",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) @ "5+" * "epoch of the receiving broker (KIP-380); -1 = not given",
    "topic_states" / Array(
        "topic_name" / TopicName * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "7+" * "topic id; all-zero = none",
        "partition_states" / Array(
            *ControllerPartitionState.fields,
            "zk_version" / Int32 * "version of the partition state in ZooKeeper",
            "replicas" / Array(BrokerId) * "broker ids of all replicas, preferred leader first",
            "offline_replicas" / Array(BrokerId) * "broker ids of the replicas that are offline",
        ) * "states of this topic's partitions",
    ) @ "5+" * "partition states by topic (v5+)",
    "live_brokers" / Array(
        "id" / BrokerId * "broker id",
        "v0_host" / String @ "0" * "host name of the broker (v0)",
        "v0_port" / Int32 @ "0" * "port of the broker (v0)",
        "endpoints" / Array(
            "port" / Int32 * "port of the listener",
            "host" / String * "host name of the listener",
            "listener" / String @ "3+" * "listener name (KIP-103)",
            "security_protocol" / Int16.of(SECURITY_PROTOCOL) * "0 = PLAINTEXT, 1 = SSL, 2 = SASL_PLAINTEXT, 3 = SASL_SSL",
        ) @ "1+" * "listeners of the broker",
        "rack" / String.null() @ "2+" * "rack of the broker; null = none",
    ) * "brokers that are alive",
    "type" / Int8.of(CONTROLLER_REQUEST_TYPE).tag(0) @ "8+" * "0 = unknown, 1 = only changes, 2 = full metadata; sent since 3.6.1",
)

UpdateMetadataResponse = Message(
    "UpdateMetadataResponse", 6, "response", "0-8", "6+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the update failed, e.g. 11 = stale controller epoch",
)
