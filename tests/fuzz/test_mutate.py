"""Mutation of inputs: bytes, the packets of captures, the exchanges of conversations."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random

import pytest

from dissectors.errors import DecodeError
from fuzz.mutate import EXTREMES, havoc
from fuzz.target import Input, load
from fuzz.targets import exchanges, framing, packets


@cache
def seeds() -> list[bytes]:
    """Return the inputs to mutate; loading them takes a quarter of a second."""
    return [data for _, data in load("analyses").seeds()]


def test_bytes_are_changed_within_bounds_and_the_same_again() -> None:
    found = [havoc(b"0123456789" * 3, Random(number), 32, (b"word",), b"other") for number in range(300)]
    assert found == [
        havoc(b"0123456789" * 3, Random(number), 32, (b"word",), b"other") for number in range(300)
    ]
    assert max(map(len, found)) <= 32
    assert len(set(found)) > 250
    assert any(b"word" in data for data in found)
    assert any(b"\xff\xff\xff\xff" in data or b"\x7f\xff\xff\xff" in data for data in found)


def test_extremes_are_of_their_size() -> None:
    assert {size: set(map(len, values)) for size, values in EXTREMES.items()} == {
        1: {1},
        2: {2},
        4: {4},
        8: {8},
    }
    assert (1 << 63).to_bytes(8, "big") in EXTREMES[8]
    assert ((1 << 63) - 1).to_bytes(8, "big") in EXTREMES[8]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pcap", "pcapng"])
def test_captures_stay_captures(name: str) -> None:
    target, rng = load(name), Random(1)
    assert target.mutate is not None
    found = [data for _, data in target.seeds()]
    sound = 0
    for _ in range(60):
        read = packets.packets(target.mutate(rng.choice(found), rng.choice(found), rng))
        sound += read is not None and not read[1]["statistics"]["damage"]
    assert sound >= 40


@pytest.mark.parametrize(("name", "join"), [("pcap", framing.join_pcap), ("pcapng", framing.join_pcapng)])
def test_captures_are_joined_with_all_their_packets(name: str, join: framing.Join) -> None:
    found = [data for _, data in load(name).seeds()]
    found = [data for data in found if load(name).kin(data) == load(name).kin(found[0])]
    joined, left = join([*found, b"none"])
    assert left == [b"none"]
    together = packets.packets(joined)
    alone = [packets.packets(data) for data in found]
    assert together is not None
    assert together[1]["statistics"]["packets"] == sum(
        each[1]["statistics"]["packets"] for each in alone if each
    )


def said(data: bytes) -> list[exchanges.Said]:
    return list(exchanges.said_of(Input(data[1:])))


def test_exchanges_are_written_as_they_are_read() -> None:
    for data in seeds():
        assert data[:1] + b"".join(each.encoded() for each in said(data)) == data


def test_a_capture_has_the_exchanges_of_its_inputs() -> None:
    from fuzz.targets.commands import brief

    parties = [said(seeds()[0]), said(seeds()[3])]
    found = packets.on_disk(exchanges.capture_of(parties), brief)
    assert Counter((key, version) for key, version, *_ in found) == Counter(
        (each.key, each.version) for party in parties for each in party
    )


def test_exchanges_are_changed_as_their_declarations_say() -> None:
    """Most bodies can still be decoded; versions, keys and numbers are ones that nobody would send."""
    rng, decoded, count = Random(1), 0, 0
    versions, keys, bodies = set[int](), set[int](), b""
    for _ in range(300):
        for each in said(exchanges.mutate(rng.choice(seeds()), rng.choice(seeds()), rng, 10)):
            versions.add(each.version)
            keys.add(each.key)
            bodies += each.request + each.response
            message = exchanges.message_of(each.key, from_client=True)
            if message is not None and each.version in message.versions:
                count += 1
                try:
                    message[each.version].parse(each.request)
                except DecodeError:
                    continue
                decoded += 1
    assert decoded / count > 0.8
    assert {-1, -32768, 32767} <= versions
    assert {-1, 1000, 58} <= keys
    for number in (1 << 63) - 1, 1 << 63, (1 << 31) - 1:
        assert number.to_bytes(8, "big") in bodies
