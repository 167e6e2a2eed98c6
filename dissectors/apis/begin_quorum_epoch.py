"""BeginQuorumEpoch (key 53): a new KRaft leader tells the voters that it leads the metadata quorum

KIP-595. v1 adds the voter's id and directory id and the leader's addresses (KIP-853).
"""

from dissectors.domains import ERROR_CODE, LEADER_EPOCH, LEADER_ID, NODE_ID
from dissectors.entities import BrokerId, ClusterId, TopicName
from dissectors.schema import Array, Int16, Int32, Message, Uuid
from dissectors.structs import QuorumListener, QuorumNode, QuorumTopicResult

BeginQuorumEpochRequest = Message(
    "BeginQuorumEpochRequest", 53, "request", "0-1", "1+",
    "cluster_id" / ClusterId.null().default(None) * "cluster id of the leader; null = not checked",
    "voter_id" / BrokerId.of(NODE_ID).default(-1) @ "1+" * "node id of the receiving voter; -1 = unknown",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
            "voter_directory_id" / Uuid @ "1+" * "metadata directory id of the receiving voter",
            "leader_id" / BrokerId.of(LEADER_ID) * "node id of the new leader, the sender",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the new leader",
        ) * "partitions led; always 0 alone",
    ) * "topics led; always __cluster_metadata alone",
    "leader_endpoints" / Array(QuorumListener) @ "1+" * "addresses of the leader, one for each listener",
)

BeginQuorumEpochResponse = Message(
    "BeginQuorumEpochResponse", 53, "response", "0-1", "1+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (104 = other cluster id)",
    "topics" / Array(QuorumTopicResult) * "result for each topic",
    "node_endpoints" / Array(QuorumNode).tag(0) @ "1+" * "address of the leader named above",
)
