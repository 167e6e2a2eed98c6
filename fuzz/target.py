"""What a target is, how it says that something does not hold, and how it takes its input apart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_SELF, getrusage

RESIDENT_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss: getrusage(2)

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
FOUND = HERE / "found"
OPEN = HERE / "open"

#: names of all targets, in the order in which ``all`` runs them
NAMES = (
    "frames",
    "records",
    "decompression",
    "embedded",
    "conversation",
    "rewriting",
    "pcap",
    "pcapng",
    "tcp",
    "tls",
    "filters",
    "commands",
)


class Violation(Exception):  # noqa: N818  # says what happened, reads well at the raise
    """Something that must hold for any input does not."""


def check(holds: object, *what: object) -> None:
    """Raise :class:`Violation` with what is to be said about it, unless the first argument is true."""
    if not holds:
        raise Violation(" ".join(map(str, what)))


@dataclass(frozen=True, slots=True)
class Target:
    """One thing that is fuzzed.

    :ivar run: takes one input; returns if all holds, and raises anything at all if not
    :ivar seeds: gives names and bytes of inputs to begin with
    :ivar words: bytes that mean something to what is fuzzed, for libFuzzer to put into inputs
    :ivar about: what it feeds and what must hold
    :ivar longest: bytes of the longest input that is tried
    :ivar seconds: of processor time; an input that takes longer is a case
    :ivar megabytes: an input for which the process grows by more resident memory is a case
    """

    name: str
    run: Callable[[bytes], None]
    seeds: Callable[[], Iterator[tuple[str, bytes]]]
    about: str
    longest: int
    seconds: int = 10
    megabytes: int = 256
    words: Callable[[], Iterator[bytes]] = lambda: iter(())


def limited(target: Target) -> Callable[[bytes], None]:
    """Return what runs an input, and breaks the target as well if the process had to grow too much for it.

    libFuzzer's own limit is of the whole process, which grows with what libFuzzer keeps, input by input.
    """

    def run(data: bytes) -> None:
        before = getrusage(RUSAGE_SELF).ru_maxrss
        target.run(data)
        grown = (getrusage(RUSAGE_SELF).ru_maxrss - before) * RESIDENT_UNIT >> 20
        check(grown <= target.megabytes, "it took", grown, "MB, allowed are", target.megabytes)

    return run


def load(name: str) -> Target:
    """Import a target. Importing it imports what it fuzzes, so whoever instruments that does so around this."""
    module = importlib.import_module(f"fuzz.targets.{name}")
    special = {
        field: getattr(module, name)
        for field, name in (("seconds", "SECONDS"), ("megabytes", "MEGABYTES"), ("words", "words"))
        if hasattr(module, name)
    }
    return Target(name, module.run, module.seeds, module.__doc__ or "", module.LONGEST, **special)


def kept(name: str) -> list[Path]:
    """Return the files of a target's corpus and of what it has found."""
    return _files(CORPUS / name, FOUND / name)


def known(name: str) -> list[Path]:
    """Return the files that break a target and are not mended."""
    return _files(OPEN / name)


def _files(*folders: Path) -> list[Path]:
    return sorted(
        path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()
    )


class Input:
    """Takes an input apart from its beginning. What lies beyond its end reads as zeros, so that any bytes will do."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def __bool__(self) -> bool:
        """Whether there is something left."""
        return self._pos < len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        start, self._pos = self._pos, min(self._pos + size, len(self._data))
        return self._data[start : self._pos]

    def rest(self) -> bytes:
        """Return all that is left."""
        return self.take(len(self._data))

    def number(self, size: int = 1) -> int:
        """Return the next bytes as one number."""
        return int.from_bytes(self.take(size).ljust(size, b"\0"), "big")

    def chunk(self) -> bytes:
        """Return bytes whose count of two bytes stands before them."""
        return self.take(self.number(2))


def chunk(data: bytes) -> bytes:
    """Return what :meth:`Input.chunk` reads as ``data``."""
    return len(data).to_bytes(2, "big") + data
