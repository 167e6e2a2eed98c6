"""Hostile reality: effects of networks, cards and capture tools on traffic; the exchanges are still right.

One test per effect. Each applies it to the packets of a conversation with known exchanges, and reads the capture as a
user would. Encapsulations are built by scapy.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.exchanges import Capture, Flag, open_capture
from captures.packets import ACK, FIN, GRACE, RST, GapCause
from tests.captures.exchanges.talk import ExpectedExchange, Talk, exchanges
from tests.captures.packets.kit import (
    MS,
    Conversation,
    Record,
    block,
    enhanced,
    ethernet,
    interface,
    option,
    pcap,
    read_bytes,
    section,
)
from tests.captures.packets.test_network import fragments

ALL = 12
"""Exchanges of the conversation below. Those with an even number are pipelined with the next one."""


@dataclass
class SentPacket:
    """A packet with payload: its message in the conversation, and its position in the stream."""

    message: int
    from_client: bool
    position: int
    payload: bytes
    ack: int


def conversation(first: int = 0) -> Talk:
    """Requests and responses of a few hundred bytes, two requests in flight at a time."""
    rng, talk = Random(first), Talk(0)
    for number in range(first, first + ALL, 2):
        talk.ask(number, rng.randbytes(150))
        talk.ask(number + 1, rng.randbytes(250), key=12, version=4)
        talk.answer(rng.randbytes(420))
        talk.answer(rng.randbytes(120))
    return talk


def packets(talk: Talk, most: int = 100) -> list[SentPacket]:
    """The messages in packets of up to `most` bytes, none with bytes of two messages."""
    found, ends = [], {True: 0, False: 0}
    for number, (from_client, message) in enumerate(talk.messages):
        for at in range(0, len(message), most):
            payload = message[at : at + most]
            found.append(SentPacket(number, from_client, ends[from_client], payload, ends[not from_client]))
            ends[from_client] += len(payload)
    return found


def message_of(exchange: int, side: str) -> int:
    """The number of a request or response among the messages: request, request, response, response."""
    return exchange // 2 * 4 + exchange % 2 + (2 if side == "response" else 0)


def sent_by(sent: list[SentPacket], wire: Conversation | None = None) -> Conversation:
    """A connection with its handshake, then these packets."""
    wire = wire or Conversation()
    wire.handshake()
    for each in sent:
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
    return wire


def opened(folder: Path, data: bytes, block_size: int = 1 << 22) -> Capture:
    path = folder / "hostile"
    path.unlink(missing_ok=True)  # an earlier one may still be mapped
    path.write_bytes(data)
    capture = open_capture(str(path), block_size)
    capture.read()
    return capture


def read(folder: Path, records: list[Record]) -> Capture:
    """Read in one block and in many small ones: the exchanges are the same."""
    data = pcap(list(records), nano=True)
    whole = opened(folder, data)
    assert exchanges(opened(folder, data, 1000)) == exchanges(whole)
    return whole


def gaps(folder: Path, wire: Conversation) -> list[tuple[int, int, int, str]]:
    """Stream, position, size and cause of each gap."""
    return read_bytes(folder, pcap(list(wire.records), nano=True)).gaps()


def flagged(expected: list[ExpectedExchange], flags: dict[int, Flag]) -> list[ExpectedExchange]:
    """The exchanges, some of them with flags."""
    return [each._replace(flags=flags.get(number, each.flags)) for number, each in enumerate(expected)]


# ------------------------------------------------------------ missing data
@pytest.mark.parametrize("inside", [False, True])
def test_mid_stream_start(tmp_path: Path, inside: bool) -> None:
    """The capture begins when the third pair of requests is sent, or within their responses."""
    talk = conversation()
    first = message_of(4, "response" if inside else "request")
    wire = Conversation()
    for each in [each for each in packets(talk) if each.message >= first][inside:]:
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
    capture = read(tmp_path, wire.records)
    whole = [each._replace(connection=0) for each in talk.exchanges[6:]]
    assert exchanges(capture)[-len(whole) :] == whole
    earlier = exchanges(capture)[: -len(whole)]
    if inside:  # of exchange 4 the front of the response is missing, of exchange 5 there is just the response
        found = [(each.correlation_id, each.flags) for each in earlier]
        assert found == [(5, Flag.ORPHAN | Flag.RESYNCHRONISED)]
        assert [skip.size for skip in capture.skipped] == [100 * 4 + 28 - 100]
    else:
        assert earlier == talk.exchanges[4:6]


def test_packets_lost_in_the_capture(tmp_path: Path) -> None:
    """The receiver acknowledges data that the capture lacks, so it existed. The exchange says what is missing."""
    talk = conversation()
    lost = message_of(6, "response")
    sent = packets(talk)
    gone = [each for each in sent if each.message == lost][1:3]
    wire = sent_by([each for each in sent if each not in gone])
    assert gaps(tmp_path, wire) == [(1, gone[0].position, 200, GapCause.NOT_CAPTURED)]
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == flagged(talk.exchanges, {6: Flag.RESPONSE_DAMAGED})


def test_requests_lost_in_the_capture(tmp_path: Path) -> None:
    """A whole request is missing: its response is an orphan. The header shows where the next request begins."""
    talk = conversation()
    sent = packets(talk)
    lost = message_of(5, "request")
    wire = sent_by([each for each in sent if each.message != lost])
    found = exchanges(read(tmp_path, wire.records))
    orphans = [each for each in found if each.flags & Flag.ORPHAN]
    assert [each.correlation_id for each in orphans] == [5]
    others = flagged(talk.exchanges, {6: Flag.RESYNCHRONISED})
    assert [each for each in found if each not in orphans] == others[:5] + others[6:]


def test_packets_lost_on_the_wire(tmp_path: Path) -> None:
    """The receiver acknowledges nothing beyond the loss until it is repaired: all data is there, only later."""
    talk = conversation()
    lost = message_of(6, "response")
    sent = packets(talk)
    gone = next(each for each in sent if each.message == lost)
    wire = Conversation()
    wire.handshake()
    for each in sent:
        if each.message > lost and gone is not None:
            wire.now += 3 * GRACE  # the sender notices
            wire.send(gone.position, gone.payload, ack=gone.ack, from_client=False)
            gone = None
        if each is not gone:
            wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
            if each.message == lost:  # duplicate acknowledgments
                wire.acknowledge(gone.position, from_client=True, position=each.ack)
    assert gaps(tmp_path, wire) == []
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges
    row = capture.table.row(int(capture.table.order()[6]))
    assert row["response_last"] - row["response_first"] < 3 * GRACE  # times of the packets that carried them


def test_packets_lost_on_the_wire_for_good(tmp_path: Path) -> None:
    """The connection is reset before the loss is repaired: nobody acknowledged the data, so nothing is known of it."""
    talk = conversation()
    sent = packets(talk)
    last = message_of(10, "response")
    wire = sent_by([each for each in sent if each.message < last])
    rest = [each for each in sent if each.message == last]
    for each in rest[1:]:
        wire.send(each.position, each.payload, ack=each.ack, from_client=False)
    wire.put(True, rest[0].ack, rest[0].position, RST | ACK)
    assert gaps(tmp_path, wire) == [(1, rest[0].position, 100, GapCause.UNKNOWN)]
    found = exchanges(read(tmp_path, wire.records))
    assert found[:10] == talk.exchanges[:10]
    assert all(each.flags & Flag.NOT_RECORDED for each in found[10:])


def test_snapshot_length_cuts(tmp_path: Path) -> None:
    """The first 40 bytes of each payload are there: enough for the headers of each message."""
    talk = conversation()
    wire = sent_by(packets(talk, most=2000))
    capture = opened(tmp_path, pcap(list(wire.records), nano=True, snaplen=54 + 40))
    cut = Flag.REQUEST_DAMAGED | Flag.RESPONSE_DAMAGED
    assert exchanges(capture) == [each._replace(flags=cut) for each in talk.exchanges]
    assert capture.statistics.cut == 2 * ALL


def test_a_truncated_last_packet(tmp_path: Path) -> None:
    talk = conversation()
    data = pcap(list(sent_by(packets(talk)).records), nano=True)
    capture = opened(tmp_path, data[:-10])
    last = ALL - 1
    assert exchanges(capture)[:last] == talk.exchanges[:last]
    assert exchanges(capture)[last].flags & Flag.UNANSWERED
    assert ["ends inside" in damage.reason for damage in capture.statistics.damage] == [True]


# ------------------------------------------------------------ repeated data
def test_retransmissions(tmp_path: Path) -> None:
    """Retransmissions, at once and late, whole and split differently, with the same content."""
    talk, rng = conversation(), Random(1)
    sent = packets(talk)
    streams = {
        side: b"".join(each.payload for each in sent if each.from_client is side) for side in (True, False)
    }
    wire = Conversation()
    wire.handshake()
    for each in sent:
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
        if rng.random() < 0.4:
            end = each.position + len(each.payload)
            start = max(0, end - rng.randrange(1, 400))
            wire.send(start, streams[each.from_client][start:end], ack=each.ack, from_client=each.from_client)
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges
    column = capture.connections.streams
    assert column.retransmitted.min() > 0
    assert column.conflicting.tolist() == [0, 0]


def test_overlaps_with_differing_content(tmp_path: Path) -> None:
    """The first captured copy counts, as for a receiver that had it; the exchange reports the conflict."""
    talk = conversation()
    wire = Conversation()
    wire.handshake()
    for each in packets(talk):
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
        if each.message == message_of(7, "response"):
            wire.send(each.position, bytes(len(each.payload)), ack=each.ack, from_client=False)
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == flagged(talk.exchanges, {7: Flag.CONFLICTING})
    assert capture.connections.streams.conflicting[1] > 100


def test_duplicated_packets(tmp_path: Path) -> None:
    """A capture on two interfaces has every packet twice, here the second time with a VLAN tag."""
    talk = conversation()
    records = []
    for record in sent_by(packets(talk)).records:
        tagged = ethernet(record.frame[14:], tags=(0x8100,))
        records += [record, Record(tagged, record.time + 20_000)]
    capture = read(tmp_path, records)
    assert exchanges(capture) == talk.exchanges
    assert capture.connections.streams.conflicting.tolist() == [0, 0]


# ------------------------------------------------------------ behaviour of connections
def test_reset(tmp_path: Path) -> None:
    talk = conversation()
    until = message_of(10, "response")
    wire = sent_by([each for each in packets(talk) if each.message < until])
    wire.put(False, 0, 0, RST)
    capture = read(tmp_path, wire.records)
    open_ones = [each._replace(response_size=0, flags=Flag.UNANSWERED) for each in talk.exchanges[10:]]
    assert exchanges(capture) == talk.exchanges[:10] + open_ones
    assert capture.connections[0].closed == "reset by b"


def test_half_close(tmp_path: Path) -> None:
    """The client closes its side after its last request; the responses still come."""
    talk = conversation()
    sent = packets(talk)
    wire = sent_by([each for each in sent if each.from_client])
    end = sum(len(each.payload) for each in sent if each.from_client)
    wire.put(True, end, 0, FIN | ACK)
    for each in sent:
        if not each.from_client:
            wire.send(each.position, each.payload, ack=end + 1, from_client=False)
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges
    assert capture.connections[0].closed == "closed by a"


def test_port_reuse(tmp_path: Path) -> None:
    """A new connection on the same addresses and ports, with the same correlation IDs: nothing is mixed up."""
    first, second = conversation(), conversation()
    cut = message_of(6, "response")
    wire = sent_by([each for each in packets(first) if each.message < cut])
    wire.client_isn, wire.broker_isn = 3_000_000_000, 77
    sent_by(packets(second), wire)
    found = exchanges(read(tmp_path, wire.records))
    unanswered = [each._replace(response_size=0, flags=Flag.UNANSWERED) for each in first.exchanges[6:8]]
    again = [each._replace(connection=1) for each in second.exchanges]
    assert found == first.exchanges[:6] + unanswered + again


def test_keep_alives(tmp_path: Path) -> None:
    """RFC 9293 section 3.8.4: a byte of garbage, or none, before the next sequence number; and the answer to it."""
    talk = conversation()
    wire = Conversation()
    wire.handshake()
    for each in packets(talk):
        wire.now += 7_200 * 1_000 * MS
        wire.put(each.from_client, each.position - 1, each.ack, ACK, b"\xff" * (each.message % 2))
        wire.acknowledge(each.position, from_client=not each.from_client, position=each.ack)
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges


def test_zero_windows(tmp_path: Path) -> None:
    """The client closes its window; the broker probes with one byte, which is refused, then goes on."""
    talk = conversation()
    wire = Conversation()
    wire.handshake()
    for each in packets(talk):
        if not each.from_client:
            wire.put(True, each.ack, each.position, ACK, window=0)
            wire.send(each.position, each.payload[:1], ack=each.ack, from_client=False)
            wire.put(True, each.ack, each.position, ACK, window=0)
        wire.send(each.position, each.payload, ack=each.ack, from_client=each.from_client)
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges
    assert capture.connections.streams.zero_windows[0] > 2 * ALL


def test_clock_steps_backwards(tmp_path: Path) -> None:
    """The clock of the capturing machine is set back an hour; the order of the packets is what counts."""
    talk = conversation()
    wire = sent_by(packets(talk))
    for record in wire.records[len(wire.records) // 2 :]:
        record.time -= 3_600_000 * MS
    capture = read(tmp_path, wire.records)
    assert exchanges(capture) == talk.exchanges


def test_broken_checksums(tmp_path: Path) -> None:
    """With checksum offload they are wrong in what the sending machine captures: that says nothing."""
    talk, rng = conversation(), Random(2)
    wire = sent_by(packets(talk))
    for record in wire.records:
        frame = bytearray(record.frame)
        frame[24:26], frame[50:52] = rng.randbytes(2), rng.randbytes(2)  # of IPv4, of TCP
        record.frame = bytes(frame)
    assert exchanges(read(tmp_path, wire.records)) == talk.exchanges


# ------------------------------------------------------------ encapsulation
@pytest.mark.parametrize("total", ["as it is", "0"])
def test_segmentation_offload(tmp_path: Path, total: str) -> None:
    """Packets larger than any on the wire; Linux leaves the IP length at 0 where the field is too small."""
    rng, talk = Random(3), Talk(0)
    size = 60_000 if total == "as it is" else 200_000
    for number in range(6):
        talk.ask(number, rng.randbytes(size))
        talk.answer(rng.randbytes(size))
    wire = Conversation()
    wire.handshake()
    for each in packets(talk, most=size + 100):
        room = each.payload if total == "as it is" else b""
        record = wire.send(each.position, room, ack=each.ack, from_client=each.from_client)
        if total == "0":
            record.frame = record.frame[:16] + b"\0\0" + record.frame[18:] + each.payload
    assert exchanges(read(tmp_path, wire.records)) == talk.exchanges


def test_ip_fragments(tmp_path: Path) -> None:
    """Every packet in three fragments, in any order."""
    talk, rng, records = conversation(), Random(4), []
    for number, record in enumerate(sent_by(packets(talk)).records):
        segment = record.frame[34:]
        if len(segment) < 64:
            records.append(record)
            continue
        parts = [bytearray(part) for part in fragments(segment, [24, 32, len(segment) - 56], 4)]
        rng.shuffle(parts)
        for part in parts:
            part[18:20] = struct.pack(">H", number)
            part[26:34] = record.frame[26:34]
            records.append(Record(bytes(part), record.time))
    assert exchanges(read(tmp_path, records)) == talk.exchanges


def wrappings() -> dict[str, Callable[[bytes], bytes]]:
    """Encapsulations of an Ethernet frame with IPv4, by scapy."""
    from scapy.contrib.geneve import GENEVE
    from scapy.contrib.mpls import MPLS
    from scapy.layers.inet import IP, UDP
    from scapy.layers.l2 import GRE, Dot1AD, Dot1Q, Ether
    from scapy.layers.ppp import PPP, PPPoE
    from scapy.layers.vxlan import VXLAN

    link = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")  # else scapy asks the network
    outer = link / IP(src="192.0.2.1", dst="192.0.2.2")
    return {
        "VLAN": lambda frame: bytes(link / Dot1Q(vlan=5) / IP(frame[14:])),
        "QinQ": lambda frame: bytes(link / Dot1AD(vlan=7) / Dot1Q(vlan=5) / IP(frame[14:])),
        "GRE": lambda frame: bytes(outer / GRE(key_present=1, key=9) / IP(frame[14:])),
        "VXLAN": lambda frame: bytes(outer / UDP() / VXLAN(vni=42) / Ether(frame)),
        "Geneve": lambda frame: bytes(outer / UDP() / GENEVE(vni=42) / Ether(frame)),
        "MPLS": lambda frame: bytes(link / MPLS(label=3, s=0) / MPLS(label=4, s=1) / IP(frame[14:])),
        "PPPoE": lambda frame: bytes(link / PPPoE(sessionid=3) / PPP() / IP(frame[14:])),
    }


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["VLAN", "QinQ", "GRE", "VXLAN", "Geneve", "MPLS", "PPPoE"])
def test_encapsulation(tmp_path: Path, name: str) -> None:
    talk, wrap = conversation(), wrappings()[name]
    records = [Record(wrap(record.frame), record.time) for record in sent_by(packets(talk)).records]
    assert len(records[0].frame) > 54
    assert exchanges(read(tmp_path, records)) == talk.exchanges


def test_unknown_pcapng_blocks(tmp_path: Path) -> None:
    """Blocks of types that nobody knows, and custom ones, between the packets."""
    talk = conversation()
    data = section() + interface(1, option(9, b"\x09"))
    for number, record in enumerate(sent_by(packets(talk)).records):
        data += block((0x80000001, 0x0BAD, 0x00000BAD)[number % 3], bytes(number % 50))
        data += enhanced(record.frame, record.time)
    capture = opened(tmp_path, data)
    assert exchanges(capture) == talk.exchanges
    assert capture.statistics.blocks_skipped.total() > 0


def test_several_interfaces_and_link_types(tmp_path: Path) -> None:
    """One connection whose packets take turns on four interfaces, each of another kind and with another clock unit."""
    talk = conversation()
    data = section() + interface(1, option(9, b"\x09")) + interface(276) + interface(101) + interface(0)
    cooked = struct.pack(">HHIHBB8s", 0x0800, 0, 2, 1, 0, 6, bytes(8))  # LINKTYPE_LINUX_SLL2
    for number, record in enumerate(sent_by(packets(talk)).records):
        heads = (record.frame[:14], cooked, b"", struct.pack("<I", 2))
        ticks = record.time if number % 4 == 0 else record.time // 1000
        data += enhanced(heads[number % 4] + record.frame[14:], ticks, number % 4)
    capture = opened(tmp_path, data)
    assert exchanges(capture) == talk.exchanges
    times = capture.table.column("request_first")[capture.table.order()]
    assert times.tolist() == sorted(times.tolist())


# ------------------------------------------------------------ everything together
@pytest.mark.slow
@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=30)
def test_nothing_lost_nothing_different(seed: int) -> None:
    """Any segmentation, order and repetition of the packets gives the same exchanges if all bytes are there."""
    rng, talk = Random(seed), conversation(seed % 100)
    sent = packets(talk, most=rng.choice((7, 40, 200, 1448)))
    again = [each for each in sent if rng.random() < 0.1]
    late = [
        (number + rng.choice((0, 0, 0, 1, 2, 5)) + rng.random() / 2, each) for number, each in enumerate(sent)
    ]
    late += [(number + rng.randrange(9), each) for number, each in enumerate(sent) if each in again]
    wire = Conversation(client_isn=rng.randrange(2**32), broker_isn=rng.randrange(2**32))
    wire.handshake()
    for _, each in sorted(late, key=lambda pair: pair[0]):
        wire.send(each.position, each.payload, ack=0, from_client=each.from_client)
    with TemporaryDirectory() as folder:
        capture = read(Path(folder), wire.records)
        # who comes first is a matter of packets
        assert sorted(exchanges(capture), key=attrgetter("correlation_id")) == talk.exchanges
        assert capture.skipped == []
