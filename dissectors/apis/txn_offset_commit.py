"""TxnOffsetCommit (key 28): a transactional producer commits consumer offsets inside its transaction

Goes to the group coordinator; the offsets count only once the transaction commits.
v2 adds the leader epoch (KIP-320), v3 member and generation for fencing (KIP-447), v5 works
without AddOffsetsToTxn before it (transactions v2, KIP-890), v6 has topic ids instead of names.
"""

from dissectors.domains import (
    DURATION_MS,
    ERROR_CODE,
    GENERATION_OR_MEMBER_EPOCH,
    LEADER_EPOCH,
    PRODUCER_EPOCH,
    PRODUCER_ID,
)
from dissectors.entities import GroupId, ProducerId, TopicName, TransactionalId
from dissectors.schema import Array, Int16, Int32, Int64, Message, String, Uuid

TxnOffsetCommitRequest = Message(
    "TxnOffsetCommitRequest", 28, "request", "0-6", "3+",
    "transactional_id" / TransactionalId * "transactional.id of the producer",
    "group_id" / GroupId * "consumer group whose offsets are committed",
    "producer_id" / ProducerId.of(PRODUCER_ID) * "producer id of the transactional producer",
    "producer_epoch" / Int16.of(PRODUCER_EPOCH) * "epoch of the producer; an older one is fenced",
    "generation_id_or_member_epoch" / Int32.of(GENERATION_OR_MEMBER_EPOCH).default(-1) @ "3+" * "generation (classic) or member epoch (KIP-848) of the consumer; -1 = not checked",
    "member_id" / String @ "3+" * "member id of the consumer in the group; empty = not checked",
    "group_instance_id" / String.null().default(None) @ "3+" * "static member name of the consumer (group.instance.id); null = dynamic member",
    "topics" / Array(
        "name" / TopicName @ "0-5" * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "6+" * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "committed_offset" / Int64 * "offset to commit: the next one to be read",
            "committed_leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) @ "2+" * "leader epoch of the last record consumed; -1 = unknown",
            "committed_metadata" / String.null() * "free text of the client kept with the offset; null = none",
        ) * "partitions to commit offsets for",
    ) * "topics to commit offsets for",
)

TxnOffsetCommitResponse = Message(
    "TxnOffsetCommitResponse", 28, "response", "0-6", "3+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "topics" / Array(
        "name" / TopicName @ "0-5" * "topic name",
        "topic_id" / Uuid.holds("topic_id") @ "6+" * "topic id",
        "partitions" / Array(
            "partition_index" / Int32 * "partition number",
            "error_code" / Int16.of(ERROR_CODE) * "0 or why the offset of this partition was not accepted",
        ) * "result for each partition",
    ) * "result for each topic",
)
