"""Libraries' own names of settings, and the notation of values in their configurations.

Java, librdkafka and libraries built on it use properties. The Python libraries use keyword arguments, the Go and
JavaScript ones fields, options and functions: their settings have the library's own names, and durations are written as
their configurations expect them.
"""

from __future__ import annotations

from captures.analysis.clients import libraries
from captures.analysis.clients.settings import Value

_LIBRDKAFKA = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "metadata.max.age.ms": "topic.metadata.refresh.interval.ms",
}
_AIOKAFKA = {"max.poll.interval.ms": "rebalance_timeout_ms", "batch.size": "max_batch_size"}
_COLUMNS = (libraries.SARAMA, libraries.FRANZ_GO, libraries.KAFKA_GO, libraries.KAFKAJS)
_OWN_NAMES = {
    "client.id": ("ClientID", "ClientID", "Dialer.ClientID", "clientId"),
    "sasl.mechanism": ("Net.SASL.Mechanism", "SASL", "SASLMechanism", "sasl.mechanism"),
    "metadata.max.age.ms": ("Metadata.RefreshFrequency", "MetadataMaxAge", "", "metadataMaxAge"),
    "retry.backoff.ms": ("Metadata.Retry.Backoff", "RetryBackoffFn", "", "retry.initialRetryTime"),
    "connections.max.idle.ms": ("", "ConnIdleTimeout", "", ""),
    "group.id": ("", "ConsumerGroup", "GroupID", "groupId"),
    "group.instance.id": ("Consumer.Group.InstanceId", "InstanceID", "", ""),
    "session.timeout.ms": ("Consumer.Group.Session.Timeout", "SessionTimeout", "SessionTimeout", "sessionTimeout"),
    "heartbeat.interval.ms": (
        "Consumer.Group.Heartbeat.Interval", "HeartbeatInterval", "HeartbeatInterval", "heartbeatInterval",
    ),
    "max.poll.interval.ms": (
        "Consumer.Group.Rebalance.Timeout", "RebalanceTimeout", "RebalanceTimeout", "rebalanceTimeout",
    ),
    "partition.assignment.strategy": (
        "Consumer.Group.Rebalance.GroupStrategies", "Balancers", "GroupBalancers", "partitionAssigners",
    ),
    "enable.auto.commit": ("Consumer.Offsets.AutoCommit.Enable", "", "", "autoCommit"),
    "auto.commit.interval.ms": (
        "Consumer.Offsets.AutoCommit.Interval", "AutoCommitInterval", "CommitInterval", "autoCommitInterval",
    ),
    "client.rack": ("RackID", "Rack", "", "rackId"),
    "isolation.level": ("Consumer.IsolationLevel", "FetchIsolationLevel", "IsolationLevel", ""),
    "fetch.min.bytes": ("Consumer.Fetch.Min", "FetchMinBytes", "MinBytes", "minBytes"),
    "fetch.max.wait.ms": ("Consumer.MaxWaitTime", "FetchMaxWait", "MaxWait", "maxWaitTimeInMs"),
    "fetch.max.bytes": ("", "FetchMaxBytes", "MaxBytes", "maxBytes"),
    "max.partition.fetch.bytes": ("Consumer.Fetch.Default", "FetchMaxPartitionBytes", "", "maxBytesPerPartition"),
    "allow.auto.create.topics": (
        "Metadata.AllowAutoTopicCreation", "AllowAutoTopicCreation", "", "allowAutoTopicCreation",
    ),
    "acks": ("Producer.RequiredAcks", "RequiredAcks", "RequiredAcks", "acks"),
    "enable.idempotence": ("Producer.Idempotent", "", "", "idempotent"),
    "request.timeout.ms": ("Producer.Timeout", "ProduceRequestTimeout", "WriteTimeout", "timeout"),
    "compression.type": ("Producer.Compression", "ProducerBatchCompression", "Compression", "compression"),
    "linger.ms": ("Producer.Flush.Frequency", "ProducerLinger", "BatchTimeout", ""),
    "batch.size": ("Producer.Flush.Bytes", "ProducerBatchMaxBytes", "BatchBytes", ""),
    "transactional.id": ("Producer.Transaction.ID", "TransactionalID", "", "transactionalId"),
    "transaction.timeout.ms": ("Producer.Transaction.Timeout", "TransactionTimeout", "", "transactionTimeout"),
}  # fmt: skip
"""Setting -> its names in the libraries of :data:`_COLUMNS`; empty if it has none of its own there."""
_NAMES = {
    libraries.LIBRDKAFKA: _LIBRDKAFKA,
    libraries.AIOKAFKA: _AIOKAFKA,
    **{
        library: {key: names[column] for key, names in _OWN_NAMES.items() if names[column]}
        for column, library in enumerate(_COLUMNS)
    },
}
_UNDERSCORED = frozenset({libraries.KAFKA_PYTHON, libraries.AIOKAFKA})
_GO = frozenset({libraries.SARAMA, libraries.FRANZ_GO, libraries.KAFKA_GO})
_ACKS_IN_NUMBERS = frozenset({libraries.KAFKAJS, libraries.SARAMA, libraries.KAFKA_GO})

_JAVA_ASSIGNORS = {
    "range": "RangeAssignor",
    "roundrobin": "RoundRobinAssignor",
    "sticky": "StickyAssignor",
    "cooperative-sticky": "CooperativeStickyAssignor",
}
_JAVA_PACKAGE = "org.apache.kafka.clients.consumer."


def own_name(library: str | None, key: str) -> str:
    """Return a library's name of a setting; the Java client's name if it has none of its own, or is unknown."""
    name = _NAMES.get(library or "", {}).get(key)
    if name is not None:
        return name
    return key.replace(".", "_") if library in _UNDERSCORED else key


def written(library: str | None, key: str, value: Value) -> str:
    """Return a value in the notation of a library's configuration; empty if it is not set."""
    if value is None:
        return ""
    if key == "partition.assignment.strategy" and library == libraries.JAVA:
        return ",".join(_class(name) for name in str(value).split(","))
    if library in _GO and key.endswith(".ms"):
        return f"{value}ms"
    if key == "acks" and value == "all" and library in _ACKS_IN_NUMBERS:
        return "-1"
    return str(value)


def _class(name: str) -> str:
    known = _JAVA_ASSIGNORS.get(name)
    return f"{_JAVA_PACKAGE}{known}" if known else name
