"""Request logs of brokers: the whole input is the log.

* It is read as packets of its entries; nothing raises, whether or not users would see the error.
* The block size changes nothing: packets, and the damage reported for skipped lines.
* Encoded entries can be decoded: no exchange of a log has undecodable bytes.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from copy import deepcopy
from io import BytesIO
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

from captures.exchanges import ExchangeReader, open_capture
from captures.packets import CaptureError
from captures.packets.feeds import FileFeed
from captures.request_log.feed import RequestLogFeed
from captures.request_log.lines import REQUEST_LOG_MARK
from dissectors.budget import changed
from fuzz.mutate import havoc
from fuzz.target import check
from fuzz.targets import packets

LONGEST = 16384

_LOGS = Path(__file__).parents[2] / "tests" / "data" / "request_log"
_LINE_BYTES = 12_000  # so that some lines exceed the limit
_PIECE = 997
_LONGEST_SEED = 6_000
_EXTREMES: tuple[Any, ...] = (
    *(None, True, -1, 0, 127, 128, 255, 1 << 15, 1 << 31, 1 << 63, -(1 << 63), 10**40, 1.5, 1e308, "NaN"),
    *("", "x", "é", "AAAA", "\x1b[2J", "x" * 300, [], {}, [1], [None], ["x"], [[]], [{}], {"a": 1}),
)


def run(data: bytes) -> None:
    """Read the log whole and in pieces, or up to its exchanges; the input's bytes decide."""
    with changed(log_line_bytes=_LINE_BYTES):
        if crc32(data) & 3:
            in_pieces(data)
        else:
            exchanges(data)


def every(data: bytes) -> None:
    """Run both checks."""
    with changed(log_line_bytes=_LINE_BYTES):
        in_pieces(data)
        exchanges(data)


class _Pieces(FileFeed):
    def read(self, size: int) -> bytes:
        return super().read(min(size, _PIECE))


def in_pieces(data: bytes) -> None:
    """Check that reading in pieces gives the same packets and the same damage."""
    whole, pieces = (_read(kind(BytesIO(data))) for kind in (FileFeed, _Pieces))
    check("fault" not in whole[1] or b"fault" in data, whole[1])
    check(whole[0] == pieces[0], "pieces of", _PIECE, "bytes give other packets")
    if (
        max(map(len, data.split(b"\n"))) < _LINE_BYTES
    ):  # what is read of a longer line depends on where the block ends
        check(whole[1] == pieces[1], "pieces of", _PIECE, "bytes say:", pieces[1], "instead of:", whole[1])


def _read(log: FileFeed) -> tuple[bytes, str]:
    feed = RequestLogFeed({"": log})
    return b"".join(iter(lambda: feed.read(1 << 16), b"")), feed.damage


def exchanges(data: bytes) -> None:
    """Check that all exchanges can be shown and decoded."""
    try:
        packets.on_disk(data, _shown)
    except CaptureError as error:
        check(error.reason, "an error without a reason")


def _shown(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    packets.shown(capture)
    for exchange in ExchangeReader(capture, annotate=False, summary=False):
        for body in (exchange.request, exchange.response):
            check(body is None or not body.problems, exchange.api, body and body.problems)


# ---------------------------------------------------------------- changing a log
def mutate(data: bytes, other: bytes, rng: Random) -> bytes:
    """Return a log with mutated lines: changed as JSON, wrapped, repeated, removed, or copied from another log."""
    lines = data.split(b"\n")
    for _ in range(1 + rng.getrandbits(1)):
        at = rng.randrange(len(lines))
        match rng.randrange(12):
            case 0:
                lines.insert(at, rng.choice(other.split(b"\n")))
            case 1:
                lines.insert(at, lines[at])
            case 2:
                del lines[at : at + 1]
                lines = lines or [b""]
            case 3:
                lines[at] = havoc(lines[at], rng, LONGEST, other=other)
            case 4:
                lines[at] = _wrapped(lines[at], rng)
            case _:
                lines[at] = _edited(lines[at], rng)
    return b"\n".join(lines)


def _wrapped(line: bytes, rng: Random) -> bytes:
    """Wrap a line like container runtimes and logging layouts do, in parts of a size."""
    text = line.decode(errors="replace")
    size = rng.choice((100, 700, 1 << 20))
    parts = [text[at : at + size] for at in range(0, len(text), size)] or [""]
    docker = rng.random() < 0.5
    wrapped = []
    for number, part in enumerate(parts, 1):
        last = number == len(parts)
        if docker:
            told = {"log": part + "\n" * last, "stream": "stdout", "time": "2030-01-01T00:00:00Z"}
            wrapped.append(json.dumps(told).encode())
        else:
            wrapped.append(f"2030-01-01T00:00:00.5Z stdout {'PF'[last]} {part}".encode())
    return b"\n".join(wrapped)


def _edited(line: bytes, rng: Random) -> bytes:
    """Change values and fields of an entry."""
    begin, end = line.find(b"{", line.find(REQUEST_LOG_MARK)), line.rfind(b"}") + 1
    try:
        entry = json.loads(line[begin:end])
    except ValueError:
        return havoc(line, rng, LONGEST)
    for _ in range(1 + rng.getrandbits(1)):
        places = list(_places(entry))
        if not places:
            break
        there, key = rng.choice(places)
        match rng.randrange(8):
            case 0:
                del there[key]
            case 1 if isinstance(there, list):
                there.append(deepcopy(there[key]))
            case 1 | 2 if isinstance(there, dict):
                name = rng.choice(("other", f"{key}SizeInBytes", "recordsSizeInBytes"))
                there[name] = deepcopy(rng.choice(_EXTREMES))
            case _:
                there[key] = deepcopy(rng.choice(_EXTREMES))
    text = json.dumps(entry, ensure_ascii=bool(rng.getrandbits(1)))
    return line[:begin] + text.encode(errors="replace") + line[end:]


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key or index of each value."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])


def seeds() -> Iterator[tuple[str, bytes]]:
    """Yield logs with entries of each API from brokers of three releases, also wrapped."""
    for path in sorted(_LOGS.glob("*.log.gz")):
        logs, known = [b""], set()
        for line in gzip.decompress(path.read_bytes()).splitlines():
            begin = line.find(b'"requestApiKey":')
            key = line[begin : begin + 19]
            if begin < 0 or key in known or len(line) > _LONGEST_SEED:
                continue
            known.add(key)
            if len(logs[-1]) + len(line) > _LONGEST_SEED:
                logs.append(b"")
            logs[-1] += line + b"\n"
        for number, log in enumerate(logs):
            yield f"{path.name.split('_')[1].removesuffix('.log.gz')}-{number}", log
        yield f"{path.name.split('_')[1].removesuffix('.log.gz')}-wrapped", _wrapped(logs[0], Random(1))
