"""The findings lane: problems with records, positions and transactions, produced at a real broker and recorded.

    python -m tests.lanes.findings [--keep FOLDER] [SCENARIO ...]

Every scenario produces one kind of problem with real clients, and states what the diagnosis has to report about the
recording: the rule, its severity, and parts of its text. Nothing else may be above ``low``. The exit code is 1 if an
expectation fails. ``--keep`` keeps the recordings, such as those in ``tests/data/findings/lane_*``. The lane needs root
for tcpdump.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import NewTopic
from kafka.errors import KafkaError
from kafka.structs import OffsetAndMetadata

from tests.captures.analysis.findings.made_trouble import EXPECTED, diagnosed, differences
from tests.lanes.broker import PRODUCER, Broker, java
from tests.lanes.recording import recorded
from tests.lanes.tools import CannotRun, run

_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_TEXT = b'{"customer": 4711, "state": "shipped", "warehouse": "north"}'


class Stage:
    """The environment of a scenario.

    :param bootstrap: listener whose traffic is recorded
    :param quiet: another listener of the same broker, for everything outside the scenario
    """

    def __init__(self, name: str, bootstrap: str, quiet: str) -> None:
        self.topic, self.group = f"t-{name}", f"g-{name}"
        self.bootstrap, self.quiet = bootstrap, quiet
        self.partition = TopicPartition(self.topic, 0)

    def prepare(self, records: int, size: int = 20, **configs: str) -> None:
        """Create the topic with so many records, each in its own batch."""
        named = {key.replace("_", "."): value for key, value in configs.items()}
        with closing(KafkaAdminClient(bootstrap_servers=self.quiet)) as admin:
            admin.create_topics([NewTopic(self.topic, 1, 1, topic_configs=named)])
        with closing(KafkaProducer(bootstrap_servers=self.quiet)) as producer:
            for _ in range(records):
                producer.send(self.topic, b"x" * size).get(20)

    @contextmanager
    def producer(self, **settings: Any) -> Iterator[KafkaProducer]:
        """Return a recorded producer."""
        settings = {"client_id": "maker"} | settings
        with closing(KafkaProducer(bootstrap_servers=self.bootstrap, **settings)) as made:
            yield made

    @contextmanager
    def consumer(self, **settings: Any) -> Iterator[KafkaConsumer]:
        """Return a recorded consumer of the only partition, which commits only explicitly."""
        settings = {"client_id": "taker", "group_id": self.group, "enable_auto_commit": False} | settings
        with closing(KafkaConsumer(bootstrap_servers=self.bootstrap, **settings)) as made:
            made.assign([self.partition])
            yield made

    def commit(self, consumer: KafkaConsumer, offset: int) -> None:
        """Commit an offset."""
        consumer.commit({self.partition: OffsetAndMetadata(offset, "", -1)})


def read(consumer: KafkaConsumer, seconds: float) -> int:
    """Read for a while; return the number of records."""
    deadline, count = time.monotonic() + seconds, 0
    while (left := deadline - time.monotonic()) > 0:
        count += sum(map(len, consumer.poll(timeout_ms=min(int(left * 1000) + 1, 500)).values()))
    return count


# ---------------------------------------------------------------- scenarios
def retention_was_faster(stage: Stage) -> None:
    """A group has committed offset 20; records up to 60 are deleted before it returns."""
    stage.prepare(100)
    with stage.consumer() as consumer:
        stage.commit(consumer, 20)
    with closing(KafkaAdminClient(bootstrap_servers=stage.quiet)) as admin:
        admin.delete_records({stage.partition: 60})
    with stage.consumer(auto_offset_reset="earliest") as consumer:
        assert read(consumer, 3) == 40


def new_group_at_the_end(stage: Stage) -> None:
    """A group without commits starts at the end of a topic that has records."""
    stage.prepare(30)
    with stage.consumer(auto_offset_reset="latest") as consumer:
        assert read(consumer, 2) == 0


def offsets_reset_by_admin(stage: Stage) -> None:
    """An admin resets the offsets of a group, and its consumer reads everything again."""
    stage.prepare(30)
    with closing(
        KafkaConsumer(
            stage.topic,
            bootstrap_servers=stage.bootstrap,
            client_id="taker",
            group_id=stage.group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
        )
    ) as consumer:
        assert read(consumer, 3) == 30
        consumer.commit()
    chosen = ("--group", stage.group, "--topic", stage.topic)
    run(
        java(
            _GROUPS,
            "--bootstrap-server",
            stage.bootstrap,
            *chosen,
            "--reset-offsets",
            "--to-earliest",
            "--execute",
        )
    )


def open_transaction(stage: Stage) -> None:
    """A transaction stays open for 9 s while others write after it, and a consumer reads committed records."""
    stage.prepare(1)
    with (
        stage.producer(transactional_id=f"x-{stage.topic}", client_id="slow") as slow,
        stage.producer() as producer,
        stage.consumer(isolation_level="read_committed", auto_offset_reset="earliest") as consumer,
    ):
        slow.init_transactions()
        slow.begin_transaction()
        slow.send(stage.topic, b"in a transaction").get(20)
        for _ in range(18):
            producer.send(stage.topic, b"behind it").get(20)
            read(consumer, 0.5)
        slow.commit_transaction()


def two_producers_of_one_id(stage: Stage) -> None:
    """A second producer with the same transactional ID starts while the first has an open transaction."""
    stage.prepare(1)
    first = KafkaProducer(
        bootstrap_servers=stage.bootstrap, transactional_id=f"x-{stage.topic}", client_id="first"
    )
    first.init_transactions()
    first.begin_transaction()
    first.send(stage.topic, b"one").get(20)
    with stage.producer(transactional_id=f"x-{stage.topic}", client_id="second") as second:
        second.init_transactions()
        try:
            first.commit_transaction()
        except KafkaError:
            pass
        else:
            raise AssertionError("the first producer was not fenced")
    first.close(timeout=2)


def fetches_smaller_than_batches(stage: Stage) -> None:
    """A consumer whose fetch size is smaller than a batch."""
    stage.prepare(30, 5_000)
    settings = {"auto_offset_reset": "earliest", "max_partition_fetch_bytes": 1_000, "max_poll_records": 1}
    with stage.consumer(**settings) as consumer:
        assert read(consumer, 4) == 30


def impatient_consumer(stage: Stage) -> None:
    """A consumer that lets the broker wait only 10 ms, on a topic without new records."""
    stage.prepare(1)
    with stage.consumer(fetch_max_wait_ms=10) as consumer:
        read(consumer, 8)


def patient_consumer(stage: Stage) -> None:
    """A consumer that wants at least 10,000 bytes per fetch, on a topic that gets a few bytes every 0.2 s."""
    stage.prepare(1)
    over = threading.Event()

    def trickle() -> None:
        with closing(KafkaProducer(bootstrap_servers=stage.quiet)) as producer:
            while not over.wait(0.2):
                producer.send(stage.topic, b"a few bytes")

    writing = threading.Thread(target=trickle)
    writing.start()
    try:
        with stage.consumer(fetch_min_bytes=10_000) as consumer:
            read(consumer, 14)
    finally:
        over.set()
        writing.join()


def one_record_a_batch(stage: Stage) -> None:
    """A producer that waits for the response to every record."""
    stage.prepare(1)
    with stage.producer(linger_ms=0) as producer:
        for _ in range(600):
            producer.send(stage.topic, b"tiny").get(20)


def much_text(stage: Stage) -> None:
    """A producer that sends much text uncompressed."""
    stage.prepare(1)
    with stage.producer(linger_ms=20) as producer:
        for at in range(200):
            producer.send(stage.topic, _TEXT * 100 + str(at).encode())
        producer.flush()


def compressed_crumbs(stage: Stage) -> None:
    """A producer that compresses batches of a few bytes."""
    stage.prepare(1)
    settings = ("--compression-codec", "gzip", "--timeout", "0", "--command-property", "client.id=maker")
    where = ("--bootstrap-server", stage.bootstrap, "--topic", stage.topic)
    run(java(PRODUCER, *where, "--sync", *settings), stdin="".join(f"{at}\n" for at in range(20)))


def one_large_record(stage: Stage) -> None:
    """A record larger than the topic's limit."""
    stage.prepare(1, max_message_bytes="20000")
    with stage.producer() as producer:
        try:
            producer.send(stage.topic, b"x" * 30_000).get(20)
        except KafkaError:
            return
    raise AssertionError("it was taken")


def seconds_for_milliseconds(stage: Stage) -> None:
    """A producer whose timestamps are in seconds instead of milliseconds."""
    stage.prepare(1)
    with stage.producer() as producer:
        producer.send(stage.topic, b"old", timestamp_ms=int(time.time())).get(20)


def misspelt_topic(stage: Stage) -> None:
    """A producer that sends to a nonexistent topic."""
    with stage.producer() as producer:
        producer.send(stage.topic, b"hello").get(20)


SCENARIOS = {
    scenario.__name__: scenario
    for scenario in (
        retention_was_faster,
        new_group_at_the_end,
        offsets_reset_by_admin,
        open_transaction,
        two_producers_of_one_id,
        fetches_smaller_than_batches,
        impatient_consumer,
        patient_consumer,
        one_record_a_batch,
        much_text,
        compressed_crumbs,
        one_large_record,
        seconds_for_milliseconds,
        misspelt_topic,
    )
}


def play(name: str, broker: Broker, folder: Path) -> list[str]:
    """Play a scenario, and return the deviations of the diagnosis."""
    stage = Stage(name, broker.address("STAGE"), broker.address("QUIET"))
    recording = folder / f"lane_{name}.pcap"
    with recorded(recording, broker.ports["STAGE"]):
        SCENARIOS[name](stage)
    return differences(diagnosed(recording), EXPECTED[name])


def main() -> int:
    """Play the scenarios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--keep", type=Path, help="leave the recordings there")
    parser.add_argument("scenarios", nargs="*", choices=[*SCENARIOS, []], metavar="SCENARIO")
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as work:
        folder = options.keep or Path(work)
        folder.mkdir(parents=True, exist_ok=True)
        with Broker(Path(work) / "broker", {"QUIET": "PLAINTEXT", "STAGE": "PLAINTEXT"}) as broker:
            for name in options.scenarios or SCENARIOS:
                wrong = play(name, broker, folder)
                failed += bool(wrong)
                lines = [f"{'differs' if wrong else 'ok':8} {name}", *(f"         {each}" for each in wrong)]
                sys.stdout.write("\n".join([*lines, ""]))
                sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as reason:
        sys.exit(f"cannot run: {reason}")
