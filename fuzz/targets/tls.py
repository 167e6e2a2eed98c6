"""TLS connections: records, handshakes and key logs, with and without the right keys.

An input is a byte of options, a key log, and steps: a byte with side and kind, and its data.

* Nothing raises, neither for records nor for lines of the key log.
* The positions of a side's decrypted bytes are contiguous; reported losses lie in the stream.
* A side that stopped yields nothing more. At the end nothing is pending.
* If nothing is missing, the division of the bytes into pieces does not matter.
* Held bytes are bounded.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

from captures.packets.tls import (
    DecryptionStopped,
    Event,
    KeyLog,
    MissingData,
    Plaintext,
    TlsConnection,
    is_client_hello,
    looks_like_tls,
)
from dissectors.budget import changed
from dissectors.conversation import Side
from fuzz.target import Input, check, chunk

LONGEST = 12288
SECONDS = 20

_SIDES = (Side.CLIENT, Side.BROKER)
_MOST_WAITING = 4096
_MOST_HELD = _MOST_WAITING + (1 << 16)

#: side, and bytes, or the number of missing bytes, or None: the connection ends
Step = tuple[Side, bytes | int | None]


def run(data: bytes) -> None:
    """Feed a connection, whole and in pieces."""
    given = Input(data)
    chosen, keys = given.number(), given.chunk()
    steps: list[Step] = []
    while given:
        what = given.number()
        side = _SIDES[what & 1]
        match what >> 1 & 3:
            case 0 | 1:
                steps.append((side, given.chunk()))
            case 2:
                steps.append((side, 1 + given.number(2)))
            case _:
                steps.append((side, None))
    whole = feed(steps, keys, chosen)
    told(whole, steps)
    if not chosen & 2 and all(isinstance(what, bytes) for _, what in steps):
        size = 1 + chosen % 50
        pieces: list[Step] = []
        for side, what in steps:
            assert isinstance(what, bytes)
            pieces += [(side, what[at : at + size]) for at in range(0, len(what), size)]
        again = feed(pieces, keys, chosen)
        for side in _SIDES:
            one, other = ([each for each in events if each.side is side] for events in (whole, again))
            check(one == other, "pieces of", size, "bytes give other events of the", side.value)


def feed(steps: list[Step], keys: bytes, chosen: int) -> list[Event]:
    """Return all output of a connection. An option delays its keys."""
    late = bool(chosen & 2)
    keylog = KeyLog(growing=late)
    if not late:
        keylog.add(keys)
    with changed(**{"tls_bytes": _MOST_WAITING} if chosen & 8 else {}):
        tls = TlsConnection(None if chosen & 4 else keylog)
    events: list[Event] = []
    for number, (side, what) in enumerate(steps):
        if isinstance(what, bytes):
            check(looks_like_tls(what[:64]) in (True, False, None), "looks like TLS?")
            check(is_client_hello(what[:64]) in (True, False, None), "is a ClientHello?")
            events += tls.receive(side, what)
        elif what is None:
            events += tls.finish()
        else:
            events += tls.gap(side, what)
        check(not chosen & 8 or tls.held <= _MOST_HELD, "held:", tls.held)
        if late and number == len(steps) // 2 and keylog.add(keys):
            events += tls.retry()
    events += tls.finish()
    check(not tls.waiting, "something waits after the end")
    check(tls.info.summary(), "nothing to be said about it")
    return events


def told(events: list[Event], steps: list[Step]) -> None:
    """Check that each side reports its bytes and losses in order."""
    for side in _SIDES:
        mine = [each for each in events if each.side is side]
        total = sum(
            len(what) if isinstance(what, bytes) else what or 0 for whose, what in steps if whose is side
        )
        position = 0
        for each in mine:
            if isinstance(each, Plaintext):
                check(
                    each.position == position, "decrypted bytes at", each.position, "are told as at", position
                )
                position += len(each.data)
            if isinstance(each, Plaintext | MissingData):
                check(0 <= each.start < each.end <= total, side, each.start, each.end, "of", total)
        stops = [number for number, each in enumerate(mine) if isinstance(each, DecryptionStopped)]
        check(stops in ([], [len(mine) - 1]), side, "says more after it stopped")


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield the beginnings of OpenSSL connections from the tests, with keys early and late, and hand-written hellos."""
    for path in sorted((Path(__file__).parents[2] / "tests" / "data" / "tls").glob("*.txt")):
        keys, steps = [], b""
        for line in path.read_text(encoding="ascii").splitlines():
            kind, _, rest = line.partition(" ")
            if kind == "key":
                keys.append(rest)
            elif kind != "#" and len(steps) + len(rest) // 2 < 6000:
                steps += bytes((_SIDES.index(Side(kind)),)) + chunk(bytes.fromhex(rest))
        log = chunk("\n".join(keys).encode() + b"\n")
        yield path.stem, b"\x31" + log + steps
        yield f"{path.stem}-late", b"\x0a" + log + steps
    hello = bytes.fromhex("0303") + bytes(32) + b"\0" + bytes.fromhex("0002130101000000")
    record = struct.pack(">BHHB", 22, 0x0301, len(hello) + 4, 1) + len(hello).to_bytes(3, "big") + hello
    yield "hello", b"\1" + chunk(b"") + b"\0" + chunk(record) + b"\1" + chunk(bytes.fromhex("15030300020228"))
    lines = (
        b"CLIENT_RANDOM " + b"0a" * 32 + b" " + b"0b" * 48 + b"\nRSA Session-ID:0c0d Master-Key:" + b"0e" * 48
    )
    yield "key-log", b"\1" + chunk(lines + b"\n# comment\nCLIENT_HANDSHAKE_TRAFFIC_SECRET 00 11\n")
