"""DescribeCluster (key 60): an admin client asks for cluster id, controller and brokers (KIP-700)

v1 can ask controllers directly (KIP-919), v2 can list fenced brokers too.
"""

from dissectors.domains import AUTHORIZED_OPERATIONS, CONTROLLER_ID, DURATION_MS, ENDPOINT_TYPE, ERROR_CODE
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String

DescribeClusterRequest = Message(
    "DescribeClusterRequest", 60, "request", "0-2", "0+",
    "include_cluster_authorized_operations" / Bool * "true = say what this client may do on the cluster",
    "endpoint_type" / Int8.of(ENDPOINT_TYPE).default(1) @ "1+" * "1 brokers, 2 controllers wanted (KIP-919)",
    "include_fenced_brokers" / Bool @ "2+" * "true = list fenced brokers too",
)

DescribeClusterResponse = Message(
    "DescribeClusterResponse", 60, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the request failed (114 or 115 = endpoint type not served here)",
    "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    "endpoint_type" / Int8.of(ENDPOINT_TYPE).default(1) @ "1+" * "kind of nodes listed: 1 brokers, 2 controllers",
    "cluster_id" / ClusterId * "cluster id",
    "controller_id" / BrokerId.of(CONTROLLER_ID).default(-1) * "node id of the controller; a KRaft broker names a broker that forwards; -1 = unknown",
    "brokers" / Array(
        "broker_id" / BrokerId * "node id",
        "host" / String * "host name or address",
        "port" / Int32 * "port",
        "rack" / String.null().default(None) * "rack; null = none",
        "is_fenced" / Bool @ "2+" * "true = broker is fenced: registered, but serves no clients",
    ) * "nodes of the cluster",
    "cluster_authorized_operations" / Int32.of(AUTHORIZED_OPERATIONS).default(-2147483648) * "bit n = ACL operation n allowed; -2147483648 = not asked for",
)
