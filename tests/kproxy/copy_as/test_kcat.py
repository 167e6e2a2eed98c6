"""Command lines of kcat. Most were tried against Kafka 4.3.0 with kcat 1.7.1."""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest

from kproxy.copy_as import by_name, formats_of
from kproxy.copy_as.kcat import commands
from tests.kproxy.copy_as.kit import ADDRESS, asked, lines, recorded
from tests.kproxy.copy_as.test_record_lines import produced
from tests.kproxy.tui.kit import REBALANCE
from tests.waiting import PATIENCE

FETCH = {
    "replica_id": -1,
    "max_wait_ms": 500,
    "min_bytes": 1,
    "max_bytes": 52_428_800,
    "isolation_level": 1,
    "session_id": 0,
    "session_epoch": 0,
    "topics": [
        {
            "topic": "orders",
            "partitions": [
                {
                    "partition": 3,
                    "current_leader_epoch": -1,
                    "fetch_offset": 120,
                    "log_start_offset": -1,
                    "partition_max_bytes": 1_048_576,
                }
            ],
        }
    ],
    "forgotten_topics_data": [],
    "rack_id": "r 1",
}


def test_a_fetch_is_a_consumer_of_each_partition() -> None:
    (line,) = lines(commands(asked(1, 11, FETCH)))
    assert line == (
        f"kcat -C -b {ADDRESS} -t orders -p 3 -o 120 -e -X fetch.wait.max.ms=500 -X fetch.min.bytes=1 "
        "-X isolation.level=read_committed -X 'client.rack=r 1' -X fetch.message.max.bytes=1048576"
    )


def test_what_a_session_does_not_name_is_said() -> None:
    later = FETCH | {"session_id": 9, "session_epoch": 4}
    assert lines(commands(asked(1, 11, later)))[0].startswith(
        "# in a fetch session only what changed is named"
    )
    assert commands(asked(1, 11, later | {"topics": []})) == []
    assert "a follower asked" in lines(commands(asked(1, 11, FETCH | {"replica_id": 2})))[0]


@pytest.mark.parametrize(
    ("version", "topics", "expected"),
    [
        (9, None, [f"kcat -L -b {ADDRESS}"]),
        (0, [], [f"kcat -L -b {ADDRESS}"]),
        (9, [], ["# the request asked for brokers alone, without topics", f"kcat -L -b {ADDRESS}"]),
        (
            9,
            [{"name": "a"}, {"name": "b c"}],
            [f"kcat -L -b {ADDRESS} -t a", f"kcat -L -b {ADDRESS} -t 'b c'"],
        ),
    ],
)
def test_metadata_is_listed(version: int, topics: list[dict[str, str]] | None, expected: list[str]) -> None:
    body = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_cluster_authorized_operations": False,
        "include_topic_authorized_operations": False,
    }
    assert lines(commands(asked(3, version, body))) == expected


def test_a_topic_of_which_only_the_id_is_known_is_left_out() -> None:
    topics = [{"topic_id": "0123456789abcdefghijkl"[:21] + "A", "name": None}]
    body = {
        "topics": topics,
        "allow_auto_topic_creation": False,
        "include_topic_authorized_operations": False,
    }
    (line,) = lines(commands(asked(3, 12, body)))
    assert line == f"# left out: the topic with ID {topics[0]['topic_id']}, whose name was not seen"
    exchange = asked(3, 12, body)
    assert by_name("kcat") not in formats_of([exchange])


def test_offsets_are_queried() -> None:
    partition = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -2}
    body = {
        "replica_id": -1,
        "isolation_level": 0,
        "topics": [
            {"name": "a", "partitions": [partition, partition | {"partition_index": 1, "timestamp": 170}]}
        ],
    }
    assert lines(commands(asked(2, 5, body))) == [f"kcat -Q -b {ADDRESS} -t a:0:-2 -t a:1:170"]


def test_records_are_piped_into_a_producer() -> None:
    records = [(b"k", b"it's"), (b"k2", None), (None, b"v", (("h", b"x y"),)), (None, b"")]
    said = lines(commands(produced(*records)))
    assert said == [
        "# timestamps, producer ID and sequence numbers are those of the new producer",
        rf"printf %s $'k\tit\'s\n' | kcat -P -b {ADDRESS} -t orders -p 3 -K '\x09' -X acks=1",
        rf"printf %s $'k2\t\n' | kcat -P -b {ADDRESS} -t orders -p 3 -K '\x09' -Z -X acks=1",
        rf"printf %s $'v\n' | kcat -P -b {ADDRESS} -t orders -p 3 -H 'h=x y' -X acks=1",
        "# left out: 1 records, of which some have neither key nor value",
    ]


def test_binary_records_are_counted_and_left_out() -> None:
    exchange = produced((None, b"\xff\xfe"))
    assert "# left out: 1 records of orders-3 that are not text, or too many" in lines(commands(exchange))
    assert by_name("kcat") not in formats_of([exchange])


def test_a_consumer_joins_its_group() -> None:
    _, exchanges = recorded(REBALANCE)
    joining = next(each for each in exchanges if each.api == "JoinGroup")
    (note, line) = lines(commands(joining))
    assert note.startswith("# joins the group as another member")
    assert re.fullmatch(r"kcat -b 127\.0\.0\.1:\d+ -G gr2-java_eager_range r2-java_eager_range", line)


def test_other_requests_have_none() -> None:
    body = {"group_id": "g", "generation_id": 1, "member_id": "m", "group_instance_id": None}
    assert commands(asked(12, 3, body)) == []


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_kcat_takes_the_properties() -> None:
    (line,) = lines(commands(asked(1, 11, FETCH)))
    ran = subprocess.run(["bash", "-c", f"{line} -X dump"], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stderr
    assert "isolation.level = read_committed" in ran.stdout
