"""ShareAcknowledge (key 79): a share group member acknowledges records without fetching more (KIP-932)

Uses the same share session as ShareFetch, which can carry acknowledgements too.
v0 exists only in the early access of 3.9-4.0; v2 (4.2) can renew the lock on records.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, SHARE_SESSION_EPOCH
from dissectors.entities import GroupId
from dissectors.schema import Array, Bool, Int16, Int32, Message, String, Uuid
from dissectors.structs import AcknowledgementBatch, CurrentLeader, NodeEndpoint

ShareAcknowledgeRequest = Message(
    "ShareAcknowledgeRequest", 79, "request", "0-2", "0+",
    "group_id" / GroupId.null().default(None) * "share group id",
    "member_id" / String.null() * "member id of the consumer",
    "share_session_epoch" / Int32.of(SHARE_SESSION_EPOCH) * "share session epoch; -1 = close, else one more each time; cannot open one",
    "is_renew_ack" / Bool @ "2+" * "true = acknowledgements can include renewals of the lock (type 4)",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "acknowledgement_batches" / Array(AcknowledgementBatch) * "acknowledgements of records delivered earlier",
        ) * "partitions to acknowledge records of",
    ) * "topics to acknowledge records of",
)

ShareAcknowledgeResponse = Message(
    "ShareAcknowledgeResponse", 79, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed (122 no such share session, 123 wrong session epoch)",
    "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    "acquisition_lock_timeout_ms" / Int32.of(DURATION_MS) @ "2+" * "ms that records stay locked for this member",
    "responses" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why acknowledgements failed (121 = lock lost or bad state)",
            "error_message" / String.null().default(None) * "explanation of error_code; null = none",
            "current_leader" / CurrentLeader * "leader of the partition if this broker no longer is",
        ) * "result for each partition",
    ) * "result for each topic",
    "node_endpoints" / Array(NodeEndpoint) * "addresses of the leaders named in current_leader",
)
