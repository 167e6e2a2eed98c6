"""Vote (key 52): a KRaft node asks a voter for its vote to become leader of the metadata quorum

KIP-595. v1 adds the voter's id and directory ids (KIP-853), v2 the pre-vote (KIP-996): a node
first asks whether it could win, without raising its epoch.
Frequent votes mean an unstable quorum or nodes that cannot reach the leader.
"""

from dissectors.domains import ERROR_CODE, LEADER_EPOCH, LEADER_ID, NODE_ID
from dissectors.entities import BrokerId, ClusterId, TopicName
from dissectors.schema import Array, Bool, Int16, Int32, Int64, Message, Uuid
from dissectors.structs import QuorumNode

VoteRequest = Message(
    "VoteRequest", 52, "request", "0-2", "0+",
    "cluster_id" / ClusterId.null().default(None) * "cluster id of the sender; null = not checked",
    "voter_id" / BrokerId.of(NODE_ID).default(-1) @ "1+" * "node id of the voter asked; -1 = unknown",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
            "replica_epoch" / Int32 * "epoch of the sender; in a real vote the epoch it wants to lead",
            "replica_id" / BrokerId * "node id of the sender that wants the vote",
            "replica_directory_id" / Uuid @ "1+" * "metadata directory id of the sender",
            "voter_directory_id" / Uuid @ "1+" * "metadata directory id of the voter asked",
            "last_offset_epoch" / Int32 * "epoch of the last record in the sender's log",
            "last_offset" / Int64 * "log end offset of the sender",
            "pre_vote" / Bool @ "2+" * "true = pre-vote: only asks, does not bind the voter",
        ) * "partitions of the vote; always 0 alone",
    ) * "topics of the vote; always __cluster_metadata alone",
)

VoteResponse = Message(
    "VoteResponse", 52, "response", "0-2", "0+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (104 = other cluster id)",
    "topics" / Array(
        "topic_name" / TopicName * "__cluster_metadata",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number, 0",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the vote was not considered (74 = older epoch)",
            "leader_id" / BrokerId.of(LEADER_ID) * "node id of the leader the voter knows; -1 = unknown",
            "leader_epoch" / Int32.of(LEADER_EPOCH) * "epoch the voter is in",
            "vote_granted" / Bool * "true = vote given, or would be given in a pre-vote",
        ) * "result for each partition",
    ) * "result for each topic",
    "node_endpoints" / Array(QuorumNode).tag(0) @ "1+" * "address of the leader named above",
)
