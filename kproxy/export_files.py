"""Exchanges written to files in formats for other programs, for both ``kproxy export`` and the UI.

Exchanges are passed decoded and written as they arrive, so the caller may pass them piece by piece; packets are written
in steps (:func:`packet_steps`). Nothing here opens a file or asks the user.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, cast

if TYPE_CHECKING:
    from captures.arrays import Int64s
    from captures.exchanges import Capture, Exchange
    from captures.exchanges.exchange_block import ExchangeBlock
    from captures.export.columns import Column
    from captures.faults import Faults

FileFormat = Literal["pcapng", "json", "csv", "parquet", "mermaid"]

FORMATS: tuple[FileFormat, ...] = ("pcapng", "json", "csv", "parquet", "mermaid")

SUFFIXES: dict[FileFormat, str] = {
    "pcapng": ".pcapng",
    "json": ".jsonl",
    "csv": ".csv",
    "parquet": ".parquet",
    "mermaid": ".mmd",
}
"""Suffix of files in each format."""

_BY_SUFFIX: dict[str, FileFormat] = {suffix: name for name, suffix in SUFFIXES.items()} | {
    ".json": "json",
    ".ndjson": "json",
    ".mermaid": "mermaid",
}

MAX_STEPS = 100
"""Default limit on the steps of a diagram."""


def format_of(name: str) -> FileFormat:
    """Return the format that the name of a file indicates.

    :raises ValueError: if it indicates none
    """
    suffix = Path(name).suffix.lower()
    known = _BY_SUFFIX.get(suffix)
    if known is not None:
        return known
    if suffix in (".pcap", ".cap"):
        raise ValueError(f"{suffix} cannot hold comments or more than one link type: write .pcapng")
    suffixes = ", ".join(SUFFIXES.values())
    raise ValueError(f"the name {name!r} does not show the format: use one of the suffixes {suffixes}")


@dataclass(frozen=True, slots=True)
class Layout:
    """How exchanges are written.

    :ivar columns: of CSV and Parquet
    :ivar text: JSON: bytes as text if they are UTF-8, instead of base64
    :ivar steps: Mermaid: maximum number of steps
    """

    format: FileFormat
    columns: tuple[Column, ...] = ()
    text: bool = False
    steps: int = MAX_STEPS


def columns_of(format_: FileFormat) -> tuple[Column, ...]:
    """Return the default columns of a format; none if it has no columns."""
    from captures.export.columns import COLUMNS, PLAIN, choose

    match format_:
        case "parquet":
            return COLUMNS
        case "csv":
            return choose(PLAIN, COLUMNS)
        case _:
            return ()


def write_exchanges(capture: Capture, exchanges: Iterable[Exchange], file: BinaryIO, layout: Layout) -> int:
    """Write decoded exchanges; return how many.

    :param capture: of the exchanges; collects failures, and tells diagrams how connections begin and end
    :param exchanges: annotated for JSON and for columns with bodies, with their summaries for all but JSON
    :raises ValueError: for pcapng, which has packets and no exchanges
    :raises ParquetMissing: if pyarrow is not installed
    """
    match layout.format:
        case "json":
            from captures.export.jsonlines import write_json_lines

            return write_json_lines(exchanges, file, text=layout.text, faults=capture.faults)
        case "csv":
            from captures.export.csv_export import write_csv

            with as_text(file) as text:
                return write_csv(exchanges, text, layout.columns, capture.faults)
        case "parquet":
            from captures.export.parquet import write_parquet

            return write_parquet(exchanges, file, layout.columns, capture.faults)
        case "mermaid":
            from captures.export.mermaid import SequenceDiagram

            diagram = SequenceDiagram(max_steps=layout.steps)
            count = diagram.add(capture, exchanges)
            with as_text(file) as text:
                diagram.write(text)
            return count
        case _:
            raise ValueError(f"{layout.format} is written by packet_steps")


def exchange_pieces(
    exchanges: Iterable[Exchange | ExchangeBlock], layout: Layout, faults: Faults
) -> Iterator[Any]:
    """Yield pieces for :func:`write_pieces`, in JSON, CSV or Parquet; they may be made in other processes.

    :param exchanges: in blocks only if they are not annotated
    :param faults: collects exchanges that could not be written because of a bug
    :raises ParquetMissing: if pyarrow is not installed
    """
    match layout.format:
        case "json":
            from captures.export.jsonlines import json_pieces

            return json_pieces(cast("Iterable[Exchange]", exchanges), text=layout.text, faults=faults)
        case "csv":
            from captures.export.csv_export import csv_pieces

            return (text.encode() for text, _ in csv_pieces(exchanges, layout.columns, faults))
        case "parquet":
            from captures.export.parquet import parquet_batches

            return parquet_batches(exchanges, layout.columns, faults)
        case _:
            raise ValueError(f"{layout.format} is not written in pieces")


def write_pieces(pieces: Iterable[Any], file: BinaryIO, layout: Layout) -> None:
    """Write consecutive pieces of exchanges to a file of their own.

    :raises ParquetMissing: if pyarrow is not installed
    """
    if layout.format == "parquet":
        from captures.export.parquet import write_batches

        write_batches(pieces, file, layout.columns)
        return
    if layout.format == "csv":
        from captures.export.csv_export import csv_header

        file.write(csv_header(layout.columns).encode())
    file.writelines(pieces)


@dataclass(frozen=True, slots=True)
class WrittenPackets:
    """What was written to a pcapng file.

    :ivar exchanges: number of selected exchanges
    :ivar names: says how many exchanges were added because they name topic IDs; empty if none was
    :ivar notes: sentences about the file, with that one
    """

    exchanges: int
    names: str
    notes: tuple[str, ...]


def packet_steps(
    capture: Capture, rows: Int64s, file: BinaryIO, *, scrub: bool = False, synthetic: bool = False
) -> Generator[int, None, WrittenPackets]:
    """Write the packets of exchanges to a pcapng file, some hundreds per step; yield bytes of the capture done.

    Exchanges that name the topic IDs in these are written, too.

    Rows of the exchange table must not move meanwhile. From a growing capture only synthetic packets can be written,
    because reading the original ones would never end.

    :param rows: indexes in the exchange table
    :param scrub: blank what captures must not reveal
    :param synthetic: write synthetic TCP for all exchanges
    """
    from captures.export.capture_file import CaptureFileWriter
    from captures.export.selection import Selection, naming_rows
    from captures.meaning import words

    naming = yield from naming_rows(capture, rows)
    writer = CaptureFileWriter(file, scrub=scrub, synthetic=synthetic)
    yield from writer.steps(Selection(capture, [*rows.tolist(), *naming]))
    written = writer.written
    made = f", {written.synthetic:,} of them synthetic" if written.synthetic else ""
    names = f"{words.counted(len(naming), 'more exchange')} with the names of their topics" if naming else ""
    return WrittenPackets(
        written.exchanges - len(naming),
        names,
        (f"{words.counted(written.packets, 'packet')}{made}", *filter(None, [names]), *writer.notes),
    )


# ---------------------------------------------------------------- files
@contextmanager
def replacing(output: str) -> Iterator[BinaryIO]:
    """Open a file that replaces `output` if no exception is raised, and is removed otherwise."""
    if output == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    path = Path(output)
    if path.exists() and not path.is_file():  # a pipe, /dev/null
        with path.open("wb") as file:
            yield file
        return
    with _replacement(path) as file:
        yield file
        os.umask(mask := os.umask(0))  # the only way to read it
        os.fchmod(file.fileno(), 0o666 & ~mask)


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read; others see either its old or its new content.

    :raises OSError: if it cannot be written
    """
    with _replacement(path) as file:
        file.write(content)


@contextmanager
def _replacement(path: Path) -> Iterator[BinaryIO]:
    """Open a file, readable only by its owner, that replaces `path` if no exception is raised."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def as_text(file: BinaryIO) -> Iterator[TextIOWrapper]:
    """Write UTF-8 text to a binary file that stays open; line ends stay unchanged."""
    text = TextIOWrapper(file, "utf-8", newline="")
    try:
        yield text
    finally:
        text.flush()
        text.detach()
