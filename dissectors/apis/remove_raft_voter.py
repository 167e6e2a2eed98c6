"""RemoveRaftVoter (key 81): takes a controller out of the voters of a dynamic KRaft quorum (KIP-853).

Sent by kafka-metadata-quorum remove-controller. A node that keeps running is an observer then.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE
from dissectors.entities import BrokerId, ClusterId
from dissectors.schema import Int16, Int32, Message, String, Uuid

RemoveRaftVoterRequest = Message(
    "RemoveRaftVoterRequest", 81, "request", "0", "0+",
    "cluster_id" / ClusterId.null() * "cluster id, checked by the leader; null = not checked",
    "voter_id" / BrokerId * "node id of the voter to remove",
    "voter_directory_id" / Uuid * "directory id of the voter to remove; must match the voter set",
)

RemoveRaftVoterResponse = Message(
    "RemoveRaftVoterResponse", 81, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the voter was not removed",
    "error_message" / String.null() * "text for the error; null = none",
)
