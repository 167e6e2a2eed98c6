"""EndQuorumEpoch (key 54): a KRaft leader that resigns or shuts down tells the voters to elect another

KIP-595. v1 has directory ids and the leader's addresses (KIP-853).
v0 of 2.7 (KRaft preview) has another layout than v0 of 2.8 and later.
"""

from dissectors.domains import ERROR_CODE, LEADER_EPOCH, LEADER_ID
from dissectors.entities import BrokerId, ClusterId, TopicName
from dissectors.schema import Array, EarlierLayout, Int16, Int32, Message, Uuid
from dissectors.structs import QuorumListener, QuorumNode, QuorumTopicResult

EndQuorumEpochRequest = Message(
    "EndQuorumEpochRequest", 54, "request", "0-1", "1+",
    "cluster_id" / ClusterId.null().default(None) * "cluster id of the leader; null = not checked",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
            "leader_id" / BrokerId.of(LEADER_ID) * "node id of the leader that resigns",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch of the leader that resigns",
            "preferred_successors" / Array(BrokerId) @ "0" * "voters in the order they should stand for election, most caught up first",
            "preferred_candidates" / Array(
                "candidate_id" / BrokerId * "node id of the voter",
                "candidate_directory_id" / Uuid * "metadata directory id of the voter",
            ) @ "1+" * "voters in the order they should stand for election, most caught up first",
        ) * "partitions given up; always 0 alone",
    ) * "topics given up; always __cluster_metadata alone",
    "leader_endpoints" / Array(QuorumListener) @ "1+" * "addresses of the leader, one for each listener",
    older=(
        EarlierLayout("0", "none", instead={"topics.partitions.leader_id": (
            "replica_id" / BrokerId * "broker id of the resigning replica",
            "leader_id" / BrokerId.of(LEADER_ID) * "node id of the leader that resigns",
        )}),
    ),
)

EndQuorumEpochResponse = Message(
    "EndQuorumEpochResponse", 54, "response", "0-1", "1+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (104 = other cluster id)",
    "topics" / Array(QuorumTopicResult) * "result for each topic",
    "node_endpoints" / Array(QuorumNode).tag(0) @ "1+" * "address of the leader named above",
)
