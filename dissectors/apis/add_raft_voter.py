"""AddRaftVoter (key 80): adds a controller to the voters of a dynamic KRaft quorum (KIP-853).

Sent by kafka-metadata-quorum add-controller, or by a controller that joins by itself (KIP-1186).
Needs kraft.version 1 and goes to the quorum leader; the new node must have caught up with the log.
v1 (4.2) adds ack_when_committed.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Array, Bool, Int16, Int32, Message, String, Uuid
from dissectors.structs import QuorumListener

AddRaftVoterRequest = Message(
    "AddRaftVoterRequest", 80, "request", "0-1", "0+",
    "cluster_id" / ClusterId.null() * "cluster id, checked by the leader; null = not checked",
    "timeout_ms" / Int32.of(DURATION_MS) * "longest time in ms the leader may take to add the voter",
    "voter_id" / BrokerId * "node id of the controller to add",
    "voter_directory_id" / Uuid * "directory id of the new voter's metadata log (meta.properties, KIP-853)",
    "listeners" / Array(QuorumListener) * "listeners at which the new voter can be reached",
    "ack_when_committed" / Bool.default(True) @ "1+" * "true = answer when the new voter set is committed, false = when the leader has appended it",
)

AddRaftVoterResponse = Message(
    "AddRaftVoterResponse", 80, "response", "0-1", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the voter was not added",
    "error_message" / String.null() * "text for the error; null = none",
)
