"""ShareFetch (key 78): a share group member gets records and acknowledges earlier ones (KIP-932)

Records come locked for this member until it acknowledges them or the lock runs out.
Share sessions work like fetch sessions: partitions named once stay until forgotten; the broker
drops the session when the connection closes. v0 exists only in 3.9-4.0; v1 (4.1) limits the
records; v2 (4.2) adds the acquire mode and renewal of locks.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, MAX_BYTES, SHARE_ACQUIRE_MODE, SHARE_SESSION_EPOCH
from dissectors.entities import GroupId
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Int64, Message, Records, String, Uuid
from dissectors.structs import AcknowledgementBatch, CurrentLeader, NodeEndpoint

ShareFetchRequest = Message(
    "ShareFetchRequest", 78, "request", "0-2", "0+",
    "group_id" / GroupId.null().default(None) * "share group id",
    "member_id" / String.null() * "member id of the consumer",
    "share_session_epoch" / Int32.of(SHARE_SESSION_EPOCH) * "share session epoch; 0 = open, -1 = close, else one more each time",
    "max_wait_ms" / Int32.of(DURATION_MS) * "longest time in ms the broker may wait for min_bytes",
    "min_bytes" / Int32 * "bytes to collect before answering, unless max_wait_ms is over",
    "max_bytes" / Int32.of(MAX_BYTES).default(2147483647) * "most bytes wanted in the answer; a larger first batch still comes",
    "max_records" / Int32 @ "1+" * "most records wanted; the broker can exceed it to keep batches whole",
    "batch_size" / Int32 @ "1+" * "records wanted in one entry of acquired_records",
    "share_acquire_mode" / Int8.of(SHARE_ACQUIRE_MODE) @ "2+" * "0 whole batches (max_records can be exceeded), 1 max_records is a strict limit",
    "is_renew_ack" / Bool @ "2+" * "true = acknowledgements can include renewals of the lock (type 4)",
    "topics" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "partition_max_bytes" / Int32 @ "0" * "most bytes wanted from this partition",
            "acknowledgement_batches" / Array(AcknowledgementBatch) * "acknowledgements of records delivered earlier",
        ) * "partitions to fetch from or acknowledge for",
    ) * "topics to fetch from or acknowledge for; only changes within a session",
    "forgotten_topics_data" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(Int32) * "partitions to drop from the share session",
    ) * "topics with partitions to drop from the share session",
)

ShareFetchResponse = Message(
    "ShareFetchResponse", 78, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole fetch failed (122 no such share session, 123 wrong session epoch)",
    "error_message" / String.null().default(None) * "explanation of error_code; null = none",
    "acquisition_lock_timeout_ms" / Int32.of(DURATION_MS) @ "1+" * "ms the acquired records stay locked for this member",
    "responses" / Array(
        "topic_id" / Uuid.holds("topic_id") * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why nothing was fetched from this partition",
            "error_message" / String.null().default(None) * "explanation of error_code; null = none",
            "acknowledge_error_code" / Int16.of(ERROR_CODE) * "0 or why acknowledgements failed (121 = lock lost or bad state)",
            "acknowledge_error_message" / String.null().default(None) * "explanation of acknowledge_error_code; null = none",
            "current_leader" / CurrentLeader * "leader of the partition if this broker no longer is",
            "records" / Records.null("0") * "record batches; only offsets in acquired_records are for this member",
            "acquired_records" / Array(
                "first_offset" / Int64 * "first offset of the range",
                "last_offset" / Int64 * "last offset of the range (inclusive)",
                "delivery_count" / Int16 * "how often these records were delivered; above 1 = delivered again",
            ) * "offset ranges locked for this member",
        ) * "result for each partition",
    ) * "result for each topic",
    "node_endpoints" / Array(NodeEndpoint) * "addresses of the leaders named in current_leader",
)
