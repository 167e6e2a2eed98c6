"""Results about brokers of other releases: what they serve, and verdicts.

:mod:`captures.analysis.compat` creates them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.offered_versions import kafka_4_least
from captures.analysis.releases import BrokerRelease, ServedVersions
from captures.json_objects import Range
from dissectors.api_keys import TELEMETRY, ApiKey
from dissectors.apis import api_name


class Verdict(StrEnum):
    """The expected result of a request, the worst first. The words are stable."""

    REFUSED = "refused"
    """There is no common version."""
    MISSING = "missing"
    """The broker does not have the API, and the client will know, because it asks."""
    UNKNOWN = "unknown"
    """It depends on facts that the capture does not show."""
    OLDER = "older"
    """It is served with an older version than the client used."""
    SERVED = "served"
    """It is served with the version that the client used, or a newer one."""


class ServedApi(NamedTuple):
    """An API that a broker serves, in the versions from `min` to `max`."""

    api: str
    api_key: int
    min: int
    max: int
    announced_min: int
    only_if_configured: bool


@dataclass(frozen=True, slots=True)
class Target:
    """The broker in question.

    :ivar name: ``Kafka 4.3``, or where the ranges are from
    :ivar apis: API key -> served versions
    :ivar negotiates: whether it knows ApiVersions
    :ivar release: None if only its ranges are known
    """

    JSON = "name answers_api_versions=negotiates apis=served"

    name: str
    apis: Mapping[int, ServedVersions]
    negotiates: bool = True
    release: BrokerRelease | None = None

    @property
    def served(self) -> list[ServedApi]:
        """The APIs that it serves, by API key."""
        return [
            ServedApi(api_name(key), key, *each.versions, each.announced[0], each.optional)
            for key, each in sorted(self.apis.items())
        ]

    @classmethod
    def of_release(cls, release: BrokerRelease) -> Target:
        """Return a broker of a release."""
        return cls(release.name, release.apis, release.negotiates, release)

    @classmethod
    def of_ranges(cls, name: str, offers: list[dict[int, Range]]) -> Target:
        """Return a broker that serves what all of some brokers announced.

        A broker of Kafka 4 announces Produce from 0 on, and serves it from 3 on (KAFKA-18659).
        """
        common = set[int].intersection(*(set(each) for each in offers)) if offers else set()
        found = {}
        for key in sorted(common):
            announced = max(each[key][0] for each in offers), min(each[key][1] for each in offers)
            least = announced[0]
            if key == ApiKey.PRODUCE and any(
                each.get(ApiKey.FETCH, (0, 0))[0] >= kafka_4_least("Fetch") for each in offers
            ):
                least = max(least, kafka_4_least("Produce"))
            if least <= announced[1]:
                found[key] = ServedVersions(announced, (least, announced[1]))
        return cls(name, found, ApiKey.API_VERSIONS in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiVerdict:
    """The verdict on one API of one client.

    :ivar used: version -> requests
    :ivar serves: versions that the broker serves; None if it does not have the API
    :ivar would_use: version that the client would use, as far as known
    :ivar or_higher: whether it may also be a higher one, since the client's own highest is unknown
    :ivar first: number of the first exchange
    :ivar sentence: reason
    """

    JSON = "api api_key=key used serves verdict certainty would_use or_higher first sentence"

    key: int
    used: dict[int, int]
    serves: Range | None
    verdict: Verdict
    certainty: Certainty
    would_use: int | None
    or_higher: bool
    first: int
    sentence: str

    @property
    def api(self) -> str:
        """Name of the API."""
        return api_name(self.key)


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """The verdicts on one client.

    :ivar name: client ID, or address without one
    :ivar software: names and versions that it stated
    :ivar guess: library and release that it looks like, if it stated none; None if unknown
    :ivar asks: whether it asks for versions; None if no start of its connections was captured
    :ivar apis: the worst first, then by API key
    """

    JSON = "client=name software guess hosts asks_for_versions=asks verdict apis"

    name: str
    software: list[str]
    guess: str | None
    hosts: list[str]
    asks: bool | None
    apis: list[ApiVerdict]

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of its APIs, except telemetry, which every client can do without."""
        order = list(Verdict)
        needed = [each.verdict for each in self.apis if each.key not in TELEMETRY]
        return min(needed, key=order.index, default=Verdict.SERVED)


@dataclass(frozen=True, slots=True)
class Report:
    """All clients, those with the worst verdict first.

    :ivar brokers_left_out: names of clients that are brokers or controllers themselves
    """

    target: Target
    clients: list[ClientVerdict]
    brokers_left_out: list[str] = field(default_factory=list)
