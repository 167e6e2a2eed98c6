"""What a target is, how it says that something does not hold, and how it takes its input apart."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from typing import Any

_SPECIAL = (
    *(("seconds", "SECONDS"), ("megabytes", "MEGABYTES")),
    *((name, name) for name in ("words", "every", "mutate", "several", "kin", "alike")),
)
"""What a target's module may have, beside what each has: fields of :class:`Target`, and their names there."""

_SEVERAL = b"several inputs:"

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
    "request_log",
    "analyses",
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

    :ivar run: takes one input; returns if all holds, and raises anything at all if not. Of checks that take long it may
        choose one by the input's bytes
    :ivar every: the same, and chooses nothing: inputs that are kept are run through this
    :ivar seeds: gives names and bytes of inputs to begin with
    :ivar mutate: changes an input, of which it knows the parts; may take parts of another
    :ivar several: runs inputs together where that takes less time, each with what is checked of it alone
    :ivar kin: tells inputs apart that cannot be run together
    :ivar alike: changes inputs so that they can be
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
    every: Callable[[bytes], None] | None = None
    mutate: Callable[[bytes, bytes, Random], bytes] | None = None
    several: Callable[[Sequence[bytes]], None] | None = None
    kin: Callable[[bytes], bytes] = lambda data: b""
    alike: Callable[[Sequence[bytes]], list[bytes]] = list


def limited(target: Target, within: Callable[[Any], None] | None = None) -> Callable[[Any], None]:
    """Return what runs an input, and breaks the target as well if the process had to grow too much for it.

    libFuzzer's own limit is of the whole process, which grows with what libFuzzer keeps, input by input.
    """

    runs = within or target.run

    def run(data: bytes) -> None:
        before = getrusage(RUSAGE_SELF).ru_maxrss
        runs(data)
        grown = (getrusage(RUSAGE_SELF).ru_maxrss - before) * RESIDENT_UNIT >> 20
        check(grown <= target.megabytes, "it took", grown, "MB, allowed are", target.megabytes)

    return run


def load(name: str) -> Target:
    """Import a target. Importing it imports what it fuzzes, so whoever instruments that does so around this."""
    module = importlib.import_module(f"fuzz.targets.{name}")
    special = {field: getattr(module, name) for field, name in _SPECIAL if hasattr(module, name)}
    return Target(name, module.run, module.seeds, module.__doc__ or "", module.LONGEST, **special)


def together(inputs: Sequence[bytes]) -> bytes:
    """Return one input for several that break a target only together."""
    return _SEVERAL + b"".join(len(each).to_bytes(4, "big") + each for each in inputs)


def whole(target: Target) -> Callable[[bytes], None]:
    """Return what runs an input that is kept: all that the target checks of it, or several of them together."""

    def run(data: bytes) -> None:
        if data.startswith(_SEVERAL) and target.several is not None:
            given, inputs = Input(data[len(_SEVERAL) :]), []
            while given:
                inputs.append(given.take(given.number(4)))
            target.several(inputs)
        else:
            (target.every or target.run)(data)

    return run


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
