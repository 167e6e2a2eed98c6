"""What commands make of captures whose messages hold anything: tables, groups, findings, journeys, exports.

The first byte of an input chooses the command. Then come exchanges: API key, version, a byte that says on which
connection and whether it was answered, how long it took, and the bodies of request and response.

* No command raises anything; it ends with one of the exit codes that are documented.
* What is printed as JSON can be read again.
* A scrubbed export has the same exchanges as the capture it was made of.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from click.testing import CliRunner, Result
from msgspec import json

from captures.exchanges import ExchangeReader, open_capture
from dissectors import apis
from dissectors.headers import request_header_version, response_header_version
from fuzz.target import Input, check, chunk
from fuzz.targets import packets
from kproxy.cli import main
from tests.captures.packets.kit import MS, Conversation, Record, pcap

LONGEST = 8192
SECONDS = 30

COMMANDS: tuple[tuple[str, ...], ...] = (
    ("read", "-V"),
    ("read", "--json"),
    ("stats",),
    ("stats", "--json"),
    ("groups",),
    ("groups", "--json"),
    ("diagnose",),
    ("diagnose", "--json"),
    ("lag",),
    ("lag", "--json"),
    ("clients", "--config"),
    ("clients", "--config", "--json"),
    ("compat", "--broker-version", "4.3"),
    ("api-versions",),
    ("journey", "--topic", "r2-java_eager_range"),
    ("follow", "app"),
    ("export", "--scrub", "-o"),
    ("export", "-o"),
)
_EXIT_CODES = (0, 1, 2, 3, 4)
_OUT = "out.pcapng"
_CONNECTIONS = 3
_MOST_EXCHANGES = 60
_GROUP_APIS = (1, 3, 8, 9, 10, 11, 12, 13, 14)


def run(data: bytes) -> None:
    """Make the capture and give it to a command."""
    given = Input(data)
    command = COMMANDS[given.number() % len(COMMANDS)]
    packets.on_disk(capture_of(given), lambda path: told(command, path))


def told(command: tuple[str, ...], path: Path) -> None:
    """Run a command in this process."""
    exported = path.with_name(_OUT)
    files = [str(exported), str(path)] if command[-1] == "-o" else [str(path)]
    result = CliRunner().invoke(main, [*command, *files], standalone_mode=True)
    raised(result)
    check(result.exit_code in _EXIT_CODES, "exit code", result.exit_code)
    if command[-1] == "--json":
        for line in result.stdout.splitlines():
            json.decode(line)
    if exported.exists():
        try:
            check(result.exit_code in (0, 3), "a file, and exit code", result.exit_code)
            check(brief(exported) == brief(path), "the export has other exchanges")
        finally:
            exported.unlink()


def raised(result: Result) -> None:
    """Raise what the command raised, if that is not how it ends."""
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception


def brief(path: Path) -> list[tuple[object, ...]]:
    """Return what a scrubbed capture has to have in common with the whole."""
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, gist=False)
    return [
        (each.api_key, each.version, each.correlation_id, each.request_size, each.response_size)
        for each in reader
    ]


def capture_of(given: Input) -> bytes:
    """Make a capture of what an input says."""
    wires = [connection(number) for number in range(_CONNECTIONS)]
    sent = [{True: 0, False: 0} for _ in wires]
    now, records = wires[0].now, []
    for number in range(_MOST_EXCHANGES):
        if not given:
            break
        key, version, how, took = (given.number() for _ in range(4))
        which = how % _CONNECTIONS
        wire, at = wires[which], sent[which]
        for from_client, body in ((True, given.chunk()), (False, given.chunk())):
            if not from_client and how & 0x80:
                continue
            message = framed(key, version, number, body, from_client)
            now += (took if not from_client else 1) * MS * (100 if how & 0x40 else 1)
            wire.now = now
            wire.send(at[from_client], message, ack=at[not from_client], from_client=from_client)
            at[from_client] += len(message)
    for wire in wires:
        records += wire.records
    records.sort(key=lambda record: record.time)
    return pcap(list[Record | bytes](records), nano=True)


@cache
def _handshake(number: int) -> tuple[Record, ...]:
    wire = Conversation(client=("10.0.0.1", 40_000 + number))
    wire.handshake()
    return tuple(wire.records)


def connection(number: int) -> Conversation:
    """Return a connection that has just begun."""
    wire = Conversation(client=("10.0.0.1", 40_000 + number))
    wire.records += _handshake(number)
    wire.now = wire.records[-1].time
    return wire


def framed(key: int, version: int, number: int, body: bytes, from_client: bool) -> bytes:
    """Return a message with its header and size."""
    known = apis.api(key)
    flexible = False
    if known is not None:
        message = known.request if from_client else known.response
        nearest = message.nearest(version)
        flexible = (request_header_version if from_client else response_header_version)(message, nearest) == (
            2 if from_client else 1
        )
    head = (
        struct.pack(">hhi", key, version, number) + b"\0\3app" if from_client else struct.pack(">i", number)
    )
    payload = head + b"\0" * flexible + body
    return len(payload).to_bytes(4, "big") + payload


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield, for each command, conversations of the sample, and all APIs with values of any kind."""
    from fuzz.targets.frames import smallest
    from tests.dissectors.values import Values

    group, *spoken = conversations()
    for number, command in enumerate(COMMANDS):
        yield f"{number}-{command[0]}", bytes((number,)) + spoken[number % len(spoken)]
        if command[0] in ("groups", "diagnose", "lag", "follow", "clients"):
            yield f"{number}-{command[0]}-group", bytes((number,)) + group
    for first in range(0, len(apis.NAMES), 8):
        said = b""
        for key in range(first, min(first + 8, len(apis.NAMES))):
            known = apis.api(key)
            assert known is not None
            version = known.request.versions.last
            bodies = (
                smallest(message[message.nearest(version)], f"{key} said", Values, 300)
                for message in (known.request, known.response)
            )
            said += bytes((key, version, key % 3, 3)) + b"".join(map(chunk, bodies))
        yield f"apis-{first}", bytes((6 + first % 2,)) + said


def conversations(most: int = 3000) -> Iterator[bytes]:
    """Yield the beginnings of the sample's connections as inputs, without the command; first what groups say."""
    from fuzz.targets.pcap import sample

    said = list(packets.on_disk(sample(1 << 20), _sample))
    group, size = b"", 0
    for connection_, key, exchange in said:
        if key in _GROUP_APIS and size + len(exchange) <= 2 * most:
            group += exchange[:2] + bytes((exchange[2] & 0x80 | connection_ % _CONNECTIONS,)) + exchange[3:]
            size += len(exchange)
    by_connection: dict[int, bytes] = {}
    for connection_, _, exchange in said:
        more = by_connection.get(connection_, b"") + exchange
        if len(more) <= most:
            by_connection[connection_] = more
    yield group
    yield from (data for data in by_connection.values() if len(data) > 500)


def _sample(path: Path) -> Iterator[tuple[int, int, bytes]]:
    """Return connection and API key of each exchange of a capture, and the exchange as inputs have it."""
    capture = open_capture(str(path))
    capture.read()
    found = []
    for exchange in ExchangeReader(capture, annotate=False):
        asked, answered = exchange.request, exchange.response
        if asked is not None and exchange.api_key is not None and exchange.version is not None:
            bodies = [b"" if body is None else body.raw[body.start - 4 :] for body in (asked, answered)]
            took = min((exchange.latency or 0) // MS, 255)
            head = bytes((exchange.api_key, exchange.version, 0 if answered else 0x80, took))
            found.append((exchange.connection, exchange.api_key, head + b"".join(map(chunk, bodies))))
    return iter(found)
