"""Records of ``__cluster_metadata``, the log of a KRaft cluster's controllers."""

from dissectors.domains import (
    BROKER_EPOCH,
    BROKER_FENCING_CHANGE,
    CONFIG_RESOURCE_TYPE,
    CONTROLLED_SHUTDOWN_CHANGE,
    LEADER_CHANGE,
    LEADER_EPOCH,
    LEADER_ID,
    LEADER_RECOVERY_STATE,
    PATTERN_TYPE,
    PRODUCER_ID,
    RESOURCE_TYPE,
    SCRAM_MECHANISM,
    TIMESTAMP_MS,
    ZK_MIGRATION_STATE,
)
from dissectors.entities import BrokerId, ProducerId, TopicName
from dissectors.schema import (
    Array,
    Bool,
    Bytes,
    EarlierLayout,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    String,
    Uuid,
)
from dissectors.structs import AclRule, Listener, QuotaEntity, SupportedFeature

RegisterBrokerRecord = Message(
    "RegisterBrokerRecord", 0, "data", "0-4", "0+",
    "broker_id" / BrokerId * "broker id",
    "is_migrating_zk_broker" / Bool @ "2+" * "true = a ZooKeeper-mode broker in a migration (KIP-866)",
    "incarnation_id" / Uuid * "random id of this run of the broker process",
    "broker_epoch" / Int64.of(BROKER_EPOCH) * "epoch that the controller gave to this registration",
    "end_points" / Array(Listener) * "listeners",
    "features" / Array(SupportedFeature) * "features that the node supports",
    "rack" / String.null() * "broker.rack; null = none",
    "fenced" / Bool.default(True) * "true = fenced: no partition leader, hidden from clients",
    "in_controlled_shutdown" / Bool @ "1+" * "true = broker is in controlled shutdown",
    "log_dirs" / Array(Uuid).tag(0) @ "3+" * "ids of the log directories that are online (KIP-858)",
    "cordoned_log_dirs" / Array(Uuid).null().tag(1).default(None) @ "4+" * "ids of log directories that get no new replicas (KIP-1066); null = none",
    older=(EarlierLayout("0", "none", without=("fenced",)),),
)

UnregisterBrokerRecord = Message(
    "UnregisterBrokerRecord", 1, "data", "0", "0+",
    "broker_id" / BrokerId * "broker id",
    "broker_epoch" / Int64.of(BROKER_EPOCH) * "epoch of the registration that is removed",
    older=(EarlierLayout("0", "none"),),
)

TopicRecord = Message(
    "TopicRecord", 2, "data", "0", "0+",
    "name" / TopicName * "topic name",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    older=(EarlierLayout("0", "none"),),
)

PartitionRecord = Message(
    "PartitionRecord", 3, "data", "0-2", "0+",
    "partition_id" / Int32.default(-1) * "partition index",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "replicas" / Array(BrokerId) * "broker ids of the replicas, preferred leader first",
    "isr" / Array(BrokerId) * "replicas in sync",
    "removing_replicas" / Array(BrokerId) * "replicas to be removed by a reassignment",
    "adding_replicas" / Array(BrokerId) * "replicas to be added by a reassignment",
    "leader" / BrokerId.of(LEADER_ID).default(-1) * "broker id of the leader; -1 = none",
    "leader_epoch" / Int32.of(LEADER_EPOCH).default(-1) * "leader epoch; rises with each new leader",
    "partition_epoch" / Int32.default(-1) * "rises with every change of the partition",
    "directories" / Array(Uuid) @ "1+" * "log directory id of each replica, in the order of replicas (KIP-858)",
    "leader_recovery_state" / Int8.of(LEADER_RECOVERY_STATE).tag(0) * "0 recovered, 1 recovering from an unclean election",
    "eligible_leader_replicas" / Array(BrokerId).null().tag(1).default(None) @ "2+" * "replicas out of the ISR that may still lead without loss (KIP-966); null = none",
    "last_known_elr" / Array(BrokerId).null().tag(2).default(None) @ "2+" * "last known members of the ELR (KIP-966); null = none",
    older=(
        EarlierLayout("0", "none", without=("leader_recovery_state",), instead={
            "removing_replicas": ("removing_replicas" / Array(BrokerId).null() * "replicas to be removed by a reassignment",),
            "adding_replicas": ("adding_replicas" / Array(BrokerId).null() * "replicas to be added by a reassignment",),
        }),
    ),
)

ConfigRecord = Message(
    "ConfigRecord", 4, "data", "0", "0+",
    "resource_type" / Int8.of(CONFIG_RESOURCE_TYPE) * "2 topic, 4 broker, 16 client metrics, 32 group",
    "resource_name" / String * "topic, broker id, ...; empty broker = default for all brokers",
    "name" / String * "config name",
    "value" / String.holds("config_value").null() * "config value; null = removed",
    older=(EarlierLayout("0", "none", instead={"value": ("value" / String.holds("config_value") * "config value",)}),),
)

PartitionChangeRecord = Message(
    "PartitionChangeRecord", 5, "data", "0-2", "0+",
    "partition_id" / Int32.default(-1) * "partition index",
    "topic_id" / Uuid.holds("topic_id") * "topic id",
    "isr" / Array(BrokerId).null().tag(0).default(None) * "new in-sync replicas; null = no change",
    "leader" / BrokerId.of(LEADER_CHANGE).tag(1).default(-2) * "broker id of the new leader; -1 = none, -2 = no change",
    "replicas" / Array(BrokerId).null().tag(2).default(None) * "new replicas; null = no change",
    "removing_replicas" / Array(BrokerId).null().tag(3).default(None) * "replicas to be removed by a reassignment; null = no change",
    "adding_replicas" / Array(BrokerId).null().tag(4).default(None) * "replicas to be added by a reassignment; null = no change",
    "leader_recovery_state" / Int8.of(LEADER_RECOVERY_STATE).tag(5).default(-1) * "0 recovered, 1 recovering from an unclean election, -1 no change",
    "eligible_leader_replicas" / Array(BrokerId).null().tag(6).default(None) @ "2+" * "new eligible leader replicas (KIP-966); null = no change",
    "last_known_elr" / Array(BrokerId).null().tag(7).default(None) @ "2+" * "last known members of the ELR (KIP-966); null = no change",
    "directories" / Array(Uuid).null().tag(8).default(None) @ "1+" * "log directory id of each replica, in the order of replicas (KIP-858); null = no change",
)

AccessControlRecord = Message(
    "AccessControlRecord", 6, "data", "0", "0+",
    "resource_type" / Int8.of(RESOURCE_TYPE) * "2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user",
    "resource_name" / String.null() * "name or prefix of the resource; null = none",
    "pattern_type" / Int8.of(PATTERN_TYPE) * "3 literal, 4 prefixed",
    *AclRule.fields,
)

FenceBrokerRecord = Message(
    "FenceBrokerRecord", 7, "data", "0", "0+",
    "id" / BrokerId * "broker id",
    "epoch" / Int64 * "epoch of the broker's registration",
    older=(EarlierLayout("0", "none"),),
)

UnfenceBrokerRecord = Message(
    "UnfenceBrokerRecord", 8, "data", "0", "0+",
    "id" / BrokerId * "broker id",
    "epoch" / Int64 * "epoch of the broker's registration",
    older=(EarlierLayout("0", "none"),),
)

RemoveTopicRecord = Message(
    "RemoveTopicRecord", 9, "data", "0", "0+",
    "topic_id" / Uuid.holds("topic_id") * "id of the deleted topic",
    older=(EarlierLayout("0", "none"),),
)

DelegationTokenRecord = Message(
    "DelegationTokenRecord", 10, "data", "0", "0+",
    "owner" / String * "principal that the token stands for",
    "requester" / String * "principal that asked for the token (KIP-373)",
    "renewers" / Array(String) * "principals that may renew it besides the owner",
    "issue_timestamp" / Int64.of(TIMESTAMP_MS) * "when it was made, ms since 1970",
    "max_timestamp" / Int64.of(TIMESTAMP_MS) * "time after which it cannot be renewed, ms since 1970",
    "expiration_timestamp" / Int64.of(TIMESTAMP_MS) * "when it expires unless renewed, ms since 1970",
    "token_id" / String * "token id (not secret; the HMAC is not stored)",
    older=(EarlierLayout("0", "0+", without=("requester",)), EarlierLayout("0", "none", without=("requester",)),),
)

_UserScramCredentialRecordUntil34 = Message(
    "UserScramCredentialRecord", 11, "data", "0", "0+",
    "name" / String * "user name",
    "credential_infos" / Array(
        "mechanism" / Int8.of(SCRAM_MECHANISM) * "SCRAM mechanism",
        "salt" / Bytes.secret() * "random salt of the credential",
        "salted_password" / Bytes.secret() * "salted and hashed password",
        "iterations" / Int32 * "hash iterations",
    ) * "credentials, one per mechanism",
    older=(EarlierLayout("0", "none"),),
)

UserScramCredentialRecord = Message(
    "UserScramCredentialRecord", 11, "data", "0", "0+",
    "name" / String * "user name",
    "mechanism" / Int8.of(SCRAM_MECHANISM) * "1 SCRAM-SHA-256, 2 SCRAM-SHA-512",
    "salt" / Bytes.secret() * "random salt",
    "stored_key" / Bytes.secret() * "stored key of SCRAM (secret)",
    "server_key" / Bytes.secret() * "server key of SCRAM (secret)",
    "iterations" / Int32 * "number of hash iterations",
    older=(_UserScramCredentialRecordUntil34, *_UserScramCredentialRecordUntil34.older),
)

_FeatureLevelRecordUntil32 = Message(
    "FeatureLevelRecord", 12, "data", "0", "0+",
    "name" / String * "feature, e.g. metadata.version, group.version, transaction.version",
    "min_feature_level" / Int16 * "lowest finalized level",
    "max_feature_level" / Int16 * "highest finalized level",
    older=(EarlierLayout("0", "none"),),
)

FeatureLevelRecord = Message(
    "FeatureLevelRecord", 12, "data", "0", "0+",
    "name" / String * "feature, e.g. metadata.version, group.version, transaction.version",
    "feature_level" / Int16.holds("feature_level") * "finalized level; 0 = feature off",
    older=(_FeatureLevelRecordUntil32, *_FeatureLevelRecordUntil32.older),
)

ClientQuotaRecord = Message(
    "ClientQuotaRecord", 14, "data", "0", "0+",
    "entity" / Array(QuotaEntity) * "who the quota is for, one entry for each part",
    "key" / String * "quota, e.g. producer_byte_rate, consumer_byte_rate, request_percentage",
    "value" / Float64 * "limit in the unit of the key",
    "remove" / Bool * "true = the quota was removed, value does not count",
)

ProducerIdsRecord = Message(
    "ProducerIdsRecord", 15, "data", "0", "0+",
    "broker_id" / BrokerId * "broker that got the block",
    "broker_epoch" / Int64.of(BROKER_EPOCH).default(-1) * "epoch of the broker's registration; -1 = none",
    "next_producer_id" / ProducerId.of(PRODUCER_ID) * "first producer id of the next block",
)

RemoveFeatureLevelRecord = Message(
    "RemoveFeatureLevelRecord", 16, "data", "0", "0+",
    "name" / String * "feature that is removed",
)

BrokerRegistrationChangeRecord = Message(
    "BrokerRegistrationChangeRecord", 17, "data", "0-3", "0+",
    "broker_id" / BrokerId * "broker that changed",
    "broker_epoch" / Int64.of(BROKER_EPOCH) * "epoch of the broker's registration",
    "fenced" / Int8.of(BROKER_FENCING_CHANGE).tag(0) * "1 = fenced, -1 = unfenced, 0 = no change",
    "in_controlled_shutdown" / Int8.of(CONTROLLED_SHUTDOWN_CHANGE).tag(1) @ "1+" * "1 = controlled shutdown has begun, 0 = no change",
    "log_dirs" / Array(Uuid).tag(2) @ "2+" * "ids of the log directories that are online (KIP-858); empty = no change",
    "cordoned_log_dirs" / Array(Uuid).null().tag(3).default(None) @ "3+" * "ids of log directories that get no new replicas (KIP-1066); null = no change",
)

AccessControlEntryRecord = Message(
    "AccessControlEntryRecord", 18, "data", "0", "0+",
    "id" / Uuid * "id of the ACL, by which it is removed later",
    "resource_type" / Int8.of(RESOURCE_TYPE) * "2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user",
    "resource_name" / String * "name or prefix of the resource, * = all",
    "pattern_type" / Int8.of(PATTERN_TYPE) * "3 literal, 4 prefixed",
    *AclRule.fields,
)

RemoveAccessControlEntryRecord = Message(
    "RemoveAccessControlEntryRecord", 19, "data", "0", "0+",
    "id" / Uuid * "id of the ACL (see AccessControlEntryRecord)",
)

NoOpRecord = Message(
    "NoOpRecord", 20, "data", "0", "0+",

)

ZkMigrationStateRecord = Message(
    "ZkMigrationStateRecord", 21, "data", "0", "0+",
    "zk_migration_state" / Int8.of(ZK_MIGRATION_STATE) * "0 none, 1 pre-migration, 2 migration, 3 post-migration",
)

RemoveUserScramCredentialRecord = Message(
    "RemoveUserScramCredentialRecord", 22, "data", "0", "0+",
    "name" / String * "user name",
    "mechanism" / Int8.of(SCRAM_MECHANISM) * "1 SCRAM-SHA-256, 2 SCRAM-SHA-512",
)

BeginTransactionRecord = Message(
    "BeginTransactionRecord", 23, "data", "0", "0+",
    "name" / String.null().tag(0).default(None) * "what the transaction is for; null = no name",
)

EndTransactionRecord = Message(
    "EndTransactionRecord", 24, "data", "0", "0+",

)

AbortTransactionRecord = Message(
    "AbortTransactionRecord", 25, "data", "0", "0+",
    "reason" / String.null().tag(0).default(None) * "why the transaction was given up; null = not given",
)

RemoveDelegationTokenRecord = Message(
    "RemoveDelegationTokenRecord", 26, "data", "0", "0+",
    "token_id" / String * "token that is removed",
)

RegisterControllerRecord = Message(
    "RegisterControllerRecord", 27, "data", "0", "0+",
    "controller_id" / BrokerId * "node id of the controller",
    "incarnation_id" / Uuid * "random id of this run of the controller process",
    "zk_migration_ready" / Bool * "true = ready for the migration from ZooKeeper (KIP-866)",
    "end_points" / Array(Listener) * "listeners",
    "features" / Array(SupportedFeature) * "features that the node supports",
)

ClearElrRecord = Message(
    "ClearElrRecord", 28, "data", "0", "0+",
    "topic_name" / TopicName * "topic whose ELR is cleared; empty = all topics",
)

UnregisterControllerRecord = Message(
    "UnregisterControllerRecord", 29, "data", "0", "0+",
    "controller_id" / BrokerId * "node id of the controller",
)
