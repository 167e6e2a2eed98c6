"""ApiVersions (key 18): ask which APIs, versions and features the broker has; opens most connections.

Allowed before authentication. An unknown version is answered with error 35 in the layout of v0,
then the client tries again. The response header is always v0, also in the flexible versions.
v3 client name and version (KIP-511) and features (KIP-584).
Kafka 4 announces Produce from v0 on though only v3+ work (KAFKA-18659).
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, FEATURES_EPOCH, NODE_ID
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, String

ApiVersionsRequest = Message(
    "ApiVersionsRequest", 18, "request", "0-5", "3+",
    "client_software_name" / String @ "3+" * "name of the client library, e.g. apache-kafka-java, librdkafka",
    "client_software_version" / String @ "3+" * "version of the client library",
    "cluster_id" / ClusterId.null().default(None) @ "5+" * "cluster the client believes it talks to; null = not given",
    "node_id" / BrokerId.of(NODE_ID).default(-1) @ "5+" * "broker the client believes it talks to; -1 = not given",
)

ApiVersionsResponse = Message(
    "ApiVersionsResponse", 18, "response", "0-5", "3+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the request failed; 35 = version not known, body is in v0 format",
    "api_keys" / Array(
        "api_key" / Int16.holds("api_key") * "number of the API",
        "min_version" / Int16 * "lowest version offered",
        "max_version" / Int16 * "highest version offered",
    ) * "APIs the broker offers and their versions",
    "throttle_time_ms" / Int32.of(DURATION_MS) @ "1+" * "quota delay in ms; brokers before 2.0 delay the answer, later ones the next request (KIP-219)",
    "supported_features" / Array(
        "name" / String * "feature name, e.g. metadata.version, transaction.version",
        "min_version" / Int16 * "lowest level this broker supports",
        "max_version" / Int16.holds("feature_level") * "highest level this broker supports",
    ).tag(0) @ "3+" * "features this broker could use (KIP-584)",
    "finalized_features_epoch" / Int64.of(FEATURES_EPOCH).tag(1).default(-1) @ "3+" * "epoch of the cluster's feature levels, grows with changes; -1 = unknown",
    "finalized_features" / Array(
        "name" / String * "feature name, e.g. metadata.version, transaction.version",
        "max_version_level" / Int16.holds("feature_level") * "highest level in force, i.e. the one in use",
        "min_version_level" / Int16 * "lowest level in force",
    ).tag(2) @ "3+" * "feature levels in force in the whole cluster (KIP-584)",
    "zk_migration_ready" / Bool.tag(3) @ "3+" * "node is ready to migrate from ZooKeeper to KRaft (KIP-866)",
)
