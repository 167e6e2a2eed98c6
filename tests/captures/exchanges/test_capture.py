"""Both framing and pairing paths give the same, correct table, whatever the blocks and packets."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from captures.exchanges import Capture, Flag, open_capture
from captures.packets import GRACE, CaptureError, SegmentBlock, open_source
from tests.captures.exchanges.talk import (
    Talk,
    Thorough,
    capture_of,
    exchanges,
    mixed,
    outcome,
    packets,
    random_talk,
    rows,
)
from tests.captures.packets.kit import Conversation
from tests.dissectors.conversation import streams
from tests.dissectors.conversation.streams import SASL_HANDSHAKE
from tests.reference import captures_dir, needs_reference

BLOCKS = (1000, 4000, 1 << 22)


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 4), block_size=st.sampled_from(BLOCKS))
def test_both_ways_give_the_same(seed: int, count: int, block_size: int) -> None:
    rng = Random(seed)
    talks = [random_talk(rng, number) for number in range(count)]
    records = mixed([packets(talk, rng, most=rng.choice((50, 400, 1448))) for talk in talks], Random(seed))
    with TemporaryDirectory() as folder:
        fast = capture_of(Path(folder), records, block_size)
        thorough = capture_of(Path(folder), records, block_size, Thorough)
        assert outcome(fast) == outcome(thorough)
        by_client = {int(fast.endpoints(c)[0].rpartition(":")[2]) - 40_000: c for c in range(count)}
        expected = [
            each._replace(connection=by_client[talk.number]) for talk in talks for each in talk.exchanges
        ]
        assert exchanges(fast) == sorted(expected, key=lambda each: each.connection)
        assert not fast.pairing.single_connections or any(talk.in_flight for talk in talks)


# ------------------------------------------------------------ from one path to the other and back
def whole_file(folder: Path, talk: Talk, **options: bool) -> None:
    """Read a talk in blocks of several sizes and on both paths; all must give its exchanges."""
    records = packets(talk, Random(7), most=200, **options)
    first = capture_of(folder, records)
    for block_size in BLOCKS[:-1]:
        assert outcome(capture_of(folder, records, block_size)) == outcome(first)
    assert outcome(capture_of(folder, records, BLOCKS[0], Thorough)) == outcome(first)
    assert exchanges(first) == talk.exchanges


def ways(folder: Path, talk: Talk, block_size: int, **options: bool) -> list[bool]:
    """After each block, whether connection 0 is on the fast path."""
    seen: list[bool] = []

    class WatchedCapture(Capture):
        def _pair(self, block: SegmentBlock) -> None:
            super()._pair(block)
            seen.append(bool(self.pairing.ordinary[:1].any()))

    capture_of(folder, packets(talk, Random(7), most=200, **options), block_size, WatchedCapture)
    return seen


def test_raw_tokens_and_plain_frames_after_them(tmp_path: Path) -> None:
    """SaslHandshake v0 in the middle: its tokens take the thorough path, later frames the fast one."""
    talk = Talk(0)
    for correlation_id in range(40):
        talk.exchange(correlation_id)
    talk.exchange(40, key=SASL_HANDSHAKE, version=0, body=b"\0\5PLAIN")
    talk.token(b"\0alice\0secret", b"")
    for correlation_id in range(41, 120):
        talk.exchange(correlation_id)
    whole_file(tmp_path, talk)
    seen = ways(tmp_path, talk, 2000)
    assert (seen[0], False in seen, seen[-2]) == (True, True, True)


def test_capture_that_begins_inside_the_connection(tmp_path: Path) -> None:
    """First the client side must be determined; then the connection takes the fast path."""
    talk = Talk(0)
    for correlation_id in range(700, 720):
        talk.exchange(correlation_id)
    whole_file(tmp_path, talk, handshake=False)
    for correlation_id in range(720, 800):
        talk.ask(correlation_id, b"\0" * 20_000)
        talk.answer()
    records = packets(talk, Random(7), most=1448, handshake=False)
    capture = capture_of(tmp_path, records, 1 << 17)
    assert exchanges(capture) == talk.exchanges
    assert outcome(capture) == outcome(capture_of(tmp_path, records))
    assert capture.pairing.ordinary[0]


def test_repeated_correlation_ids_are_paired_in_order(tmp_path: Path) -> None:
    """Old Scala clients repeat them; the order decides."""
    talk = Talk(0)
    for _ in range(10):
        talk.ask(5)
        talk.ask(5, b"\0\0\0\1\0\1x")
        talk.answer(b"\1")
        talk.answer(b"\2\2")
    whole_file(tmp_path, talk)
    assert all(ways(tmp_path, talk, 1000))


def test_a_response_that_nobody_asked_for(tmp_path: Path) -> None:
    """Correlation ID 999 in the middle is an orphan; the conversation continues, and returns to the fast path."""
    talk = Talk(0)
    for correlation_id in range(20):
        talk.exchange(correlation_id)
    talk.ask(20)
    talk.ask(21)
    talk.messages.append((False, b"\0\0\0\6\0\0\3\xe7\0\0"))  # size, correlation ID 999, two bytes
    talk.answer()
    talk.answer()
    for correlation_id in range(22, 90):
        talk.exchange(correlation_id)
    records = packets(talk, Random(3), most=200)
    first = capture_of(tmp_path, records)
    found = exchanges(first)
    orphans = [each for each in found if Flag.ORPHAN in each.flags]
    assert [(each.correlation_id, each.response_size, each.api_key) for each in orphans] == [(999, 10, -1)]
    assert [each for each in found if each not in orphans] == talk.exchanges
    for block_size in BLOCKS[:-1]:
        assert outcome(capture_of(tmp_path, records, block_size)) == outcome(first)
    assert outcome(capture_of(tmp_path, records, BLOCKS[0], Thorough)) == outcome(first)
    seen = ways(tmp_path, talk, 2000)
    assert (False in seen, seen[-2]) == (True, True)


def test_answers_to_requests_that_need_none(tmp_path: Path) -> None:
    """noida 0.2 answers Produce with acks=0: the response is shown with its request, in blocks of any size."""
    talk = Talk(0)
    for correlation_id in range(60):
        talk.produce(correlation_id, 0, 9)
        if correlation_id % 3:
            talk.exchange(1000 + correlation_id, key=12, version=4)
        sent = b"\0\0\0\6\0\0\0" + bytes([correlation_id]) + b"\0\0"
        talk.messages.append((False, sent))
        at = max(n for n, each in enumerate(talk.exchanges) if each.api_key == 0)
        talk.exchanges[at] = talk.exchanges[at]._replace(response_size=len(sent))
    whole_file(tmp_path, talk)


@pytest.mark.sample(2)
@pytest.mark.parametrize("lost", [30, 31, 32, 33, 60])
def test_a_lost_packet(tmp_path: Path, lost: int) -> None:
    """A loss damages no other exchange, and the connection returns to the fast path."""
    talk = Talk(0)
    for correlation_id in range(150):
        talk.exchange(correlation_id, body=b"\0" * (correlation_id % 7) * 9)
    records = packets(talk, Random(lost), most=90)
    del records[lost]
    first = capture_of(tmp_path, records)
    whole = [each for each in exchanges(first) if not each.flags]
    assert len(whole) >= 148
    assert set(whole) <= set(talk.exchanges)
    for block_size in BLOCKS[:-1]:
        assert outcome(capture_of(tmp_path, records, block_size)) == outcome(first)
    assert outcome(capture_of(tmp_path, records, BLOCKS[0], Thorough)) == outcome(first)
    assert first.pairing.ordinary[0]


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 2**32), block_size=st.sampled_from(BLOCKS))
def test_lost_packets_give_the_same_both_ways(seed: int, block_size: int) -> None:
    rng = Random(seed)
    records = packets(random_talk(rng, 0), rng, most=400)
    kept = [record for record in records if rng.random() > 0.05]
    with TemporaryDirectory() as folder:
        thorough = outcome(capture_of(Path(folder), kept, block_size, Thorough))
        assert outcome(capture_of(Path(folder), kept, block_size)) == thorough


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    count=st.sampled_from((2, 3, 5, 100)),
    share=st.sampled_from((0.0, 0.01, 0.05)),
    block_size=st.sampled_from(BLOCKS),
)
@example(
    seed=524288, count=3, share=0.05, block_size=1000
)  # everything in flight at the end may have been answered
def test_several_client_ids_give_the_same_both_ways(
    seed: int, count: int, share: float, block_size: int
) -> None:
    """All client IDs of a connection confirm where its frames continue, and that a large frame is plausible."""
    rng = Random(seed)
    names = [*("app", "orders", "a\0b", "größe", None)[:count], *(f"client-{each}" for each in range(count))]
    talk, huge = Talk(0), rng.random() < 0.3
    for correlation_id in range(rng.randrange(5, 150)):
        talk.ask(correlation_id, rng.randbytes(rng.choice((4, 4, 60))), client_id=rng.choice(names))
        while talk.in_flight and rng.random() < 0.6:
            talk.answer(rng.randbytes(rng.choice((0, 2, 40))))
    if huge:
        at = rng.choice([at for at, (asks, _) in enumerate(talk.messages) if asks])
        talk.messages[at] = True, b"\x20" + talk.messages[at][1][1:]
    records = packets(talk, rng, most=rng.choice((20, 100, 1448)))
    kept = [record for record in records if rng.random() >= share]
    with TemporaryDirectory() as folder:
        thorough = outcome(capture_of(Path(folder), kept, block_size, Thorough))
        assert outcome(capture_of(Path(folder), kept, block_size)) == thorough


def test_a_request_without_a_client_id_in_its_header(tmp_path: Path) -> None:
    """ControlledShutdown v0 (ControlledShutdownRequest.json): the broker's ID follows the correlation ID."""
    talk = Talk(0)
    for correlation_id in range(20):
        talk.exchange(correlation_id)
        talk.exchange(100 + correlation_id)
        asked = bytes.fromhex("0000000c 0007 0000") + (100 + correlation_id).to_bytes(4) + b"\0\1\0\5"
        talk.messages[-2] = True, asked
        was = talk.exchanges[-1]
        talk.exchanges[-1] = was._replace(api_key=7, version=0, client_id=None, request_size=len(asked))
    whole_file(tmp_path, talk)


def test_a_large_frame_of_a_client_id_that_was_not_the_latest(tmp_path: Path) -> None:
    """Half a gigabyte is plausible for a client ID that the connection used before. Found by fuzzing."""
    talk = Talk(0)
    talk.exchange(1, client_id="consumer-1")
    talk.exchange(2, client_id="cnnsumer-1")
    talk.ask(3, client_id="consumer-1")
    talk.messages[-1] = True, b"\x20" + talk.messages[-1][1][1:]
    for seed in range(5):
        records = packets(talk, Random(seed), most=20)
        found = exchanges(capture_of(tmp_path, records, kind=Thorough))
        assert found[-1] == talk.exchanges[-1]._replace(
            request_size=len(talk.messages[-1][1]) + 0x2000_0000,
            flags=Flag.UNANSWERED | Flag.REQUEST_DAMAGED,
        )
        for block_size in (256, *BLOCKS):
            assert exchanges(capture_of(tmp_path, records, block_size)) == found


def test_bytes_in_front_of_a_gap_that_came_after_those_behind_it(tmp_path: Path) -> None:
    """The beginning of a hole is retransmitted too late; the rest never arrives. Found by fuzzing."""
    talk = Talk(0)
    for correlation_id in range(5):
        talk.exchange(correlation_id, body=b"x" * 40)
    asked = b"".join(data for from_client, data in talk.messages if from_client)
    answered = b"".join(data for from_client, data in talk.messages if not from_client)
    wire = Conversation()
    wire.handshake()
    wire.send(22, asked[22:80])
    wire.send(0, answered[:5], ack=80, from_client=False)
    wire.send(0, asked[:2])
    wire.now += 2 * GRACE
    for at in range(80, len(asked), 30):
        wire.send(at, asked[at : at + 30])
    wire.send(5, answered[5:], ack=len(asked), from_client=False)
    first = capture_of(tmp_path, wire.records)
    assert len(first.table) > 2
    assert outcome(capture_of(tmp_path, wire.records, 256)) == outcome(first)
    assert outcome(capture_of(tmp_path, wire.records, BLOCKS[0], Thorough)) == outcome(first)


ODD_IDS = ("consu\0er-1", "\x1b[2J", "\0", "\u202eorders", "x" * 70 + "\n", "a\ufffdb", "\x9b" * 64)


@pytest.mark.sample(4)
@pytest.mark.parametrize("client_id", ODD_IDS, ids=ascii)
def test_client_ids_that_are_no_text(tmp_path: Path, client_id: str) -> None:
    """They are Kafka nevertheless, and take the fast path once they are synchronised. Found by fuzzing."""
    talk = Talk(0)
    for correlation_id in range(40):
        talk.exchange(correlation_id, client_id=client_id)
    whole_file(tmp_path, talk)
    assert ways(tmp_path, talk, 1000)[-2]


def test_a_client_id_that_is_no_utf_8(tmp_path: Path) -> None:
    """Brokers accept it; both paths show a replacement character, also after a gap."""
    talk = Talk(0)
    for correlation_id in range(40):
        talk.exchange(correlation_id, client_id="Ger__t")
    talk.messages = [(asks, data.replace(b"Ger__t", b"Ger\xe4\xe4t")) for asks, data in talk.messages]
    talk.exchanges = [each._replace(client_id="Ger\ufffd\ufffdt") for each in talk.exchanges]
    whole_file(tmp_path, talk)
    records = packets(talk, Random(7), most=60)
    del records[30]
    first = capture_of(tmp_path, records)
    assert len([each for each in exchanges(first) if each.client_id and not each.flags]) >= 36
    assert outcome(capture_of(tmp_path, records, 500)) == outcome(first)
    assert outcome(capture_of(tmp_path, records, BLOCKS[0], Thorough)) == outcome(first)


def test_a_connection_that_only_looks_like_kafka(tmp_path: Path) -> None:
    """The first header is valid, but the body is not a Metadata request: neither path takes it for Kafka."""
    talk = Talk(0)
    talk.ask(1, b"\0\0\0\x05", client_id="postgres\0data")
    records = packets(talk, Random(1))
    for kind in (Capture, Thorough):
        assert len(capture_of(tmp_path, records, kind=kind).table) == 0


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    client_id=st.one_of(st.sampled_from(ODD_IDS), st.text(max_size=80)),
    other=st.one_of(st.sampled_from(("app", None)), st.text(max_size=9)),
    block_size=st.sampled_from(BLOCKS),
)
def test_any_client_id_gives_the_same_both_ways(
    seed: int, client_id: str, other: str | None, block_size: int
) -> None:
    """All bodies are arbitrary, including the first: both paths must agree whether it is Kafka."""
    rng = Random(seed)
    talk = Talk(0)
    for correlation_id in range(rng.randrange(1, 20)):
        body = rng.choice((b"\0\0\0\0", b"\0\0\0\0", rng.randbytes(40)))
        talk.ask(correlation_id, body, client_id=rng.choice((client_id, client_id, other)))
        while talk.in_flight and rng.random() < 0.6:
            talk.answer(rng.randbytes(rng.choice((0, 2, 40))))
    records = packets(talk, rng, most=rng.choice((20, 100, 1448)))
    with TemporaryDirectory() as folder:
        thorough = outcome(capture_of(Path(folder), records, block_size, Thorough))
        assert outcome(capture_of(Path(folder), records, block_size)) == thorough


def test_bytes_that_are_no_kafka(tmp_path: Path) -> None:
    talk = Talk(0, [(True, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"), (False, b"HTTP/1.1 200 OK\r\n\r\n")])
    capture = capture_of(tmp_path, packets(talk, Random(1)))
    assert len(capture.table) == 0
    assert capture.foreign[0].startswith("HTTP")


def test_frames_that_end_with_the_capture(tmp_path: Path) -> None:
    talk = Talk(0)
    talk.exchange(1)
    talk.ask(2, b"\0" * 600)
    records = packets(talk, Random(2), most=100)
    for cut in (1, 2, 3):
        capture = capture_of(tmp_path, records[:-cut])
        assert outcome(capture) == outcome(capture_of(tmp_path, records[:-cut], 1000))
        assert outcome(capture) == outcome(capture_of(tmp_path, records[:-cut], 1000, Thorough))
        last = exchanges(capture)[-1]
        assert last.flags == Flag.UNANSWERED | Flag.REQUEST_DAMAGED
        request = capture.frame(0, "request", 35, last.request_size)  # exchange 1 is 4 + 27 + 4 bytes long
        assert request is not None
        assert not request.complete
        assert 0 < len(request.payload) < last.request_size - 4
        assert "were not captured" in request.reason


def test_no_such_frame_and_no_such_file(tmp_path: Path) -> None:
    talk = Talk(0)
    talk.exchange(1)
    capture = capture_of(tmp_path, packets(talk, Random(1)))
    assert capture.frame(0, "request", 0, 0) is None
    with pytest.raises(CaptureError):
        open_capture(str(tmp_path / "absent.pcap"))


@needs_reference
@pytest.mark.sample(1)
@pytest.mark.parametrize("group", range(8))
def test_real_captures_both_ways_and_in_small_blocks(group: int) -> None:
    differing = []
    for path in sorted(captures_dir().glob("[0-9]*.pcap*"))[group::8]:
        whole = open_capture(str(path))
        whole.read()
        for block_size, kind in ((30_000, Capture), (1 << 22, Thorough)):
            other = kind(open_source(str(path)), block_size)
            other.read()
            if outcome(other) != outcome(whole):
                differing.append((path.name, block_size, kind.__name__))
    assert not differing


@pytest.mark.parametrize("block_size", [256, 400, 1000])
def test_an_answer_and_bytes_of_a_hole_that_come_behind_it(tmp_path: Path, block_size: int) -> None:
    """Two bytes of the first request come after its response, and the others never.

    Both are read in capture order, even if a block ends between them. Found by fuzzing.
    """
    asked = [streams.request(each, b"x" * 20) for each in range(1, 8)]
    sent, start = b"".join(asked), len(asked[0])
    wire = Conversation()
    wire.handshake()
    wire.send(start, asked[1])
    wire.send(0, streams.response(1), ack=start + len(asked[1]), from_client=False)
    wire.send(0, sent[:2])
    for at in range(start + len(asked[1]), len(sent), 7):
        wire.send(at, sent[at : at + 7])
    whole = outcome(capture_of(tmp_path, wire.records))
    assert [row["correlation_id"] for row in whole[0]] == [2, 3, 4, 5, 6, 7]
    assert outcome(capture_of(tmp_path, wire.records, block_size)) == whole


@pytest.mark.parametrize("block_size", [256, 400, 1000])
def test_frames_inside_of_what_looked_like_one(tmp_path: Path, block_size: int) -> None:
    """A size of 128 MiB is accepted until the request's version is seen: the frames after it keep their packets."""
    asked = [streams.request(each, b"x" * 20) for each in range(1, 8)]
    asked[2] = b"\x08" + asked[2][1:6] + b"\x7f" + asked[2][7:]
    wire, at = Conversation(), 0
    wire.handshake()
    for request in asked:
        for piece in (request[:9], request[9:]):
            wire.send(at, piece)
            at += len(piece)
    for capture in (
        capture_of(tmp_path, wire.records, block_size),
        capture_of(tmp_path, wire.records, block_size, Thorough),
    ):
        found = {row["correlation_id"]: row["packet"] for row in rows(capture)}
        assert [found[each] for each in (1, 2, 5, 6, 7)] == [4, 6, 12, 14, 16]
