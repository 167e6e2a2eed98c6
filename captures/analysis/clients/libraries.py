"""Client libraries: their names, the versions that their releases speak, and their telltales.

Versions of the Java client follow from the releases of Apache Kafka, since client and broker share the message
definitions. Those of other libraries were observed in recordings of these very releases against brokers that offer more
and less; an API that is not listed was not observed.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from captures.analysis.releases import LINES, BrokerRelease, name_of
from captures.json_objects import OrNull

JAVA = "apache-kafka-java"
LIBRDKAFKA = "librdkafka"
KAFKA_PYTHON = "kafka-python"
AIOKAFKA = "aiokafka"
SARAMA = "sarama"
FRANZ_GO = "franz-go"
KAFKA_GO = "kafka-go"
KAFKAJS = "kafkajs"
PLATFORMATIC = "platformatic-kafka"

_ANY = 1 << 15
"""As a highest version: no known bound."""

_STATED_NAMES = {"apache-kafka-java": JAVA, "kgo": FRANZ_GO}
_BINDINGS = "confluent-kafka-"
_WITH_RDKAFKA = re.compile(r"(?:^|-)(?:lib)?rdkafka-v?(\d[\w.]*)")


class Library(msgspec.Struct, frozen=True):
    """A library and its release.

    :ivar name: one of the names above, or the name that the client stated
    :ivar release: as stated, or as far as it can be guessed: ``2.1-2.8``; empty if unknown
    :ivar announced: whether the client stated it in ApiVersions (KIP-511); False for a guess
    :ivar why: source of the statement or guess
    """

    JSON = "name release told=announced why"

    name: str
    release: OrNull[str] = ""
    announced: bool = False
    why: str = ""

    def __str__(self) -> str:
        return f"{self.name} {self.release}".strip()


def stated_library(software: str) -> Library:
    """Return the library that a client stated in ApiVersions.

    Bindings name themselves, followed by librdkafka: ``confluent-kafka-python 2.16.1-rdkafka-2.16.0``.

    :param software: name and version, separated by a space
    """
    name, _, version = software.partition(" ")
    why = f"ApiVersions names {software}"
    inside = _WITH_RDKAFKA.search(version)
    if inside or name.startswith(_BINDINGS):
        return Library(LIBRDKAFKA, inside[1] if inside else "", announced=True, why=why)
    return Library(_STATED_NAMES.get(name, name), version.removeprefix("v"), announced=True, why=why)


class ReleaseVersions(msgspec.Struct, frozen=True):
    """The highest version that a release of a library uses of each API.

    :ivar release: one release, or several equal ones
    :ivar least: API key -> lower bound of the highest version
    :ivar most: API key -> upper bound of the highest version; differs from ``least`` for releases between two known
        ones
    :ivar asks: whether it asks for the broker's versions (KIP-35); one that does not always uses ``least``
    :ivar may_use: API key and versions below the highest that it also uses, depending on the content of a request
    """

    library: str
    release: str
    least: dict[int, int]
    most: dict[int, int]
    asks: bool = True
    may_use: frozenset[tuple[int, int]] = frozenset()


_NEWEST_JAVA = (4, 3)
_JAVA_ASKS = (0, 10, 2)
_JAVA_MAY_USE = frozenset(
    {
        (0, 12),  # topics by name, as their IDs are not known (KIP-516)
        (1, 12),
        (3, 12),
        (8, 9),  # topics by name (KIP-848)
        (9, 8),
        (9, 9),
        (22, 5),  # no two-phase commit (KIP-939)
        (24, 3),  # v4 is for brokers (KIP-890)
        (26, 4),  # transactions without the epoch of KIP-890
        (26, 3),
        (28, 4),
        (28, 3),
        (10, 3),
    }
)


@lru_cache(1)
def java_releases() -> tuple[ReleaseVersions, ...]:
    """Return the versions that each release line of the Java client speaks.

    0.8.2 is the first with a Java producer, 0.9 with a consumer (KIP-28 and the new consumer's design).
    """
    found = []
    for line in LINES:
        if not (0, 8, 2) <= line <= _NEWEST_JAVA:
            continue
        offered = BrokerRelease(line, zookeeper=line < (3, 3)).apis
        highest = {key: served.versions[1] for key, served in offered.items()}
        found.append(
            ReleaseVersions(JAVA, name_of(line), highest, highest, line >= _JAVA_ASKS, _JAVA_MAY_USE)
        )
    return tuple(found)


def _speaks(
    library: str, release: str, text: str, *, asks: bool = True, open_end: bool = False
) -> ReleaseVersions:
    """Return a release from a text such as ``0:7 1:11``: API key and highest version."""
    pairs = (pair.split(":") for pair in text.split())
    highest = {int(key): int(version) for key, version in pairs}
    most = dict.fromkeys(highest, _ANY) if open_end else highest
    return ReleaseVersions(library, release, highest, most, asks)


_RDKAFKA_2_0 = _speaks(
    LIBRDKAFKA, "2.0", "0:7 1:11 2:2 3:4 8:7 9:7 10:2 11:5 12:3 13:1 14:3 18:3 22:4 24:0 25:0 26:1"
)
_RDKAFKA_2_16 = _speaks(
    LIBRDKAFKA,
    "2.16",
    "0:10 1:16 2:7 3:13 8:9 9:9 10:2 11:5 12:3 13:1 14:3 15:5 18:3 19:4 20:4 22:4 24:0 25:0 26:1 28:3 29:2 30:2 31:2 "
    "32:1 36:1 37:2 68:1 71:0",
)
_RDKAFKA_BETWEEN = ReleaseVersions(
    LIBRDKAFKA,
    "2.1-2.15",
    _RDKAFKA_2_0.least,
    {key: version for key, version in _RDKAFKA_2_16.most.items() if key in _RDKAFKA_2_0.least},
)

OTHERS: tuple[ReleaseVersions, ...] = (
    _RDKAFKA_2_0,
    _RDKAFKA_BETWEEN,
    _RDKAFKA_2_16,
    # with broker.version.fallback and api.version.request=false
    _speaks(LIBRDKAFKA, "", "0:0 1:0 2:0 3:0 8:1 9:1 10:0", asks=False),
    _speaks(LIBRDKAFKA, "", "0:1 1:1 2:0 3:0 8:2 9:1 10:0 11:0 12:0 13:0 14:0", asks=False),
    # with api_version
    _speaks(KAFKA_PYTHON, "1.4", "0:0 1:0 2:0 3:0 8:0 9:0", asks=False),
    _speaks(KAFKA_PYTHON, "1.4", "0:0 1:0 2:0 3:0 8:1 9:1 10:0", asks=False),
    _speaks(KAFKA_PYTHON, "1.4", "0:1 1:1 2:0 3:0 8:2 9:1 10:0 11:0 12:0 13:0 14:0", asks=False),
    _speaks(KAFKA_PYTHON, "1.4", "0:2 1:2 2:0 3:1 8:2 9:1 10:0 11:0 12:0 13:0 14:0", asks=False),
    _speaks(KAFKA_PYTHON, "1.4", "0:2 1:3 2:1 3:1 8:2 9:1 10:0 11:1 12:0 13:0 14:0", asks=False),
    _speaks(KAFKA_PYTHON, "1.4", "0:3 1:4 2:1 3:1 8:2 9:1 10:0 11:2 12:1 13:1 14:1", asks=False),
    _speaks(KAFKA_PYTHON, "2.2", "0:7 1:10 2:4 3:7 8:6 9:5 10:2 11:4 12:2 13:2 14:2 18:4 19:3"),
    _speaks(
        KAFKA_PYTHON,
        "3.0",
        "0:9 1:12 2:11 3:13 8:8 9:8 10:6 11:7 12:4 13:5 14:5 15:5 16:5 18:4 19:7 20:6 22:4 24:3 26:3 29:3 32:4 36:2",
    ),
    _speaks(AIOKAFKA, "0.14", "0:7 1:11 2:3 3:5 8:3 9:3 10:1 11:5 12:1 13:1 14:3 18:0 19:3 22:0 36:1"),
    # with a version given in the configuration
    _speaks(SARAMA, "", "0:0 1:0 2:0 3:0 8:1 9:1 10:0", asks=False),
    _speaks(SARAMA, "", "0:0 1:1 2:0 3:0 8:2 9:1 10:0 11:0 12:0 13:0 14:0", asks=False),
    _speaks(SARAMA, "", "0:2 1:3 2:1 3:2 8:2 9:2 10:0 11:1 12:0 13:0 14:0", asks=False),
    _speaks(SARAMA, "", "0:3 1:5 2:2 3:4 8:3 9:3 10:1 11:2 12:1 13:1 14:1", asks=False),
    _speaks(SARAMA, "1.61", "0:5 1:6 2:2 3:5 8:3 9:3 10:1 11:2 12:1 13:1 14:1 18:3 19:2"),
    _speaks(SARAMA, "1.61", "0:10 1:12 2:6 3:11 8:8 9:8 10:3 11:8 12:4 13:5 14:5 18:4 19:7"),
    _speaks(
        FRANZ_GO,
        "1.22",
        "0:13 1:18 2:11 3:13 8:10 9:10 10:6 11:9 12:4 13:5 14:5 16:5 18:5 19:7 22:5 23:4 36:2",
    ),
    # its reader and its writer speak older and newer versions
    _speaks(KAFKA_GO, "0.4", "1:10 2:1 3:6 8:2 9:1 10:0 11:2 12:0 13:0 14:0 18:0 19:2"),
    _speaks(KAFKA_GO, "0.4", "0:8 3:8 18:0"),
    _speaks(KAFKAJS, "2.2", "0:7 1:11 2:3 3:6 8:5 9:4 10:2 11:5 12:3 13:3 14:3 18:2 19:3 36:1"),
    _speaks(
        PLATFORMATIC,
        "1.35",
        "0:11 1:17 2:9 3:12 8:9 10:6 11:9 12:4 13:5 14:5 18:3 19:7",
        open_end=True,
    ),
)
"""Versions that releases of other libraries speak."""

_CLIENT_IDS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), library)
    for pattern, library in (
        (r"(consumer|producer)-\d+", JAVA),
        (r"(consumer|producer)-.+-\d+", JAVA),
        (r"adminclient-\d+", JAVA),
        (r"rdkafka", LIBRDKAFKA),
        (r"kafka-python(-producer-\d+|-(?P<release>\d[\w.]*))?", KAFKA_PYTHON),
        (r"aiokafka(-producer-\d+|-(?P<release>\d[\w.]*))?", AIOKAFKA),
        (r"sarama", SARAMA),
        (r"kgo", FRANZ_GO),
        (r".*\(github\.com/segmentio/kafka-go\)", KAFKA_GO),
        (r"kafkajs", KAFKAJS),
    )
)
"""Default client IDs of libraries."""


def by_client_id(client_id: str) -> Library | None:
    """Return the library with this default client ID, as a guess; None if no library has it."""
    for pattern, library in _CLIENT_IDS:
        found = pattern.fullmatch(client_id)
        if found:
            release = found.groupdict().get("release") or ""
            return Library(library, release, why=f"{client_id} is what {library} calls itself by default")
    return None
