"""Synthetic traffic with all kinds of trouble: loss, reordering, repetition, cuts, clocks, ends, and port reuse."""

from __future__ import annotations

import io
from dataclasses import replace
from random import Random

from captures.packets import ACK, FIN, RST
from tests.captures.exchanges.talk import Talk, random_talk
from tests.captures.packets.kit import MS, T0, Conversation, Record, packet

_HEAD = 54
"""Ethernet, IPv4 and TCP headers without options."""

TROUBLE = ("lost", "again", "differs", "cut", "keep-alive")
"""What :func:`troubled` does to packets."""


def long_talk(rng: Random, number: int) -> Talk:
    """Several talks of one client on one connection."""
    made = random_talk(rng, number)
    for _ in range(rng.randrange(3)):
        more = random_talk(rng, number)
        first = len(made.messages)
        made.messages[first:] = more.messages
    return made


def packets(
    talk: Talk,
    rng: Random,
    *,
    isn: tuple[int, int] = (1000, 5000),
    handshake: bool = True,
    most: int = 1448,
    end: str = "",
) -> list[Record]:
    """Cut a talk into packets, with acknowledgments now and then.

    :param isn: initial sequence numbers of client and broker
    :param end: ``fin``, ``rst``, or neither
    """
    made = Conversation(client=("10.0.0.1", 40_000 + talk.number), client_isn=isn[0], broker_isn=isn[1])
    if handshake:
        made.handshake()
    sent = {True: 0, False: 0}
    for from_client, data in talk.messages:
        stream = io.BytesIO(data)
        while piece := stream.read(rng.randint(1, most)):
            made.send(sent[from_client], piece, ack=sent[not from_client], from_client=from_client)
            sent[from_client] += len(piece)
            if rng.random() < 0.2:
                made.acknowledge(
                    sent[from_client], from_client=not from_client, position=sent[not from_client]
                )
    if end == "rst":
        made.put(rng.random() < 0.5, *_both(made, sent), RST | ACK)
    if end == "fin":
        made.put(True, sent[True], sent[False], FIN | ACK)
        made.put(False, sent[False], sent[True] + 1, FIN | ACK)
        made.acknowledge(sent[False] + 1, from_client=True, position=sent[True] + 1)
    return made.records


def _both(made: Conversation, sent: dict[bool, int]) -> tuple[int, int]:
    return sent[True], sent[False]


def troubled(
    records: list[Record], rng: Random, share: float, kinds: tuple[str, ...] = TROUBLE
) -> list[Record]:
    """Apply trouble to the packets of one connection.

    :param share: share of affected packets
    """
    out: list[tuple[float, Record]] = []
    for at, record in enumerate(records):
        payload = len(record.frame) - _HEAD
        kind = rng.choice(kinds) if rng.random() < share else ""
        later = at + rng.choice((0.5, 1.5, 2.5, 7.5, 30.5) if kind != "late" else (1.5, 2.5))
        if kind == "lost":
            continue
        if kind in ("again", "differs", "keep-alive") and payload > 0:
            out.append((at, record))
            frame = bytearray(record.frame)
            if kind == "differs":
                frame[-rng.randint(1, payload)] ^= 0x55
            if kind == "keep-alive":
                frame = frame[: _HEAD + 1]
            out.append((later, Record(bytes(frame))))
            continue
        if kind == "cut" and payload > 0:
            out.append((at, Record(record.frame[: _HEAD + rng.randrange(payload)], wire=len(record.frame))))
            continue
        out.append((later if kind == "late" else at, record))
    return [record for _, record in sorted(out, key=lambda each: each[0])]


def timed(records: list[Record], rng: Random, *, odd: bool = False) -> list[Record]:
    """Give packets their times: mostly a millisecond apart, with pauses.

    :param odd: packets of several queues that are not quite in order, and clocks that are set back
    """
    now, out = T0, []
    for record in records:
        draw = rng.random()
        now += 60 * MS if draw < 0.02 else 400 * MS if draw < 0.03 else 61_000 * MS if draw < 0.031 else MS
        if odd and rng.random() < 0.01:
            now -= rng.choice((3 * MS, 70 * MS, 1500 * MS, 5000 * MS))
        jitter = rng.randrange(40 * MS) if odd and rng.random() < 0.1 else 0
        out.append(replace(record, time=now - jitter))
    return out


def mixed(connections: list[list[Record]], rng: Random) -> list[Record]:
    """Mix the packets of several connections, each in its order and in bursts."""
    waiting = [list(reversed(records)) for records in connections if records]
    out: list[Record] = []
    while waiting:
        queue = rng.choice(waiting)
        count = min(rng.choice((1, 1, 2, 8)), len(queue))
        out += [queue.pop() for _ in range(count)]
        waiting = [each for each in waiting if each]
    return out


def traffic(rng: Random, *, connections: int = 3, trouble: float = 0.05, odd: bool = False) -> list[Record]:
    """Make a capture of several connections; some begin before it, some follow others on the same port."""
    made: list[list[Record]] = []
    for number in range(connections):
        records: list[Record] = []
        for generation in range(rng.choice((1, 1, 1, 2, 3))):
            isn = (rng.randrange(1 << 32), rng.randrange(1 << 32))
            if rng.random() < 0.1 and generation:
                isn = (1000, 5000)
            records += packets(
                long_talk(rng, number),
                rng,
                isn=isn,
                handshake=generation > 0 or rng.random() < 0.8,
                most=rng.choice((50, 400, 1448)),
                end=rng.choice(("fin", "rst", "")),
            )
        made.append(troubled(records, rng, trouble) if rng.random() < 0.7 else records)
    everything = mixed(made, rng)
    if rng.random() < 0.3:
        del everything[: rng.randrange(len(everything) // 2 + 1)]
    return timed(everything, rng, odd=odd)


def stray(rng: Random) -> Record:
    """A packet without payload that belongs to no connection."""
    return Record(packet(("10.0.0.9", rng.randrange(1024, 65536)), ("10.0.0.2", 9092), 1, 1, ACK))
