"""Defaults, names, risks, and descriptions of settings."""

from __future__ import annotations

import pytest

from captures.analysis.clients.batch_settings import compression, estimates
from captures.analysis.clients.dangers import danger_of
from captures.analysis.clients.defaults import defaults_of
from captures.analysis.clients.fields import BatchFacts, Fields
from captures.analysis.clients.libraries import Library
from captures.analysis.clients.notation import own_name, written
from captures.analysis.clients.setting_display import displayed_settings
from captures.analysis.clients.settings import Setting, Value, Values, ValueSource, alike, by_key


@pytest.mark.parametrize(
    ("release", "session", "acks", "idempotence", "linger"),
    [
        ("0.10.0", 30_000, "1", None, 0),
        ("0.10.2", 10_000, "1", None, 0),
        ("2.8.2", 10_000, "1", "false", 0),
        ("3.0.0", 45_000, "all", None, 0),
        ("3.9.1", 45_000, "all", "true", 0),
        ("4.3.0", 45_000, "all", "true", 5),
    ],
)
def test_defaults_of_the_java_client(
    release: str, session: int, acks: str, idempotence: str | None, linger: int
) -> None:
    defaults = defaults_of(Library("apache-kafka-java", release))
    assert defaults["session.timeout.ms"] == session
    assert defaults["acks"] == acks
    assert defaults.get("enable.idempotence") == idempotence
    assert defaults["linger.ms"] == linger


def test_of_several_releases_only_the_defaults_that_all_have() -> None:
    defaults = defaults_of(Library("apache-kafka-java", "2.4-3.8"))
    assert "session.timeout.ms" not in defaults
    assert defaults["heartbeat.interval.ms"] == 3000


@pytest.mark.parametrize(
    "library", [None, Library("sarama"), Library("my-own", "1.0"), Library("librdkafka", "x")]
)
def test_no_defaults_are_known(library: Library | None) -> None:
    assert defaults_of(library) == {}


@pytest.mark.parametrize(
    ("library", "key", "name"),
    [
        ("apache-kafka-java", "fetch.max.wait.ms", "fetch.max.wait.ms"),
        ("librdkafka", "fetch.max.wait.ms", "fetch.wait.max.ms"),
        ("kafka-python", "fetch.max.wait.ms", "fetch_max_wait_ms"),
        ("aiokafka", "max.poll.interval.ms", "rebalance_timeout_ms"),
        ("sarama", "session.timeout.ms", "Consumer.Group.Session.Timeout"),
        ("franz-go", "linger.ms", "ProducerLinger"),
        ("kafkajs", "acks", "acks"),
        (None, "acks", "acks"),
    ],
)
def test_the_name_that_a_library_has(library: str | None, key: str, name: str) -> None:
    assert own_name(library, key) == name


@pytest.mark.parametrize(
    ("library", "key", "value", "text"),
    [
        (
            "apache-kafka-java",
            "partition.assignment.strategy",
            "range,my-own",
            "org.apache.kafka.clients.consumer.RangeAssignor,my-own",
        ),
        ("librdkafka", "partition.assignment.strategy", "range,roundrobin", "range,roundrobin"),
        ("sarama", "session.timeout.ms", 6000, "6000ms"),
        ("sarama", "acks", "all", "-1"),
        ("librdkafka", "acks", "all", "all"),
        ("librdkafka", "client.rack", None, ""),
    ],
)
def test_the_way_that_a_library_writes_it(library: str, key: str, value: Value, text: str) -> None:
    assert written(library, key, value) == text


def test_the_value_seen_most_often_counts() -> None:
    values = Values()
    for number, value in enumerate([5, 7, 7, 9, 7], 1):
        values.add(value, number)
    setting = values.setting("fetch.min.bytes")
    assert (setting.value, setting.count, setting.evidence) == (7, 3, (2, 3, 5))
    assert setting.other_values == ((5, 1), (9, 1))


def test_values_are_bounded() -> None:
    values = Values()
    for number in range(1000):
        values.add(number, number)
    assert len(values.setting("fetch.max.wait.ms").other_values) < 100


@pytest.mark.parametrize(
    ("setting", "default", "same"),
    [
        (Setting("acks", "all", ValueSource.READ), "all", True),
        (Setting("session.timeout.ms", 6000, ValueSource.READ), 6001, False),
        (Setting("heartbeat.interval.ms", 3100, ValueSource.ESTIMATED), 3000, True),
        (Setting("heartbeat.interval.ms", 1000, ValueSource.ESTIMATED), 3000, False),
        (Setting("retry.backoff.ms", 120, ValueSource.ESTIMATED), 100, True),
        (Setting("batch.size", 900, ValueSource.ESTIMATED, at_least=True), 16_384, True),
        (Setting("batch.size", 90_000, ValueSource.ESTIMATED, at_least=True), 16_384, False),
    ],
)
def test_being_the_default(setting: Setting, default: Value, same: bool) -> None:
    assert alike(setting, default) is same


def danger(key: str, value: Value, **others: Value) -> str:
    settings = [Setting(key, value, ValueSource.READ)]
    settings += [Setting(name.replace("_", "."), other, ValueSource.READ) for name, other in others.items()]
    return danger_of(settings[0], by_key(settings))


@pytest.mark.parametrize(
    ("key", "value", "others", "what"),
    [
        ("acks", "0", {}, "learns of no error"),
        ("acks", "1", {}, "if it fails before its followers"),
        ("acks", "all", {}, ""),
        ("enable.idempotence", "false", {"acks": "all"}, "written twice"),
        ("enable.idempotence", "false", {"acks": "0"}, ""),
        ("session.timeout.ms", 6000, {"heartbeat_interval_ms": 3000}, "fewer than 3 heartbeats"),
        ("session.timeout.ms", 6000, {"heartbeat_interval_ms": 2000}, ""),
        ("session.timeout.ms", 5000, {}, "brokers refuse less than 6000"),
        ("max.poll.interval.ms", 6000, {}, "put out of its group"),
        ("fetch.max.wait.ms", 0, {}, "without pause"),
        ("fetch.max.wait.ms", 500, {}, ""),
        ("metadata.max.age.ms", 1000, {}, "all the time"),
        ("transaction.timeout.ms", 900_001, {}, "refuse more"),
        ("transaction.timeout.ms", 60_000, {}, ""),
        ("security.protocol", "SASL_PLAINTEXT", {"sasl_mechanism": "PLAIN"}, "in the clear"),
        ("security.protocol", "SASL_PLAINTEXT", {"sasl_mechanism": "SCRAM-SHA-256"}, ""),
        ("partition.assignment.strategy", "cooperative-sticky,range", {}, "give up all partitions"),
        ("group.id", "orders", {}, ""),
    ],
)
def test_dangers(key: str, value: Value, others: dict[str, Value], what: str) -> None:
    found = danger(key, value, **others)
    assert (what in found) if what else not found


def test_what_was_not_seen_is_no_danger() -> None:
    setting = Setting("acks", None)
    assert danger_of(setting, by_key([setting])) == ""


def test_a_codec_that_is_seen_at_all_is_configured() -> None:
    values = Values()
    for number, codec in enumerate(["none", "none", "lz4"], 1):
        values.add(codec, number)
    setting = values.setting("compression.type", weakest="none")
    assert (setting.value, setting.count, setting.other_values) == ("lz4", 1, ())


@pytest.mark.parametrize(
    ("library", "size", "how"),
    [
        ("apache-kafka-java", 100, ValueSource.READ),
        ("librdkafka", 100, ValueSource.NOT_SEEN),
        (None, 100, ValueSource.NOT_SEEN),
        ("librdkafka", 5000, ValueSource.ESTIMATED),
    ],
)
def test_what_is_not_compressed_may_have_been_too_small(
    library: str | None, size: int, how: ValueSource
) -> None:
    seen = BatchFacts(count=1, largest=(size, -7))
    read = Setting("compression.type", "none", ValueSource.READ, 1, (7,))
    found = compression(read, seen, Library(library) if library else None)
    assert found.how is how
    assert found.value == (None if how is ValueSource.NOT_SEEN else "none")


def test_linger_is_how_long_most_requests_wait() -> None:
    seen = BatchFacts(count=20, largest=(900, -3))
    seen.ages = [
        (round(age * 1_000_000), number) for number, age in enumerate([5.5, 5.6, 5.9, 5.5, 9, 2, 5.5, 5.8])
    ]
    linger, size = estimates(seen)
    assert (linger.key, linger.value, linger.how) == ("linger.ms", 5, ValueSource.ESTIMATED)
    assert (size.value, size.at_least, size.evidence) == (900, True, (3,))


@pytest.mark.parametrize("age", [-3_600_000, 3_600_000])
def test_a_clock_that_is_off_tells_nothing_of_linger(age: int) -> None:
    seen = BatchFacts(count=20, ages=[(age * 1_000_000, number) for number in range(20)])
    assert [each.key for each in estimates(seen)] == ["batch.size"]


def test_requests_that_wait_for_something_else_tell_nothing_of_linger() -> None:
    # Kafka Streams passes on the timestamps of its input
    ages = [
        (round(age * 1_000_000), number) for number, age in enumerate([5, 80, 160, 275, 300, 410, 700, 900])
    ]
    assert [each.key for each in estimates(BatchFacts(count=20, ages=ages))] == ["batch.size"]


@pytest.mark.parametrize(
    ("client_id", "changed"), [("rdkafka", False), ("consumer-orders-1", False), ("app", True)]
)
def test_client_ids_that_libraries_make_up_are_defaults(client_id: str, changed: bool) -> None:
    found = [Setting("client.id", client_id, ValueSource.READ)]
    told = {each.setting.key: each for each in displayed_settings(found, Fields(), None)}
    assert told["client.id"].changed is changed
    assert told["security.protocol"].changed is None


def test_librdkafka_of_old_has_few_known_defaults() -> None:
    assert defaults_of(Library("librdkafka", "1.6.1"))["session.timeout.ms"] == 10_000
    assert defaults_of(Library("librdkafka", "1.7.0"))["session.timeout.ms"] == 45_000
    assert "isolation.level" not in defaults_of(Library("librdkafka", "1.3.0"))
