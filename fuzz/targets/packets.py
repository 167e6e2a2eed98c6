"""Reads bytes as captures and compares results, for all targets of capture files. Not a target itself."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

from msgspec import json
from msgspec.structs import asdict

from captures.exchanges import Capture, ExchangeReader, open_capture
from captures.export.scrub.scrubber import Scrubber
from captures.faults import Faults
from captures.json_objects import to_json
from captures.packets import CaptureError, PacketBlock, open_source
from captures.packets.reader import BLOCK_SIZE
from dissectors.budget import changed
from fuzz.target import check
from kproxy.export_files import packet_steps
from tests.captures.packets.kit import CaptureContent, read

_LIMITS = {"batch_bytes": 1 << 20, "batch_ratio_floor": 1 << 16, "batch_records": 1000}
SMALL_BLOCKS = (256, 900, 3000)
"""Sizes of blocks that inputs which are kept are read with; no block is smaller than the first."""
_MOST_BLOCKS = 4
"""Blocks that a file is cut into, about: each takes as long as reading a small file at once."""

T = TypeVar("T")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="kproxy-fuzz-")


def on_disk(data: bytes, use: Callable[[Path], T]) -> T:
    """Write bytes to a temporary file."""
    path = Path(_folder().name) / "capture"
    path.unlink(missing_ok=True)  # an earlier file may still be mapped
    path.write_bytes(data)
    try:
        with uncontained():
            return use(path)
    finally:
        path.unlink(missing_ok=True)


@contextmanager
def uncontained() -> Iterator[None]:
    """Raise errors that are contained for users, because here each of them is a case."""
    before = Faults.note, Scrubber._blank_whole
    Faults.note, Scrubber._blank_whole = _noted, _not_scrubbed  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Faults.note, Scrubber._blank_whole = before  # type: ignore[method-assign]


def _noted(_: Faults, error: Exception, doing: str, number: int = 0) -> None:
    raise error


def _not_scrubbed(_: Scrubber, size: int, what: str, error: Exception) -> bytes:
    raise error


def block_of(size: int, chance: int) -> int:
    """Return a block size that divides a file into a few blocks."""
    least = max(size // _MOST_BLOCKS, SMALL_BLOCKS[0])
    return least + chance % max(size - least, 1)


def packets(data: bytes, block_size: int = BLOCK_SIZE) -> tuple[CaptureContent, dict[str, Any]] | None:
    """Read a capture up to its streams; return None if it is not a capture.

    Missing bytes of streams must be gaps: :meth:`CaptureContent.stream` checks that segments and gaps tile each one.
    """
    try:
        return on_disk(data, lambda path: _packets(path, block_size))
    except CaptureError as error:
        check(error.reason, "an error without a reason")
        return None


def _packets(path: Path, block_size: int) -> tuple[CaptureContent, dict[str, Any]]:
    got = read(path, block_size)
    connections = got.assembler.connections
    found: dict[str, Any] = {name: got.column(name).tolist() for name in PacketBlock.COLUMNS}
    text = cache(got.reader.addresses.text)
    for name in ("src", "dst"):  # endpoints are numbered in order of appearance, block by block
        found[name] = [text(endpoint) for endpoint in found[name]]
    found["comments"] = {number: text for each in got.blocks for number, text in comments(each).items()}
    found["statistics"] = asdict(got.reader.statistics)
    found["streams"] = [got.stream(stream) for stream in range(len(connections.streams))]
    found["gaps"] = sorted(got.gaps())
    payload = sum(found["captured"])
    held = sum(map(len, found["streams"]))
    check(held <= payload, "streams hold", held, "bytes, the packets have", payload)
    check(
        all(0 <= has <= wire for has, wire in zip(found["captured"], found["length"], strict=True)),
        "captured",
    )
    for index in range(len(connections)):
        check(connections[index].closed, "connection", index, "is not closed")
    return got, found


def comments(block: PacketBlock) -> dict[int, str]:
    """Return the comments of a block's packets."""
    return dict(block.comments)


def same(one: dict[str, Any], other: dict[str, Any], *what: object) -> None:
    """Check that two readings of a capture gave the same result."""
    for name, value in one.items():
        check(value == other[name], *what, "give another", name)


def exchanges(
    data: bytes, block_size: int = BLOCK_SIZE, kind: type[Capture] = Capture, *, show: bool = False
) -> Any:
    """Read a capture up to its exchanges; return None if it is not a capture.

    :param show: also decode all exchanges, as for the screen and as JSON
    """
    try:
        return on_disk(data, lambda path: _exchanges(path, block_size, kind, show))
    except CaptureError as error:
        check(error.reason, "an error without a reason")
        return None


def _exchanges(path: Path, block_size: int, kind: type[Capture], show: bool) -> Any:
    capture = kind(open_source(str(path)), block_size)
    capture.read()
    table = capture.table
    rows = []
    for index in table.order().tolist():
        row = table.row(index)
        row["client_id"] = table.client_ids[row["client_id"]] if row["client_id"] >= 0 else None
        row["client"] = capture.endpoints(row["connection"])[0]
        rows.append(row)
    if show:
        shown(capture)
    return rows, sorted(map(repr, capture.skipped)), capture.foreign


def scrubbed(data: bytes) -> None:
    """Export a capture with scrubbed contents, as original and as synthetic packets."""
    try:
        on_disk(data, _scrubbed)
    except CaptureError as error:
        check(error.reason, "an error without a reason")


def _scrubbed(path: Path) -> None:
    capture = open_capture(str(path))
    capture.read()
    for synthetic in (False, True):
        for _ in packet_steps(capture, capture.table.order(), BytesIO(), scrub=True, synthetic=synthetic):
            pass


def shown(capture: Capture) -> None:
    """Decode all exchanges of a capture, as for the screen and as JSON."""
    with changed(**_LIMITS):
        checked(ExchangeReader(capture))


def checked(reader: ExchangeReader) -> None:
    """Decode all exchanges of a reader."""
    for number, exchange in enumerate(reader, 1):
        check(exchange.number == number, "exchange", exchange.number, "in the place of", number)
        check(exchange.api and all(isinstance(part, str) for part in exchange.summary), "exchange", number)
        json.encode(to_json(exchange))


def sample(most: int) -> bytes:
    """Return the first packets of the bundled capture, up to a number of bytes."""
    from importlib.resources import files

    data = (files("captures") / "samples" / "rebalance.pcap").read_bytes()
    end = 24
    while (following := end + 16 + int.from_bytes(data[end + 8 : end + 12], "little")) <= most:
        end = following
    return data[:end]
