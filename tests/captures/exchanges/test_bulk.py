"""The bulk path: pairing by rank, and connections it hands over."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.exchanges import Capture, Flag
from captures.exchanges.bulk import _nth_of
from captures.packets import SegmentBlock
from dissectors.conversation.broker import NOT_A_RESPONSE
from tests.captures.exchanges.talk import Talk, Thorough, capture_of, exchanges, outcome, packets
from tests.captures.packets.kit import Conversation
from tests.dissectors.conversation import streams


@given(groups=st.lists(st.integers(0, 5)), members=st.lists(st.integers(0, 5)))
def test_nth_member_of_a_group(groups: list[int], members: list[int]) -> None:
    groups.sort()
    places = defaultdict(list)
    for place, group in enumerate(groups):
        places[group].append(place)
    seen: dict[int, int] = defaultdict(int)
    expected = []
    for member in members:
        rank, of_group = seen[member], places[member]
        expected.append(of_group[rank] if rank < len(of_group) else -1)
        seen[member] += 1
    assert _nth_of(np.array(groups, np.int64), np.array(members, np.int64)).tolist() == expected


def taken(folder: Path, talk: Talk, block_size: int = 1 << 22) -> list[int]:
    """Return the connections that the bulk path hands over, in order."""
    given_up: list[int] = []

    class WatchedCapture(Capture):
        def _pair(self, block: SegmentBlock) -> None:
            before = self.pairing.ordinary.copy()
            super()._pair(block)
            given_up.extend(np.flatnonzero(before & ~self.pairing.ordinary[: len(before)]).tolist())
            new = self.pairing.ordinary[len(before) :]
            given_up.extend((len(before) + np.flatnonzero(~new)).tolist())

    capture = capture_of(folder, packets(talk, Random(1)), block_size, WatchedCapture)
    assert exchanges(capture) == talk.exchanges
    return given_up


def ordinary(count: int = 30) -> Talk:
    talk = Talk(0)
    for correlation_id in range(count):
        talk.exchange(correlation_id)
    return talk


def test_an_ordinary_connection_is_kept(tmp_path: Path) -> None:
    assert taken(tmp_path, ordinary()) == []
    assert taken(tmp_path, ordinary(), 500) == []


@pytest.mark.parametrize("acks", [-1, 0, 1])
@pytest.mark.parametrize("version", [0, 2, 3, 7, 9, 13])
def test_acks_are_read_in_every_layout(tmp_path: Path, version: int, acks: int) -> None:
    talk = ordinary(3)
    talk.produce(3, acks, version)
    if acks:
        talk.answer()
    talk.exchange(4)
    assert taken(tmp_path, talk) == []
    expected = Flag(0) if acks else Flag.NO_RESPONSE_EXPECTED
    assert [each.flags for each in talk.exchanges if each.api_key == 0] == [expected]


def test_versions_of_later_releases_are_left_to_the_thorough_way(tmp_path: Path) -> None:
    talk = ordinary()
    talk.exchange(30, key=streams.METADATA, version=16)
    for correlation_id in range(31, 60):
        talk.exchange(correlation_id)
    assert taken(tmp_path, talk) == [0]


def test_a_size_that_no_frame_has(tmp_path: Path) -> None:
    """A TLS alert in place of a response reads as a size of 336 MiB."""
    talk = Talk(0)
    talk.ask(1, key=streams.API_VERSIONS, version=3)
    talk.messages.append(
        (False, bytes.fromhex("15030300020228"))
    )  # TLS 1.2 alert, decode_error; RFC 5246 7.2
    records = packets(talk, Random(1))
    for block_size in (256, 1 << 22):
        capture = capture_of(tmp_path, records, block_size)
        assert exchanges(capture) == talk.exchanges
        assert capture.foreign[0].startswith("TLS")


@pytest.mark.parametrize("block_size", [256, 600, 1 << 22])
def test_a_response_that_began_before_it_could_be_one(tmp_path: Path, block_size: int) -> None:
    """Bytes that read as a response of 32 MiB without a request are none, whatever comes later. Found by fuzzing.

    Frames after them are matched with the requests sent until then, and a whole block had more requests.
    """
    wire, asked, answered = Conversation(), b"", b""
    wire.handshake()
    # a size of 0x02000006 and an unused correlation ID, then two responses before their requests
    messages = [
        (True, streams.request(1)),
        (False, streams.response(1)),
        (False, bytes.fromhex("0200000600000803")),
        (True, streams.request(2) + streams.request(3)),
        *((False, streams.response(each)) for each in (3, 4, 5)),
        *((True, streams.request(each)) for each in (4, 5)),
    ]
    for from_client, data in messages:
        mine, peer = (asked, answered) if from_client else (answered, asked)
        wire.send(len(mine), data, ack=len(peer), from_client=from_client)
        asked, answered = (asked + data, answered) if from_client else (asked, answered + data)
    thorough = outcome(capture_of(tmp_path, wire.records, kind=Thorough))
    assert any(NOT_A_RESPONSE in skipped for skipped in thorough[1])
    assert outcome(capture_of(tmp_path, wire.records, block_size)) == thorough


@pytest.mark.slow
def test_head_bytes_that_end_inside_the_head(tmp_path: Path) -> None:
    """A frame whose first packet ends within its size field, with its end blocks later."""
    talk = Talk(0)
    talk.exchange(1, body=b"x" * 70_000)
    talk.exchange(2)
    records = packets(talk, Random(1), most=3)[: 3 + 2000]
    whole = capture_of(tmp_path, records)
    assert exchanges(capture_of(tmp_path, records, 256)) == exchanges(whole)
    full = packets(talk, Random(1), most=1448)
    assert exchanges(capture_of(tmp_path, full, 256)) == talk.exchanges
