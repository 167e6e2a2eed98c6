"""Targets, violations of their invariants, and the parsing of inputs."""

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

RESIDENT_UNIT = 1 if sys.platform == "darwin" else 1024  # unit of ru_maxrss in bytes: getrusage(2)

HERE = Path(__file__).parent
CORPUS = HERE / "corpus"
FOUND = HERE / "found"
OPEN = HERE / "open"

#: names of all targets, in the order of ``all``
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
    """An invariant does not hold for an input."""


def check(holds: object, *what: object) -> None:
    """Raise :class:`Violation` with a message unless the first argument is true."""
    if not holds:
        raise Violation(" ".join(map(str, what)))


@dataclass(frozen=True, slots=True)
class Target:
    """A fuzz target.

    :ivar run: runs an input; raises an exception if an invariant does not hold. It may select
        one of several slow checks by the input's bytes
    :ivar every: the same with all checks, for stored inputs
    :ivar seeds: returns names and bytes of seeds
    :ivar mutate: changes an input whose structure it knows, and may use parts of another
    :ivar several: runs inputs together if that is faster, with the same checks for each
    :ivar kin: returns a key; inputs with different keys cannot run together
    :ivar alike: changes inputs so that they can run together
    :ivar words: byte strings with a meaning to the fuzzed code, which libFuzzer inserts into inputs
    :ivar about: its input and its invariants
    :ivar longest: maximum length of an input in bytes
    :ivar seconds: limit of processor time; an input that takes longer is a case
    :ivar megabytes: limit of growth in resident memory; an input that needs more is a case
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
    """Return a function that runs an input, and also fails if the process grows too much.

    libFuzzer's own limit applies to the whole process, including the inputs that libFuzzer keeps.
    """

    runs = within or target.run

    def run(data: bytes) -> None:
        before = getrusage(RUSAGE_SELF).ru_maxrss
        runs(data)
        grown = (getrusage(RUSAGE_SELF).ru_maxrss - before) * RESIDENT_UNIT >> 20
        check(grown <= target.megabytes, "it took", grown, "MB, allowed are", target.megabytes)

    return run


def load(name: str) -> Target:
    """Import a target. This also imports the fuzzed code, so instrumentation must be active around this call."""
    module = importlib.import_module(f"fuzz.targets.{name}")
    special = {field: getattr(module, name) for field, name in _SPECIAL if hasattr(module, name)}
    return Target(name, module.run, module.seeds, module.__doc__ or "", module.LONGEST, **special)


def together(inputs: Sequence[bytes]) -> bytes:
    """Return an input that combines several which break a target only together."""
    return _SEVERAL + b"".join(len(each).to_bytes(4, "big") + each for each in inputs)


def whole(target: Target) -> Callable[[bytes], None]:
    """Return a function that runs a stored input with all checks, or combined inputs together."""

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
    """Return the files of a target's corpus and of its found cases."""
    return _files(CORPUS / name, FOUND / name)


def known(name: str) -> list[Path]:
    """Return the files that still break a target."""
    return _files(OPEN / name)


def _files(*folders: Path) -> list[Path]:
    return sorted(
        path for folder in folders if folder.is_dir() for path in folder.iterdir() if path.is_file()
    )


class Input:
    """Parses an input from its start. Bytes beyond the end read as zeros, so that any input is valid."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._pos = 0

    def __bool__(self) -> bool:
        """Whether bytes are left."""
        return self._pos < len(self._data)

    def take(self, size: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        start, self._pos = self._pos, min(self._pos + size, len(self._data))
        return self._data[start : self._pos]

    def rest(self) -> bytes:
        """Return the remaining bytes."""
        return self.take(len(self._data))

    def number(self, size: int = 1) -> int:
        """Return the next bytes as one number."""
        return int.from_bytes(self.take(size).ljust(size, b"\0"), "big")

    def chunk(self) -> bytes:
        """Return bytes prefixed by their length in two bytes."""
        return self.take(self.number(2))


def chunk(data: bytes) -> bytes:
    """Return the encoding that :meth:`Input.chunk` reads as ``data``."""
    return len(data).to_bytes(2, "big") + data
