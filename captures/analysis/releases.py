"""Which versions of each API the brokers of an Apache Kafka release serve, from 0.8.0 to 4.4.

A release is named by its line (``3.9``, ``0.10.2``): no bug fix release changed what a line serves. The numbers are
those of ``validVersions`` and ``latestVersionUnstable`` in the message definitions of each release
(``clients/src/main/resources/common/message/*.json``, before 2.4 ``Protocol.java`` and ``requests/*.java``, before
0.9 ``core/src/main/scala/kafka/api``), and what brokers of 17 releases answered to ApiVersions agrees with them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property

from captures.analysis.offered_versions import kafka_4_least
from captures.analysis.version_matrix import Range
from dissectors.apis import api_name

Line = tuple[int, ...]
"""A release line: (0, 10, 2), (3, 9)."""

_FIRST_SERVED = {
    0: "0.8.0 0.9.0 0.10.0 0.11.0 1.0 1.0 2.0 2.1 2.4 2.8 3.7 3.8 4.0 4.1",
    1: "0.8.0 0.9.0 0.10.0 0.10.1 0.11.0 0.11.0 1.0 1.1 2.0 2.1 2.1 2.3 2.7 3.1 3.5 3.5 3.7 3.9 4.1",
    2: "0.8.0 0.10.1 0.11.0 2.0 2.1 2.2 2.8 3.0 3.5 3.9 4.0 4.2",
    3: "0.8.0 0.10.0 0.10.1 0.11.0 0.11.0 1.0 2.0 2.1 2.3 2.4 2.8 2.8 3.1 4.0",
    4: "0.8.0 1.0 2.2 2.4 2.4 2.8 3.2 3.4",
    5: "0.8.0 2.2 2.4 2.6 3.4",
    6: "0.8.0 0.9.0 0.10.0 0.10.2 1.0 2.2 2.4 2.8 3.4",
    7: "0.8.0 0.9.0 2.2 2.4",
    8: "0.8.1 0.8.2 0.9.0 0.11.0 2.0 2.1 2.1 2.3 2.4 3.6 4.1",
    9: "0.8.1 0.8.2 0.10.2 0.11.0 2.0 2.1 2.4 2.5 3.0 3.7 4.1",
    10: "0.8.2 0.11.0 2.0 2.4 3.0 3.8 3.9",
    11: "0.9.0 0.10.1 0.11.0 2.0 2.2 2.3 2.4 2.5 3.2 3.2",
    12: "0.9.0 0.11.0 2.0 2.3 2.4",
    13: "0.9.0 0.11.0 2.0 2.4 2.4 3.2",
    14: "0.9.0 0.11.0 2.0 2.3 2.4 2.5",
    15: "0.9.0 0.11.0 2.0 2.3 2.4 2.4 4.0",
    16: "0.9.0 0.11.0 2.0 2.4 2.6 3.8",
    17: "0.10.0 1.0",
    18: "0.10.0 0.11.0 2.0 2.4 3.9 4.4",
    19: "0.10.1 0.10.2 0.11.0 2.0 2.4 2.4 2.7 2.8",
    20: "0.10.1 0.11.0 2.0 2.1 2.4 2.7 2.8",
    21: "0.11.0 2.0 2.6",
    22: "0.11.0 2.0 2.4 2.5 2.7 3.8 4.1",
    23: "0.11.0 2.0 2.1 2.3 2.8",
    24: "0.11.0 2.0 2.7 2.8 3.5 3.8",
    25: "0.11.0 2.0 2.7 2.8 3.8",
    26: "0.11.0 2.0 2.7 2.8 3.8 4.0",
    27: "0.11.0 2.8 4.2",
    28: "0.11.0 2.0 2.1 2.5 3.8 4.0 4.4",
    29: "0.11.0 2.0 2.5 3.3",
    30: "0.11.0 2.0 2.5 3.3",
    31: "0.11.0 2.0 2.5 3.3",
    32: "0.11.0 1.1 2.0 2.6 2.8",
    33: "0.11.0 2.0 2.8",
    34: "1.0 2.0 2.8",
    35: "1.0 2.0 2.6 3.2 3.3 4.3",
    36: "1.0 2.2 2.5",
    37: "1.0 2.0 2.5 2.7",
    38: "1.1 2.0 2.4 3.3",
    39: "1.1 2.0 2.5",
    40: "1.1 2.0 2.5",
    41: "1.1 2.0 2.5 3.3",
    42: "1.1 2.0 2.4 4.4",
    43: "2.2 2.4 2.4",
    44: "2.3 2.4",
    45: "2.4 4.1",
    46: "2.4",
    47: "2.4",
    48: "2.6 2.8",
    49: "2.6 2.8",
    50: "2.7",
    51: "2.7",
    52: "2.7 3.9 4.0",
    53: "2.7 3.9",
    54: "2.7 3.9",
    55: "2.7 3.3 3.9",
    56: "2.7 3.2 3.3 3.5",
    57: "2.7 3.3 4.0",
    58: "2.8",
    59: "2.8 3.9",
    60: "2.8 3.7 4.0",
    61: "2.8",
    62: "2.8 3.4 3.7 3.7 3.9",
    63: "2.8 3.7 4.3",
    64: "2.8",
    65: "3.0",
    66: "3.0 3.8 4.1",
    67: "3.0",
    68: "3.5 4.0",
    69: "3.7 4.0",
    70: "3.7",
    71: "3.7",
    72: "3.7",
    73: "3.7",
    74: "3.7 4.1",
    75: "3.8",
    76: "3.9 4.1",
    77: "3.9 4.1",
    78: "3.9 4.1 4.2",
    79: "3.9 4.1 4.2",
    80: "3.9 4.2",
    81: "3.9",
    82: "3.9",
    83: "3.9",
    84: "3.9",
    85: "3.9 4.2",
    86: "3.9",
    87: "3.9 4.2",
    88: "4.1 4.4",
    89: "4.1 4.4",
    90: "4.1 4.2",
    91: "4.1",
    92: "4.1",
    93: "4.4",
    94: "4.4",
}
"""API key -> the release line that served each version first, from version 0 on."""

_UNSTABLE: dict[tuple[int, int], tuple[str, str | None]] = {
    (8, 9): ("3.6", "3.6"),
    (8, 10): ("4.1", "4.1"),
    (9, 10): ("4.1", "4.1"),
    (22, 6): ("4.1", None),
    (24, 4): ("3.5", "3.5"),
    (68, 0): ("3.5", "3.6"),
    (69, 0): ("3.7", "3.7"),
    **{(key, 0): ("3.9", "4.0") for key in (76, 77, 78, 79, 83, 84, 85, 86, 87)},
    (88, 0): ("4.1", "4.1"),
    (89, 0): ("4.1", "4.1"),
}
"""API key, version -> first and last line in which it is unstable: brokers serve it only where
``unstable.api.versions.enable`` says so. None: in all lines from the first on."""

_GONE = {4: "4.0", 5: "4.0", 6: "4.0", 7: "4.0"}
"""API key -> the line that does not serve it any more: what controllers told brokers before KRaft."""
_EARLY_ACCESS_ENDED = "4.1"
_EARLY_ACCESS = frozenset({76, 77, 78, 79})
"""Share groups (KIP-932): version 0 was early access, and 4.1 serves versions from 1 on."""
_ALTER_PARTITION = 56

_ZOOKEEPER_ONLY = frozenset({4, 5, 6, 7, 56, 58, 67})
_KRAFT_ONLY = frozenset({55, 64, 71, 72, 74, 75, *range(76, 82), *range(83, 95)})
_CONTROLLER_ONLY = frozenset({52, 53, 54, 59, 62, 63, 70, 73, 82})
"""On listeners of controllers only; brokers do not offer them to anybody."""
TELEMETRY = frozenset({71, 72})
"""Offered only where the broker has a reporter for metrics of clients (KIP-714)."""

_PRODUCE, _CONTROLLED_SHUTDOWN, _ENVELOPE = 0, 7, 58
_FIRST_KRAFT: Line = (2, 8)
_KRAFT_FOR_PRODUCTION: Line = (3, 3)
_KAFKA_4: Line = (4, 0)
FIRST_NEGOTIATING: Line = (0, 10, 0)
"""The first line that knows ApiVersions (KIP-35)."""


def line_of(text: str) -> Line:
    """Return the line of a release: ``3.9.1`` and ``v3.9`` -> (3, 9), ``0.10.2.2`` -> (0, 10, 2).

    :raises ValueError: if it is no release of which the versions are known
    """
    found = re.fullmatch(r"v?(\d+(?:\.\d+){1,3})(?:[-.][A-Za-z].*)?", text.strip())
    numbers = tuple(map(int, found[1].split("."))) if found else ()
    line = numbers[: 2 if numbers and numbers[0] else 3]
    if line not in LINES:
        raise ValueError(
            f"{text!r} is no release of Apache Kafka from {name_of(LINES[0])} to {name_of(LINES[-1])}"
        )
    return line


def name_of(line: Line) -> str:
    """Return a line in words: ``3.9``."""
    return ".".join(map(str, line))


def _line(text: str) -> Line:
    return tuple(map(int, text.split(".")))


_SERVED = {key: tuple(map(_line, text.split())) for key, text in _FIRST_SERVED.items()}
LINES: tuple[Line, ...] = tuple(sorted({line for lines in _SERVED.values() for line in lines}))
"""All release lines, the oldest first."""


@dataclass(frozen=True, slots=True)
class Served:
    """Which versions of one API a broker serves.

    :ivar announced: in ApiVersions
    :ivar versions: those that it serves; they differ for Produce, which 4.0 and later announce from 0 on for the sake
        of librdkafka (KAFKA-18659), and serve from 3 on
    :ivar optional: it is offered only with a setting that is not the default
    """

    announced: Range
    versions: Range
    optional: bool = False


@dataclass(frozen=True)
class BrokerRelease:
    """What brokers of a release line serve.

    :ivar line: such as (3, 9)
    :ivar zookeeper: whether the cluster's metadata is in ZooKeeper
    :ivar unstable: whether ``unstable.api.versions.enable`` is set
    """

    line: Line
    zookeeper: bool
    unstable: bool = False

    @classmethod
    def of(cls, text: str, *, zookeeper: bool | None = None, unstable: bool = False) -> BrokerRelease:
        """Return a release by its name.

        :param zookeeper: None: as is usual, which is KRaft from 3.3 on (KIP-833)
        :raises ValueError: if the release is not known, or there was none of the kind
        """
        line = line_of(text)
        if zookeeper is None:
            zookeeper = line < _KRAFT_FOR_PRODUCTION
        if zookeeper and line >= _KAFKA_4:
            raise ValueError(f"Kafka {name_of(line)} works without ZooKeeper (KIP-500)")
        if not zookeeper and line < _FIRST_KRAFT:
            raise ValueError(f"Kafka {name_of(line)} needs ZooKeeper: KRaft came with 2.8")
        return cls(line, zookeeper, unstable)

    @property
    def name(self) -> str:
        """The release in words: ``Kafka 3.9``."""
        both = _FIRST_KRAFT <= self.line < _KAFKA_4
        kind = "" if not both else " with ZooKeeper" if self.zookeeper else " with KRaft"
        return f"Kafka {name_of(self.line)}{kind}"

    @property
    def negotiates(self) -> bool:
        """Whether it knows ApiVersions."""
        return self.line >= FIRST_NEGOTIATING

    @cached_property
    def apis(self) -> dict[int, Served]:
        """API key -> what is served to clients and other brokers, on listeners of brokers."""
        found = {}
        for key in _SERVED:
            versions = self._versions(key)
            if versions is not None:
                least = 0 if key == _PRODUCE else versions[0]
                found[key] = Served((least, versions[1]), versions, key in TELEMETRY)
        return found

    def _versions(self, key: int) -> Range | None:
        if not self._has(key):
            return None
        served = [
            version
            for version, since in enumerate(_SERVED[key])
            if since <= self.line and (self.unstable or not self._is_unstable(key, version))
        ]
        served = [version for version in served if version >= self._least(key)]
        return (served[0], served[-1]) if served else None

    def _has(self, key: int) -> bool:
        if key in _CONTROLLER_ONLY or key in (_KRAFT_ONLY if self.zookeeper else _ZOOKEEPER_ONLY):
            return False
        if key == _ENVELOPE:  # a broker forwards to a controller of KRaft, while it migrates (KIP-866)
            return self.line >= (3, 4)
        return key not in _GONE or self.line < _line(_GONE[key])

    def _is_unstable(self, key: int, version: int) -> bool:
        first, last = _UNSTABLE.get((key, version), ("99", None))
        return _line(first) <= self.line and (last is None or self.line <= _line(last))

    def _least(self, key: int) -> int:
        if key == _CONTROLLED_SHUTDOWN and FIRST_NEGOTIATING <= self.line < (1, 0):
            return 1  # version 0 has a header of its own, and was not told of
        if key in _EARLY_ACCESS and self.line >= _line(_EARLY_ACCESS_ENDED):
            return 1
        return kafka_4_least(api_name(key)) if self.line >= _KAFKA_4 else 0


def lines_matching(announced: Mapping[int, Range]) -> list[str]:
    """Return the releases whose brokers announce exactly this, telemetry aside, in words; empty if none does.

    :param announced: API key -> versions, as ApiVersions tells them
    """
    found = []
    told = {key: versions for key, versions in announced.items() if key not in TELEMETRY}
    for release in _every_kind():
        same = {key: served.announced for key, served in release.apis.items() if key not in TELEMETRY}
        if same == told and release.name not in found and release.negotiates:
            found.append(release.name)
    return found


@cache
def _every_kind() -> tuple[BrokerRelease, ...]:
    return tuple(
        BrokerRelease(line, zookeeper, unstable)
        for line in LINES
        for unstable in (False, True)
        for zookeeper in (True, False)
        if (line < _KAFKA_4 if zookeeper else line >= _FIRST_KRAFT)
    )


@cache
def lines_serving(key: int, version: int) -> tuple[Line | None, Line | None]:
    """Return the first line that serves a version, and the first that does not any more; None where there is none."""
    first = None
    for line in LINES:
        kinds = [
            each for each in _every_kind() if each.line == line and not each.unstable and key in each.apis
        ]
        serves = any(each.apis[key].versions[0] <= version <= each.apis[key].versions[1] for each in kinds)
        if serves and first is None:
            first = line
        if not serves and first is not None:
            return first, line
    return first, None
