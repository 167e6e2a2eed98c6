"""UpdateRaftVoter (key 82): a voter tells the quorum leader its endpoints and kraft.version range.

Sent between controllers only (KIP-853), when the leader's voter set differs from the voter's data.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, LEADER_EPOCH, LEADER_ID
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Array, Int16, Int32, Message, String, Struct, Uuid
from dissectors.structs import QuorumListener

UpdateRaftVoterRequest = Message(
    "UpdateRaftVoterRequest", 82, "request", "0", "0+",
    "cluster_id" / ClusterId.null() * "cluster id, checked by the leader; null = not checked",
    "current_leader_epoch" / Int32.of(LEADER_EPOCH) * "quorum leader epoch that the voter knows; an old one is refused",
    "voter_id" / BrokerId * "node id of the voter that sends its data",
    "voter_directory_id" / Uuid * "directory id of the voter's metadata log",
    "listeners" / Array(QuorumListener) * "listeners at which the voter can be reached now",
    "kraft_version_feature" / Struct(
        "min_supported_version" / Int16 * "lowest kraft.version supported",
        "max_supported_version" / Int16 * "highest kraft.version supported",
    ) * "range of kraft.version that the voter supports",
)

UpdateRaftVoterResponse = Message(
    "UpdateRaftVoterResponse", 82, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the voter's data was not updated",
    "current_leader" / Struct(
        "leader_id" / BrokerId.of(LEADER_ID).default(-1) * "node id of the quorum leader; -1 = unknown",
        "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "epoch of the quorum leader; -1 = unknown",
        "host" / String * "host of the quorum leader",
        "port" / Int32 * "port of the quorum leader",
    ).tag(0) * "quorum leader that the answering node knows",
)
