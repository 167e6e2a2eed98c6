"""The named error codes of the Kafka protocol, with advice for people who debug Kafka.

One row per code, all that exist up to Kafka 4.4. Numbers, names and retriability are those of
``clients/src/main/java/org/apache/kafka/common/protocol/Errors.java``; a code is retriable exactly if its
exception class descends from ``RetriableException``. The advice is kproxy's.

Which codes belong to a healthy conversation depends on the API that carries them and is not decided here.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

RETRY: Final = True
FINAL: Final = False


# One row per code is more readable than one line per argument.
# fmt: off
class ErrorCode(IntEnum):
    """One error code; its value is the int16 on the wire, its name that of the constant in ``Errors.java``.

    :ivar retriable: True if the Java client treats the exception as a ``RetriableException``; clients recover
        from several others too, for example by rejoining a group
    :ivar since: first Kafka release that has the code, under any name
    :ivar advice: one or two sentences: what it means in practice, what to do next
    """

    retriable: bool
    since: str
    advice: str

    def __new__(cls, code: int, retriable: bool, since: str, advice: str) -> ErrorCode:
        error = int.__new__(cls, code)
        error._value_ = code
        error.retriable, error.since, error.advice = retriable, since, advice
        return error

    UNKNOWN_SERVER_ERROR = (-1, FINAL, "0.8.0",
        ("An exception inside the broker that has no code of its own; only the broker log tells which. Look "
        "there before retrying: the same request often fails the same way (0.11 and down-conversion of "
        "record headers, for one)."))
    NONE = (0, FINAL, "0.8.0",
        "No error.")
    OFFSET_OUT_OF_RANGE = (1, FINAL, "0.8.0",
        ("The consumer asks for an offset that retention, compaction or truncation removed, or that was "
        "never written. It must pick a new position: auto.offset.reset does so, and whatever lay between is "
        "skipped or read again."))
    CORRUPT_MESSAGE = (2, RETRY, "0.8.0",
        ("The batch failed its checksum or was otherwise unreadable to the broker, often damaged on the way "
        "or by a broken client library. Send it again; if the same offset keeps failing on Fetch, the log "
        "on disk is damaged."))
    UNKNOWN_TOPIC_OR_PARTITION = (3, RETRY, "0.8.0",
        ("The broker knows no such topic or partition: just created, just deleted, misspelt, or hidden from "
        "a principal without Describe. Refresh metadata and back off; a deleted topic never comes back and "
        "makes consumers spin."))
    INVALID_FETCH_SIZE = (4, FINAL, "0.8.0",
        ("The byte limits in the Fetch make no sense to the broker, such as a negative size. Fix the "
        "client's fetch settings; a retry cannot help."))
    LEADER_NOT_AVAILABLE = (5, RETRY, "0.8.0",
        ("The partition has no leader at this moment: an election is running or every eligible replica is "
        "down. Back off and refresh metadata; if it lasts, look for dead brokers."))
    NOT_LEADER_OR_FOLLOWER = (6, RETRY, "0.8.0",
        ("This broker no longer leads the partition (or, for follower fetching, holds no replica). Normal "
        "after a leader change: refresh metadata and go to the new leader. If it repeats, two brokers "
        "disagree about who leads."))
    REQUEST_TIMED_OUT = (7, RETRY, "0.8.0",
        ("The broker gave up waiting, usually for followers to confirm an acks=all write or for the "
        "controller to act. The operation may still have taken effect, so retry only what is idempotent."))
    BROKER_NOT_AVAILABLE = (8, FINAL, "0.8.0",
        ("The broker or the controller behind it was not reachable for this request. Check that it is up and "
        "its listeners are right; mostly seen with old tools and brokers."))
    REPLICA_NOT_AVAILABLE = (9, RETRY, "0.8.0",
        ("A replica is offline or not caught up enough to be used. In Metadata it is only a hint and the "
        "leader can still be used; otherwise refresh metadata and try again."))
    MESSAGE_TOO_LARGE = (10, FINAL, "0.8.0",
        ("One batch is larger than message.max.bytes of the broker or topic. Raise that limit or send "
        "smaller batches: Java producers split a batch of many records and go on, a single large record "
        "fails for good."))
    STALE_CONTROLLER_EPOCH = (11, FINAL, "0.8.0",
        ("The request came from a controller that has been replaced since. The old controller must resign; "
        "nothing for a client to do."))
    OFFSET_METADATA_TOO_LARGE = (12, FINAL, "0.8.1",
        ("The metadata string sent with the committed offset is longer than offset.metadata.max.bytes. "
        "Shorten it; the offset was not stored."))
    NETWORK_EXCEPTION = (13, RETRY, "0.8.1",
        ("The connection broke before an answer came. Brokers do not normally send this code (in 0.8 it "
        "meant a stale leader epoch); clients raise it themselves, reconnect and try again."))
    COORDINATOR_LOAD_IN_PROGRESS = (14, RETRY, "0.8.2.0",
        ("The coordinator has just taken over the group or transactional ID and is still reading its log. "
        "Wait and repeat against the same broker; the group usually goes on in the same generation."))
    COORDINATOR_NOT_AVAILABLE = (15, RETRY, "0.8.2.0",
        ("No coordinator can be named: its internal topic is being created or the partition has no leader. "
        "Repeat FindCoordinator after a pause; if it never ends, check that __consumer_offsets or "
        "__transaction_state can be created."))
    NOT_COORDINATOR = (16, RETRY, "0.8.2.0",
        ("The coordinator moved to another broker. Ask FindCoordinator again and repeat there; seen for some "
        "seconds after a broker stops."))
    INVALID_TOPIC_EXCEPTION = (17, FINAL, "0.8.2.0",
        ("The topic name has forbidden characters, is too long, or may not be used this way (internal "
        "topic). Fix the name: some clients ask for it without pause otherwise."))
    RECORD_LIST_TOO_LARGE = (18, FINAL, "0.8.2.0",
        ("The record batch does not fit into one log segment (segment.bytes). Make batches smaller or "
        "segments larger."))
    NOT_ENOUGH_REPLICAS = (19, RETRY, "0.8.2.0",
        ("acks=all, but fewer replicas are in sync than min.insync.replicas; nothing was written. Producers "
        "retry until brokers return: find out why followers dropped out."))
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = (20, RETRY, "0.8.2.0",
        ("The leader wrote the batch, then the in-sync set shrank below min.insync.replicas. Retrying can "
        "write it twice unless the producer is idempotent."))
    INVALID_REQUIRED_ACKS = (21, FINAL, "0.9.0.0",
        "acks was something other than 0, 1 or -1. Fix the producer configuration.")
    ILLEGAL_GENERATION = (22, FINAL, "0.9.0.0",
        ("The member speaks for a generation that has passed: a rebalance finished without it, often because "
        "it paused too long. It must rejoin, and the offsets of this commit are lost."))
    INCONSISTENT_GROUP_PROTOCOL = (23, FINAL, "0.9.0.0",
        ("No assignor or protocol type is common to all members of the group. Align "
        "partition.assignment.strategy and roll one strategy at a time; Java stops here, librdkafka tries "
        "again every few seconds."))
    INVALID_GROUP_ID = (24, FINAL, "0.9.0.0",
        ("The group ID is empty or not allowed for this operation. Set group.id, or use the operation "
        "without a group."))
    UNKNOWN_MEMBER_ID = (25, FINAL, "0.9.0.0",
        ("The coordinator removed this member, mostly because its heartbeats stopped for longer than the "
        "session timeout. It must join anew with an empty member ID; look for pauses, GC or a slow poll "
        "loop."))
    INVALID_SESSION_TIMEOUT = (26, FINAL, "0.9.0.0",
        ("The session timeout lies outside group.min.session.timeout.ms and group.max.session.timeout.ms of "
        "the broker. Change the client's session.timeout.ms."))
    REBALANCE_IN_PROGRESS = (27, FINAL, "0.9.0.0",
        ("A rebalance has begun, and this is how members learn of it: send JoinGroup now. In SyncGroup it "
        "means that another rebalance overtook this one. A member that gets it again and again but never "
        "rejoins blocks its group."))
    INVALID_COMMIT_OFFSET_SIZE = (28, FINAL, "0.9.0.0",
        ("The offset commit is too large to be written as one batch to __consumer_offsets. Commit fewer "
        "partitions or less metadata at a time."))
    TOPIC_AUTHORIZATION_FAILED = (29, FINAL, "0.9.0.0",
        ("The principal lacks an ACL on the topic. Grant READ, WRITE or DESCRIBE as the request needs; "
        "repeating it changes nothing."))
    GROUP_AUTHORIZATION_FAILED = (30, FINAL, "0.9.0.0",
        "The principal lacks an ACL on the group. Consumers need READ on it, describing needs DESCRIBE.")
    CLUSTER_AUTHORIZATION_FAILED = (31, FINAL, "0.9.0.0",
        ("The principal lacks an ACL on the cluster, such as CREATE, ALTER or CLUSTER_ACTION. Idempotent "
        "producers met this before 2.8 for want of IDEMPOTENT_WRITE."))
    INVALID_TIMESTAMP = (32, FINAL, "0.10.0.0",
        ("The record's timestamp is further from the broker's clock than the topic allows "
        "(message.timestamp.*.max.ms). Check clocks and units: seconds sent as milliseconds are a classic."))
    UNSUPPORTED_SASL_MECHANISM = (33, FINAL, "0.10.0.0",
        ("The broker does not offer this SASL mechanism; the answer lists the ones it has. Change "
        "sasl.mechanism or enable it on that listener."))
    ILLEGAL_SASL_STATE = (34, FINAL, "0.10.0.0",
        ("A SASL message came when none was due, or another request came before authentication was done. "
        "Usually client and listener disagree about the security protocol."))
    UNSUPPORTED_VERSION = (35, FINAL, "0.10.0.0",
        ("The broker does not support this version of the API. To ApiVersions it answers so in v0 form and "
        "the client goes on with a lower version: a normal opening. Elsewhere client and broker have too "
        "little in common."))
    TOPIC_ALREADY_EXISTS = (36, FINAL, "0.10.1.0",
        ("A topic of that name exists already. Harmless where creation is meant to be repeatable; after a "
        "deletion wait until it has finished."))
    INVALID_PARTITIONS = (37, FINAL, "0.10.1.0",
        ("The partition count is zero, negative, or not larger than the present count, which can only grow. "
        "Ask for a valid number."))
    INVALID_REPLICATION_FACTOR = (38, FINAL, "0.10.1.0",
        ("The replication factor is below 1 or larger than the number of live brokers. Lower it or start "
        "more brokers; single-node clusters need 1 for the internal topics too."))
    INVALID_REPLICA_ASSIGNMENT = (39, FINAL, "0.10.1.0",
        ("The replica lists name unknown or repeated brokers, or leave gaps between partitions. Correct the "
        "assignment."))
    INVALID_CONFIG = (40, FINAL, "0.10.1.0",
        ("A configuration name or value was refused; the error message names it. Fix the value: repeating it "
        "changes nothing."))
    NOT_CONTROLLER = (41, RETRY, "0.10.1.0",
        ("Only the controller answers this, and this broker is not the one. Refresh metadata, take the "
        "controller from there and repeat."))
    INVALID_REQUEST = (42, FINAL, "0.10.1.0",
        ("The broker could read the request but not accept it: fields contradict each other or are missing. "
        "Mostly a client bug or a wrong combination of options; the broker log has the reason."))
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (43, FINAL, "0.10.1.0",
        ("The stored message format is too old for what is asked, for example a search by timestamp or an "
        "idempotent write to a v0 or v1 log. Upgrade the topic's message format."))
    POLICY_VIOLATION = (44, FINAL, "0.10.2.0",
        ("A policy of the operator (create.topic.policy or alter.config.policy) refused it. The message says "
        "which rule; change the request."))
    OUT_OF_ORDER_SEQUENCE_NUMBER = (45, FINAL, "0.11.0.0",
        ("A batch of this idempotent producer is missing: the sequence numbers have a gap. Without a "
        "transaction data may be lost; the producer must raise its epoch, and a transaction must be "
        "aborted."))
    DUPLICATE_SEQUENCE_NUMBER = (46, FINAL, "0.11.0.0",
        ("The broker has this sequence already but its batch is no longer among the last five it remembers. "
        "Nothing is lost: count the batch as written."))
    INVALID_PRODUCER_EPOCH = (47, FINAL, "0.11.0.0",
        ("The producer's epoch is older than the one on the broker: a newer instance with the same "
        "transactional ID has taken over, or the transaction timed out. Abort; if a second instance runs, "
        "stop one of them."))
    INVALID_TXN_STATE = (48, FINAL, "0.11.0.0",
        ("The transaction is not in a state that permits this step, such as committing before anything "
        "began. Usually a client bug or a lost earlier error; abort and start again."))
    INVALID_PRODUCER_ID_MAPPING = (49, FINAL, "0.11.0.0",
        ("The transactional ID is tied to another producer ID, or was forgotten after "
        "transactional.id.expiration.ms. Call InitProducerId again."))
    INVALID_TRANSACTION_TIMEOUT = (50, FINAL, "0.11.0.0",
        ("The producer's transaction.timeout.ms is larger than transaction.max.timeout.ms of the broker. "
        "Lower it or raise the limit."))
    CONCURRENT_TRANSACTIONS = (51, RETRY, "0.11.0.0",
        ("The previous transaction of this ID is still being completed. Wait some milliseconds and repeat: "
        "common right after EndTxn, worrying only if it lasts."))
    TRANSACTION_COORDINATOR_FENCED = (52, FINAL, "0.11.0.0",
        ("The transaction coordinator that wrote these markers has been replaced. Between brokers only; the "
        "new coordinator will write them."))
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = (53, FINAL, "0.11.0.0",
        "The principal lacks an ACL on the transactional ID. Grant WRITE (and DESCRIBE) on it.")
    SECURITY_DISABLED = (54, FINAL, "0.11.0.0",
        ("The broker has no authorizer, so ACLs can be neither read nor changed. Configure "
        "authorizer.class.name."))
    OPERATION_NOT_ATTEMPTED = (55, FINAL, "0.11.0.0",
        ("The broker skipped this item because another in the same request failed. Look at the others for "
        "the cause and repeat this one."))
    KAFKA_STORAGE_ERROR = (56, RETRY, "1.0.0",
        ("The disk or log directory under the partition has failed, and the broker gave up its replicas "
        "there. Refresh metadata and use another replica; the broker needs attention."))
    LOG_DIR_NOT_FOUND = (57, FINAL, "1.0.0",
        "The path named in the request is not one of the broker's log.dirs. Correct the path.")
    SASL_AUTHENTICATION_FAILED = (58, FINAL, "1.0.0",
        ("The credentials were refused. Check user, password, token and mechanism; clients that reconnect in "
        "a loop here can look like an attack."))
    UNKNOWN_PRODUCER_ID = (59, FINAL, "1.0.0",
        ("The broker remembers nothing of this producer ID, mostly because its records have expired. Old "
        "clients fail, newer ones reset their sequence and go on."))
    REASSIGNMENT_IN_PROGRESS = (60, FINAL, "1.0.0",
        "The partition is already being moved. Wait for the reassignment to finish or cancel it first.")
    DELEGATION_TOKEN_AUTH_DISABLED = (61, FINAL, "1.1.0",
        ("Delegation tokens are switched off: the brokers have no delegation.token.secret.key. Set it to the "
        "same value everywhere."))
    DELEGATION_TOKEN_NOT_FOUND = (62, FINAL, "1.1.0",
        ("No token with this HMAC or ID exists: it expired, was removed, or belongs to another cluster. "
        "Request a new one."))
    DELEGATION_TOKEN_OWNER_MISMATCH = (63, FINAL, "1.1.0",
        "The principal is neither owner nor listed renewer of the token. Act as one of them.")
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = (64, FINAL, "1.1.0",
        ("Tokens can be handled only over a connection that proves who the client is, and not by a client "
        "that itself logged in with a token. Use Kerberos, SCRAM or mutual TLS."))
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = (65, FINAL, "1.1.0",
        ("The principal may not act on this delegation token or on behalf of that user. Grant DESCRIBE on "
        "the token, or CREATE_TOKENS on the user."))
    DELEGATION_TOKEN_EXPIRED = (66, FINAL, "1.1.0",
        "The token's lifetime has passed. Request a new one; renewing no longer works.")
    INVALID_PRINCIPAL_TYPE = (67, FINAL, "1.1.0",
        "The principal type is not accepted here; only User is. Write it as User:name.")
    NON_EMPTY_GROUP = (68, FINAL, "1.1.0",
        ("The group still has members, so it cannot be deleted or its offsets changed. Stop its consumers or "
        "wait out the session timeout."))
    GROUP_ID_NOT_FOUND = (69, FINAL, "1.1.0",
        ("The coordinator has no group of this name, or only one of another kind. Check the spelling, and "
        "whether the group's offsets expired."))
    FETCH_SESSION_ID_NOT_FOUND = (70, RETRY, "1.1.0",
        ("The broker dropped this fetch session to make room, or restarted. The client opens a new one with "
        "a full fetch; frequent cases mean max.incremental.fetch.session.cache.slots is too small."))
    INVALID_FETCH_SESSION_EPOCH = (71, RETRY, "1.1.0",
        ("The session epoch is not the next one, so a request or answer of the session was lost. The client "
        "closes the session and begins with a full fetch."))
    LISTENER_NOT_FOUND = (72, RETRY, "2.0.0",
        ("The leader has no listener of the name the client came through. Seen while brokers with new "
        "listeners are being rolled in; otherwise align listener names."))
    TOPIC_DELETION_DISABLED = (73, FINAL, "2.1.0",
        "delete.topic.enable is false on the brokers. Turn it on to delete topics.")
    FENCED_LEADER_EPOCH = (74, RETRY, "2.1.0",
        ("The client knows an older leader epoch than the broker: its metadata is stale. Refresh metadata, "
        "then check the position with OffsetForLeaderEpoch if it may have been truncated."))
    UNKNOWN_LEADER_EPOCH = (75, RETRY, "2.1.0",
        ("The client knows a newer leader epoch than this broker, which has not heard of the election yet. "
        "Try again shortly or at another broker."))
    UNSUPPORTED_COMPRESSION_TYPE = (76, FINAL, "2.1.0",
        ("The batches are compressed with a codec that this request version must not carry: zstd to a fetch "
        "before v10 or in a produce before v7. Upgrade the client or choose another codec."))
    STALE_BROKER_EPOCH = (77, FINAL, "2.2.0",
        ("The broker restarted and its earlier epoch no longer counts. The controller's next request carries "
        "the new one; between brokers only."))
    OFFSET_NOT_AVAILABLE = (78, RETRY, "2.2.0",
        ("A new leader does not know its high watermark yet and withholds offsets that could go backwards. "
        "Repeat after a short pause."))
    MEMBER_ID_REQUIRED = (79, FINAL, "2.2.0",
        ("The coordinator handed out a member ID and wants JoinGroup again with it. Normal on every first "
        "join since 2.2 (KIP-394); static members skip this step."))
    PREFERRED_LEADER_NOT_AVAILABLE = (80, RETRY, "2.2.0",
        ("The preferred replica is down or not in sync, so it cannot be elected. Bring the broker back and "
        "repeat."))
    GROUP_MAX_SIZE_REACHED = (81, FINAL, "2.2.0",
        ("The group has group.max.size members. Start fewer consumers or raise the limit: Java fails here, "
        "librdkafka asks again every few seconds."))
    FENCED_INSTANCE_ID = (82, FINAL, "2.3.0",
        ("Another consumer joined with the same group.instance.id, and this older one is out. It must stop: "
        "give each instance its own ID and look for a duplicate deployment."))
    ELIGIBLE_LEADERS_NOT_AVAILABLE = (83, RETRY, "2.4.0",
        ("No replica that could lead is alive, so the election was not held. Bring a replica back, or accept "
        "data loss with an unclean election."))
    ELECTION_NOT_NEEDED = (84, RETRY, "2.4.0",
        "The partition already has the leader that the election would give it. Nothing to do.")
    NO_REASSIGNMENT_IN_PROGRESS = (85, FINAL, "2.4.0",
        "There is no reassignment to cancel or describe for this partition. Nothing to do.")
    GROUP_SUBSCRIBED_TO_TOPIC = (86, FINAL, "2.4.0",
        ("A member still subscribes to the topic, so its offsets cannot be deleted. Stop those consumers or "
        "unsubscribe first."))
    INVALID_RECORD = (87, FINAL, "2.4.0",
        ("The broker refused records for their content, for instance no key on a compacted topic. The "
        "answer's record_errors name them; repeating fails again."))
    UNSTABLE_OFFSET_COMMIT = (88, RETRY, "2.5.0",
        ("An open transaction has offsets pending for this group. Repeat until it ends, at the latest when "
        "the transaction times out."))
    THROTTLING_QUOTA_EXCEEDED = (89, RETRY, "2.7.0",
        ("More topic or partition changes were asked than the controller quota permits. Wait "
        "throttle_time_ms and repeat."))
    PRODUCER_FENCED = (90, FINAL, "2.7.0",
        ("A newer producer with the same transactional ID has fenced this one. This instance must close for "
        "good; if both are wanted, give them different IDs."))
    RESOURCE_NOT_FOUND = (91, FINAL, "2.7.0",
        ("The request names something that does not exist, such as a SCRAM user without credentials. Check "
        "the name."))
    DUPLICATE_RESOURCE = (92, FINAL, "2.7.0",
        "The same resource occurs twice in one request. Remove the repetition.")
    UNACCEPTABLE_CREDENTIAL = (93, FINAL, "2.7.0",
        ("The SCRAM credential is unfit: too few or too many iterations, or an empty user name. Choose other "
        "values."))
    INCONSISTENT_VOTER_SET = (94, FINAL, "2.7.0",
        ("Sender or receiver is not in the set of voters that the other one believes in. Compare "
        "controller.quorum settings of all controllers."))
    INVALID_UPDATE_VERSION = (95, FINAL, "2.7.0",
        ("AlterPartition: the partition changed in the meantime, and the leader tries again with the new "
        "partition epoch. UpdateFeatures: the level is out of the supported range."))
    FEATURE_UPDATE_FAILED = (96, FINAL, "2.7.0",
        ("The feature level was refused: some broker does not support it, or the downgrade would lose data. "
        "Compare the supported ranges of all nodes."))
    PRINCIPAL_DESERIALIZATION_FAILURE = (97, FINAL, "2.8.0",
        ("The controller could not read the principal that a broker forwarded. Use the same "
        "principal.builder.class on all nodes."))
    SNAPSHOT_NOT_FOUND = (98, FINAL, "2.8.0",
        ("The snapshot is gone, replaced by a newer one. The follower goes back to Fetch and learns which "
        "snapshot to take."))
    POSITION_OUT_OF_RANGE = (99, FINAL, "2.8.0",
        "The byte position lies outside the snapshot. The follower must start its download again.")
    UNKNOWN_TOPIC_ID = (100, RETRY, "2.8.0",
        ("The broker does not know this topic ID: metadata has not arrived yet, or the topic was deleted and "
        "made anew. Refresh metadata; a recreated topic has another ID."))
    DUPLICATE_BROKER_REGISTRATION = (101, FINAL, "2.8.0",
        ("Another live broker has registered with this node ID. Give each node its own node.id, or wait "
        "until the session of the dead one has ended."))
    BROKER_ID_NOT_REGISTERED = (102, FINAL, "2.8.0",
        "The controller knows no broker of this ID. It must register first, or has been unregistered.")
    INCONSISTENT_TOPIC_ID = (103, RETRY, "2.8.0",
        ("The topic ID on disk differs from the one requested: the topic was deleted and created again. "
        "Refresh metadata; stray replicas on the broker may have to be removed."))
    INCONSISTENT_CLUSTER_ID = (104, FINAL, "2.8.0",
        ("The node or client belongs to another cluster. Check bootstrap addresses, and the cluster.id in "
        "meta.properties for servers."))
    TRANSACTIONAL_ID_NOT_FOUND = (105, FINAL, "3.0.0",
        "The coordinator has no such transactional ID: never used, or expired. Check the spelling.")
    FETCH_SESSION_TOPIC_ID_ERROR = (106, RETRY, "3.1.0",
        ("The session mixes topic names and topic IDs, as happens while versions change during an upgrade. "
        "The client opens a new session by itself."))
    INELIGIBLE_REPLICA = (107, FINAL, "3.3.0",
        ("A replica proposed for the in-sync set is fenced or shutting down. The leader leaves it out and "
        "tries later; between brokers only."))
    NEW_LEADER_ELECTED = (108, FINAL, "3.3.0",
        ("The change took effect and made another replica the leader. The former leader waits for new "
        "metadata; between brokers only."))
    OFFSET_MOVED_TO_TIERED_STORAGE = (109, FINAL, "3.5.0",
        ("The offset now lies in tiered storage, no longer on the leader's disk. The follower builds its "
        "state from the remote log; between brokers only."))
    FENCED_MEMBER_EPOCH = (110, FINAL, "3.5.0",
        ("The member epoch is no longer accepted: the coordinator has removed or replaced the member. It "
        "must drop all its partitions and join again with epoch 0 (KIP-848)."))
    UNRELEASED_INSTANCE_ID = (111, FINAL, "3.5.0",
        ("The instance ID still belongs to another member, and in the new protocol the newcomer is refused "
        "(KIP-848). Either two run with one ID, or the earlier one crashed and its session has not ended: "
        "wait and start again."))
    UNSUPPORTED_ASSIGNOR = (112, FINAL, "3.5.0",
        ("The broker does not offer the assignor that the member names. Use one of group.consumer.assignors, "
        "or leave it unset."))
    STALE_MEMBER_EPOCH = (113, FINAL, "3.6.0",
        ("The epoch in the commit or fetch lags behind: a heartbeat has just raised it. Normal now and then; "
        "repeat with the new epoch after the next heartbeat (KIP-848)."))
    MISMATCHED_ENDPOINT_TYPE = (114, FINAL, "3.7.0",
        ("The request reached a controller where a broker was meant, or the other way round. Use the "
        "matching --bootstrap-server or --bootstrap-controller."))
    UNSUPPORTED_ENDPOINT_TYPE = (115, FINAL, "3.7.0",
        ("The server does not answer for that kind of endpoint. Ask for brokers on a broker listener; old "
        "servers know nothing else."))
    UNKNOWN_CONTROLLER_ID = (116, FINAL, "3.7.0",
        ("The controller named is not part of the quorum as this node knows it. Check the node ID and the "
        "list of voters."))
    UNKNOWN_SUBSCRIPTION_ID = (117, FINAL, "3.7.0",
        ("The metrics subscription changed or was never taken. The client calls GetTelemetrySubscriptions "
        "again and pushes under the new ID."))
    TELEMETRY_TOO_LARGE = (118, FINAL, "3.7.0",
        ("The metrics are larger than telemetry.max.bytes. The client sends less next time; or raise the "
        "limit or subscribe to fewer metrics."))
    INVALID_REGISTRATION = (119, FINAL, "3.7.0",
        ("The controller refused the registration, for instance for missing features or log directories. The "
        "controller log has the reason."))
    TRANSACTION_ABORTABLE = (120, FINAL, "3.8.0",
        ("The transaction can no longer succeed, but the producer is still good. Abort it, then begin "
        "another (KIP-890)."))
    INVALID_RECORD_STATE = (121, FINAL, "3.9.0",
        ("The record is no longer acquired by this member: its lock expired or it was acknowledged before. "
        "It will be delivered again; process faster or renew the lock."))
    SHARE_SESSION_NOT_FOUND = (122, RETRY, "3.9.0",
        ("The broker has no such share session: the connection was lost or the session removed. The client "
        "opens a new one with epoch 0."))
    INVALID_SHARE_SESSION_EPOCH = (123, RETRY, "3.9.0",
        ("The share session epoch is not the next one, so request and broker have lost step. The client "
        "opens a new session with epoch 0."))
    FENCED_STATE_EPOCH = (124, FINAL, "3.9.0",
        ("The share-partition's state was initialised anew with a higher state epoch, by an offset reset for "
        "instance. Its leader drops what it holds and reads the state again; between brokers only."))
    INVALID_VOTER_KEY = (125, FINAL, "3.9.0",
        ("The directory ID of the voter is not the one expected, as after reformatting its disk. Compare "
        "directory.id in meta.properties with the voter set."))
    DUPLICATE_VOTER = (126, FINAL, "3.9.0",
        ("The controller to be added already is a voter. Nothing to do, or remove its former incarnation "
        "first."))
    VOTER_NOT_FOUND = (127, FINAL, "3.9.0",
        ("The controller to be removed or updated is not a voter. Check ID and directory ID with the quorum "
        "tool."))
    INVALID_REGULAR_EXPRESSION = (128, FINAL, "4.0.0",
        ("The broker's RE2/J engine cannot read the subscription pattern. Rewrite it: look-around and "
        "back-references do not exist there."))
    REBOOTSTRAP_REQUIRED = (129, FINAL, "4.0.0",
        ("The broker tells the client that its view of the cluster is beyond repair. Start again from "
        "bootstrap.servers (KIP-1102)."))
    STREAMS_INVALID_TOPOLOGY = (130, FINAL, "4.1.0",
        ("The coordinator refused the topology, for instance because sub-topologies contradict each other. "
        "Fix the Streams application."))
    STREAMS_INVALID_TOPOLOGY_EPOCH = (131, FINAL, "4.1.0",
        ("The topology epoch is not one that can be accepted now. It must start at 0 and agree within the "
        "group."))
    STREAMS_TOPOLOGY_FENCED = (132, FINAL, "4.1.0",
        ("The member describes an older topology than the group has. Restart it with the current application "
        "version."))
    SHARE_SESSION_LIMIT_REACHED = (133, RETRY, "4.1.0",
        ("The broker holds group.share.max.share.sessions sessions already. Wait for others to end, or raise "
        "the limit."))
    GROUP_DELETION_FAILED = (134, FINAL, "4.4.0",
        ("The group could not be removed completely; the message with its result says why. Repair that and "
        "delete it again."))
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = (135, FINAL, "4.4.0",
        ("The broker's plugin could not store the description of the topology. Diagnostic data only, the "
        "application runs on; see the message and broker log."))
    CONTROLLER_ID_NOT_REGISTERED = (136, FINAL, "4.4.0",
        ("The quorum knows no controller registration of this ID. Check the ID, or nothing is left to "
        "unregister."))
# fmt: on

BY_CODE: Final[dict[int, ErrorCode]] = {int(error): error for error in ErrorCode}
"""Wire value -> error."""

COORDINATOR_AWAY: Final = frozenset({
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR,
})  # fmt: skip
"""Errors after which clients look for the coordinator and retry after a pause."""

FORMER_NAMES: Final[dict[str, ErrorCode]] = {
    "UNKNOWN": ErrorCode.UNKNOWN_SERVER_ERROR,
    "NOT_LEADER_FOR_PARTITION": ErrorCode.NOT_LEADER_OR_FOLLOWER,
    "GROUP_LOAD_IN_PROGRESS": ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    "GROUP_COORDINATOR_NOT_AVAILABLE": ErrorCode.COORDINATOR_NOT_AVAILABLE,
    "NOT_COORDINATOR_FOR_GROUP": ErrorCode.NOT_COORDINATOR,
}
"""Name in older releases (0.8.1 to 2.5) and some client libraries -> error."""

BY_NAME: Final[dict[str, ErrorCode]] = {**ErrorCode.__members__, **FORMER_NAMES}
"""Current and former names -> error."""


def error_name(code: int) -> str:
    """Return the name of `code`, or ``UNKNOWN_CODE_<code>`` if this table lacks it.

    An unknown code does not mean malformed bytes: a newer broker may send one.
    """
    error = BY_CODE.get(code)
    return error.name if error is not None else f"UNKNOWN_CODE_{code}"
