"""kafka-console-consumer and kafka-console-producer. Most command lines were tried against Kafka 4.3.0."""

from __future__ import annotations

from kproxy.copy_as.tools import commands
from tests.kproxy.copy_as.kit import ADDRESS, asked, lines, recorded, words
from tests.kproxy.copy_as.test_kcat import FETCH
from tests.kproxy.copy_as.test_record_lines import produced
from tests.kproxy.tui.kit import REBALANCE


def test_a_fetch_is_a_consumer_of_each_partition() -> None:
    (found,) = words(commands(asked(1, 11, FETCH)))
    assert found == [
        "kafka-console-consumer.sh",
        "--isolation-level",
        "read_committed",
        "--topic",
        "orders",
        "--partition",
        "3",
        "--offset",
        "120",
    ]


def test_records_are_piped_into_a_producer() -> None:
    records = [
        (b"k", b"a\\b"),
        (b"k2", None),
        (b"k", b"v", (("h", b"x y"), ("i", b"2"))),
        (None, b"two\nlines"),
    ]
    start = f"kafka-console-producer.sh --bootstrap-server {ADDRESS} --topic orders --request-required-acks 1"
    keyed = r"--property parse.key=true --property $'key.separator=\t'"
    assert lines(commands(produced(*records, codec=1))) == [
        "# partitions are chosen by the key; timestamps, producer ID and sequence numbers are new",
        rf"printf %s $'k\ta\\b\n' | {start} --compression-codec gzip {keyed}",
        rf"printf %s $'k2\t<null>\n' | {start} --compression-codec gzip {keyed} --property 'null.marker=<null>'",
        rf"printf %s $'h:x y,i:2\tk\tv\n' | {start} --compression-codec gzip {keyed} --property parse.headers=true",
        "# left out: 1 records of several lines, or with delimiters in headers",
    ]


def test_a_consumer_joins_its_group() -> None:
    _, exchanges = recorded(REBALANCE)
    joining = next(each for each in exchanges if each.api == "JoinGroup")
    note, line = lines(commands(joining))
    assert "its partitions are assigned anew" in note
    assert line.endswith("--group gr2-java_eager_range --topic r2-java_eager_range")
