"""One Kafka connection without I/O: bytes, gaps and ends of both sides.

The first byte of an input selects whether the capture starts in the middle of the connection, and the limit of held
bytes. The rest are steps: a byte with side and kind, and its data.

* Nothing raises. At the end both sides are closed and nothing is in flight.
* Each request has exactly one exchange and is seen before it, unless it was cut off.
* If everything was decoded and nothing was unusual, the division of the bytes into pieces does not matter. (Bytes that
  are not Kafka are judged as they arrive, so with garbage from one side, the timing of the other side may matter.)
* Whole frames, tokens and skipped ranges of a side do not overlap. (This is not checked after a gap of unknown length,
  because positions mean nothing there.)
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from dissectors.conversation import (
    Conversation,
    ConversationEnd,
    Damage,
    Event,
    FrameExchange,
    Limits,
    Outcome,
    RequestSeen,
    SaslToken,
    Side,
    SkippedBytes,
    State,
)
from dissectors.units import KIB
from fuzz.target import Input, check
from tests.dissectors.conversation.streams import SASL_HANDSHAKE, produce, request, response

LONGEST = 2048

_SMALL = Limits(
    max_frame=100, kept_prefix=20, max_pending_requests=5, resync_window=4 * KIB, foreign_window=1 * KIB
)
_SIDES = (Side.CLIENT, Side.BROKER)
_KEYS = (0, 1, 3, 7, 17, 18, 36, 99)

#: side, and bytes, or the number of missing bytes (None: unknown), or ``close``: the connection ends
Step = tuple[Side, bytes | int | str | None]


def run(data: bytes) -> None:
    """Feed the steps, whole and in pieces."""
    given = Input(data)
    chosen = given.number()
    steps = list(steps_of(given))
    whole = feed(steps, chosen)
    accounted(whole, steps)
    for size in (1, 1 + chosen // 4 % 7) if understood(whole) else ():
        check(feed(cut(steps, size), chosen) == whole, "pieces of", size, "bytes give other events")


def steps_of(given: Input) -> Iterator[Step]:
    """Read steps until the input ends."""
    while given:
        what = given.number()
        side = _SIDES[what & 1]
        match what >> 1 & 7:
            case 0 | 1:
                yield side, given.take(given.number())
            case 2:
                number, key, version, size = (given.number() for _ in range(4))
                name = None if version & 0x80 else "consumer-1"
                body = given.take(size)
                yield side, request(number, body, key=_KEYS[key % 8], version=version & 0x1F, client_id=name)
            case 3:
                number, size = given.number(), given.number()
                yield side, response(number, given.take(size))
            case 4:
                yield side, produce(given.number(), given.number() % 3 - 1, version=given.number() % 14)
            case 5:
                yield side, 1 + given.number()
            case 6:
                yield side, None
            case _:
                yield side, "close"


def feed(steps: list[Step], chosen: int) -> list[Event]:
    """Return the events of the steps."""
    conversation = Conversation(None, _SMALL if chosen & 2 else None, midstream=bool(chosen & 1))
    events: list[Event] = []
    for side, what in steps:
        if isinstance(what, bytes):
            conversation.receive(side, what)
        elif isinstance(what, str):
            conversation.finish()
        else:
            conversation.gap(side, what, "lost")
        events += conversation.events()
    conversation.finish()
    events += conversation.events()
    check(all(conversation.state(side) is State.CLOSED for side in _SIDES), "not closed")
    check(not conversation._pairing.queue, "in flight")
    check(events and isinstance(events[-1], ConversationEnd), "not finished")
    return events


def cut(steps: list[Step], size: int) -> list[Step]:
    """Cut all bytes into pieces of a size."""
    made: list[Step] = []
    for side, what in steps:
        if isinstance(what, bytes):
            made += [(side, what[at : at + size]) for at in range(0, len(what), size)]
        else:
            made.append((side, what))
    return made


def understood(events: list[Event]) -> bool:
    """Return whether there are only whole, paired frames, and matching tokens."""
    tokens = [event.side for event in events if isinstance(event, SaslToken)]
    if tokens.count(Side.BROKER) > tokens.count(Side.CLIENT):
        return False
    for event in events:
        match event:
            case FrameExchange(asked, answer, outcome, _):
                frames = [frame for frame in (asked, answer) if frame is not None]
                if outcome is Outcome.ORPHAN_RESPONSE or any(frame.damage for frame in frames):
                    return False
            case RequestSeen(asked) if asked.suspicious:
                return False
            case RequestSeen() | SaslToken() | ConversationEnd():
                pass
            case _:
                return False
    return True


def accounted(events: list[Event], steps: list[Step]) -> None:
    """Check that each request has one exchange, and that no byte belongs to two events."""
    seen: list[int] = []
    done: list[int] = []
    spans: dict[Side, list[tuple[int, int]]] = {side: [] for side in _SIDES}
    for event in events:
        match event:
            case RequestSeen(asked):
                seen.append(asked.start)
            case FrameExchange(asked, answer, _, _):
                for frame in (asked, answer):
                    if frame is not None and frame.damage is None:
                        spans[frame.side].append((frame.start, frame.end))
                if asked is not None and asked.damage is not Damage.CUT_OFF:
                    check(asked.start in seen, "an exchange without a request at", asked.start)
                    done.append(asked.start)
            case SaslToken(side, start, end) | SkippedBytes(side, start, end):
                spans[side].append((start, end))
    check(sorted(seen) == sorted(done) and len(set(done)) == len(done), "requests", seen, "exchanges", done)
    if any(what is None for _, what in steps):
        return
    for side, found in spans.items():
        found.sort()
        for (start, end), (following, _) in pairwise(found):
            check(start <= end <= following, side, "overlap:", (start, end), following)
        total = sum(len(what) for whose, what in steps if whose is side and isinstance(what, bytes))
        total += sum(what for whose, what in steps if whose is side and isinstance(what, int))
        check(all(start <= total for start, _ in found), side, "beyond its", total, "bytes")


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield conversations: pipelined, without responses, with tokens, with gaps, of another protocol."""

    def ask(number: int, key: int = 2, version: int = 1, body: bytes = b"\0\0\0\0") -> bytes:
        return bytes((4, number, key, version, len(body))) + body

    def answer(number: int, body: bytes = b"\0\0") -> bytes:
        return bytes((7, number, len(body))) + body

    def raw(side: int, data: bytes) -> bytes:
        return bytes((side, len(data))) + data

    yield "plain", b"\0" + b"".join(ask(n) + answer(n) for n in range(4))
    yield "pipelined", b"\0" + ask(1) + ask(2) + ask(3) + answer(1) + answer(2)
    yield "acks-0", b"\0" + bytes((8, 1, 1, 7)) + bytes((8, 2, 2, 9)) + answer(2)
    token = b"\0alice\0secret"
    framed = len(token).to_bytes(4, "big") + token
    handshake = ask(1, _KEYS.index(SASL_HANDSHAKE), 0, b"\0\5PLAIN") + answer(1, b"\0\0\0\0\0\0")
    yield "tokens", b"\0" + handshake + raw(0, framed) + raw(1, b"\0\0\0\0") + ask(2) + answer(2)
    yield "gap", b"\0" + ask(1) + answer(1) + bytes((10, 9)) + ask(3) + ask(4) + answer(3) + answer(4)
    yield "gap-unknown", b"\1" + ask(1) + bytes((13,)) + answer(1) + ask(2) + answer(2) + b"\x0e\x0f"
    yield "small", b"\2" + ask(1, body=bytes(200)) + answer(1, bytes(150)) + b"".join(map(ask, range(2, 10)))
    yield "http", b"\0" + raw(0, b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n") + raw(1, b"HTTP/1.1 400\r\n\r\n")
    hello, alert = bytes.fromhex("1603010040010000 3c0303") + bytes(58), bytes.fromhex("15030300020228")
    yield "tls", b"\0" + raw(0, hello) + raw(1, alert)
    yield "middle", b"\1" + raw(0, bytes(30)) + ask(70) + answer(70) + ask(71) + answer(71)
