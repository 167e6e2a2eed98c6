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
_SARAMA = {
    "client.id": "ClientID",
    "client.rack": "RackID",
    "group.instance.id": "Consumer.Group.InstanceId",
    "session.timeout.ms": "Consumer.Group.Session.Timeout",
    "heartbeat.interval.ms": "Consumer.Group.Heartbeat.Interval",
    "max.poll.interval.ms": "Consumer.Group.Rebalance.Timeout",
    "partition.assignment.strategy": "Consumer.Group.Rebalance.GroupStrategies",
    "enable.auto.commit": "Consumer.Offsets.AutoCommit.Enable",
    "auto.commit.interval.ms": "Consumer.Offsets.AutoCommit.Interval",
    "isolation.level": "Consumer.IsolationLevel",
    "fetch.min.bytes": "Consumer.Fetch.Min",
    "fetch.max.wait.ms": "Consumer.MaxWaitTime",
    "max.partition.fetch.bytes": "Consumer.Fetch.Default",
    "allow.auto.create.topics": "Metadata.AllowAutoTopicCreation",
    "metadata.max.age.ms": "Metadata.RefreshFrequency",
    "retry.backoff.ms": "Metadata.Retry.Backoff",
    "acks": "Producer.RequiredAcks",
    "enable.idempotence": "Producer.Idempotent",
    "request.timeout.ms": "Producer.Timeout",
    "compression.type": "Producer.Compression",
    "linger.ms": "Producer.Flush.Frequency",
    "batch.size": "Producer.Flush.Bytes",
    "transactional.id": "Producer.Transaction.ID",
    "transaction.timeout.ms": "Producer.Transaction.Timeout",
    "sasl.mechanism": "Net.SASL.Mechanism",
}
_FRANZ_GO = {
    "client.id": "ClientID",
    "client.rack": "Rack",
    "group.id": "ConsumerGroup",
    "group.instance.id": "InstanceID",
    "session.timeout.ms": "SessionTimeout",
    "heartbeat.interval.ms": "HeartbeatInterval",
    "max.poll.interval.ms": "RebalanceTimeout",
    "partition.assignment.strategy": "Balancers",
    "auto.commit.interval.ms": "AutoCommitInterval",
    "isolation.level": "FetchIsolationLevel",
    "fetch.min.bytes": "FetchMinBytes",
    "fetch.max.wait.ms": "FetchMaxWait",
    "fetch.max.bytes": "FetchMaxBytes",
    "max.partition.fetch.bytes": "FetchMaxPartitionBytes",
    "allow.auto.create.topics": "AllowAutoTopicCreation",
    "metadata.max.age.ms": "MetadataMaxAge",
    "retry.backoff.ms": "RetryBackoffFn",
    "connections.max.idle.ms": "ConnIdleTimeout",
    "acks": "RequiredAcks",
    "request.timeout.ms": "ProduceRequestTimeout",
    "compression.type": "ProducerBatchCompression",
    "linger.ms": "ProducerLinger",
    "batch.size": "ProducerBatchMaxBytes",
    "transactional.id": "TransactionalID",
    "transaction.timeout.ms": "TransactionTimeout",
    "sasl.mechanism": "SASL",
}
_KAFKA_GO = {
    "client.id": "Dialer.ClientID",
    "group.id": "GroupID",
    "session.timeout.ms": "SessionTimeout",
    "heartbeat.interval.ms": "HeartbeatInterval",
    "max.poll.interval.ms": "RebalanceTimeout",
    "partition.assignment.strategy": "GroupBalancers",
    "auto.commit.interval.ms": "CommitInterval",
    "isolation.level": "IsolationLevel",
    "fetch.min.bytes": "MinBytes",
    "fetch.max.wait.ms": "MaxWait",
    "fetch.max.bytes": "MaxBytes",
    "acks": "RequiredAcks",
    "request.timeout.ms": "WriteTimeout",
    "compression.type": "Compression",
    "linger.ms": "BatchTimeout",
    "batch.size": "BatchBytes",
    "sasl.mechanism": "SASLMechanism",
}
_KAFKAJS = {
    "client.id": "clientId",
    "client.rack": "rackId",
    "group.id": "groupId",
    "session.timeout.ms": "sessionTimeout",
    "heartbeat.interval.ms": "heartbeatInterval",
    "max.poll.interval.ms": "rebalanceTimeout",
    "partition.assignment.strategy": "partitionAssigners",
    "enable.auto.commit": "autoCommit",
    "auto.commit.interval.ms": "autoCommitInterval",
    "fetch.min.bytes": "minBytes",
    "fetch.max.wait.ms": "maxWaitTimeInMs",
    "fetch.max.bytes": "maxBytes",
    "max.partition.fetch.bytes": "maxBytesPerPartition",
    "allow.auto.create.topics": "allowAutoTopicCreation",
    "metadata.max.age.ms": "metadataMaxAge",
    "retry.backoff.ms": "retry.initialRetryTime",
    "acks": "acks",
    "enable.idempotence": "idempotent",
    "request.timeout.ms": "timeout",
    "compression.type": "compression",
    "transactional.id": "transactionalId",
    "transaction.timeout.ms": "transactionTimeout",
    "sasl.mechanism": "sasl.mechanism",
}
_NAMES = {
    libraries.LIBRDKAFKA: _LIBRDKAFKA,
    libraries.AIOKAFKA: _AIOKAFKA,
    libraries.SARAMA: _SARAMA,
    libraries.FRANZ_GO: _FRANZ_GO,
    libraries.KAFKA_GO: _KAFKA_GO,
    libraries.KAFKAJS: _KAFKAJS,
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
