"""State passed from batch to batch: connections, with everything still needed from files that are gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from captures.ranges.edges import pack
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.packets.kit import MS, T0, Conversation, Record, pcap
from tests.captures.ranges.test_batches import KEYLOG, TLS, Batches, compare, one_reading
from tests.captures.spark.kit import cut

_REQUEST = (
    bytes.fromhex("00000013 0012 0000 00000007 0009") + b"client-id"
)  # ApiVersions v0, correlation ID 7
_RESPONSE = bytes.fromhex("0000000a 00000007 0000 00000000")  # no APIs


def talk(*, end: bool = False) -> list[Record]:
    """One exchange, of which every packet has a few bytes; and the end of the connection, if it is wanted."""
    made = Conversation()
    made.handshake()
    for at in range(0, len(_REQUEST), 5):
        made.send(at, _REQUEST[at : at + 5], ack=0)
    for at in range(0, len(_RESPONSE), 5):
        made.send(at, _RESPONSE[at : at + 5], ack=len(_REQUEST), from_client=False)
    if end:
        made.put(True, len(_REQUEST), len(_RESPONSE), 0x11)
        made.put(False, len(_RESPONSE), len(_REQUEST) + 1, 0x11)
    return [Record(each.frame, T0 + number * MS) for number, each in enumerate(made.records)]


@pytest.mark.slow
def test_a_frame_may_come_in_as_many_batches_as_it_has_packets(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(list(talk())))
    expected = one_reading(path)
    files = cut(path, 100, tmp_path / "cut")
    assert len(files) > 8
    batches = Batches()
    for each in files:
        batches.read(each)
    compare(batches, expected)
    (exchange,) = batches.exchanges
    assert (exchange["api"], exchange["correlation_id"], exchange["number"]) == ("ApiVersions", 7, 1)
    assert exchange["response_size"] == len(_RESPONSE)


def test_bytes_that_differed_before_their_frame_was_complete(tmp_path: Path) -> None:
    """The frame says so though its end comes in another batch."""
    made = Conversation()
    made.handshake()
    made.send(0, _REQUEST, ack=0)
    made.send(0, _RESPONSE[:5], ack=len(_REQUEST), from_client=False)
    made.send(0, b"other", ack=len(_REQUEST), from_client=False)
    for at in range(5, len(_RESPONSE), 5):
        made.send(at, _RESPONSE[at : at + 5], ack=len(_REQUEST), from_client=False)
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap([Record(each.frame, T0 + at * MS) for at, each in enumerate(made.records)]))
    expected = one_reading(path)
    assert "conflicting" in expected[0]["flags"]
    batches = Batches()
    for each in cut(path, 3, tmp_path / "cut"):  # handshake; request, and both copies; the rest
        batches.read(each)
    compare(batches, expected)
    assert len(batches.exchanges) == 1


def test_nothing_is_carried_of_connections_that_are_over(tmp_path: Path) -> None:
    path = tmp_path / "talk.pcap"
    records = talk(end=True)
    path.write_bytes(pcap(list(records)))
    later = tmp_path / "later.pcap"
    after = Conversation(client=("10.0.0.9", 50_000))
    after.handshake()
    later.write_bytes(pcap([Record(each.frame, T0 + 5_000 * MS) for each in after.records]))
    batches = Batches()
    batches.read(path)
    assert batches.standing.carried.wholes  # more of it may come for a while
    batches.read(later)
    (pair,) = batches.standing.carried.wholes
    assert {port for _, port in pair} == {50_000, 9092}
    assert not [each for each in batches.standing.counts.ids if each[0] != pair]


@pytest.mark.slow
def test_little_is_carried_of_connections_that_stand(tmp_path: Path) -> None:
    batches = Batches()
    for path in cut(SAMPLE, 6, tmp_path):
        batches.read(path)
        for kept in batches.standing.carried.kept.values():
            assert sum(map(len, kept.data)) < 5_000
    assert len(pack(batches.standing)) < 20_000


@pytest.mark.slow
def test_a_long_tls_connection_stays_open(tmp_path: Path) -> None:
    files = cut(TLS, 4, tmp_path)
    batches = Batches(9_000, KEYLOG)
    told = []
    for path in files[:-1]:
        told.append(len(batches.read(path)))
        assert (
            batches.standing.carried.open
        )  # all its packets are kept: what was decrypted cannot be taken up in its middle
    batches.read(files[-1])
    assert sum(count > 0 for count in told) > 1  # told as they come, not at the end
    compare(batches, one_reading(TLS, KEYLOG))


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "name", ["22_k430_java_commit_abort.pcap", "09_snaplen128.pcap", "06_tansu_garbage.pcap"]
)
def test_connections_are_those_of_one_reading(name: str, tmp_path: Path) -> None:
    batches = Batches()
    for path in cut(DATA / name, 3, tmp_path):
        batches.read(path)
    expected = Batches()
    whole = tmp_path / "whole.pcap"
    whole.write_bytes((DATA / name).read_bytes())
    expected.read(whole)
    assert {number: whole.ends for number, whole in batches.connections.items()} == {
        number: whole.ends for number, whole in expected.connections.items()
    }
    compare(batches, one_reading(DATA / name))
