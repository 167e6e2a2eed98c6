"""Clients and brokers of different releases: which would be refused, or served with older versions.

A client that sends ApiVersions (KIP-35) takes the highest version that both sides know. Its own versions are bounded by
the versions it used, and known for the Java client from its release: client and broker of a release are built from one
list of versions. If it used less than its broker offered, that was its own limit. Its behaviour is thus inferred, and
marked as such; how its client library reacts (a fallback, an exception) cannot be seen on the wire.

A client that never sends ApiVersions sends the same versions to any broker. One whose start was not captured may do
either.

Brokers since 0.10 close the connection on a version that they do not serve, except for ApiVersions itself (KIP-511).
0.9 keeps the connection open and does not answer an unknown API; 0.8.2 closes it.

Another Java client with the recorded brokers is judged in the same way. It speaks the versions of its release
(:mod:`captures.analysis.releases`), the brokers offer those that they announced. It fails if they have no version in
common: clients of 4.0 and later do so with brokers before 2.1 (KIP-896).

The Java client is built from the same message definitions as the brokers of its release. For other libraries, the
highest versions of some releases are known (:mod:`captures.analysis.clients.libraries`), and the lowest ones are not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from typing import NamedTuple

from captures.analysis.clients.fingerprints import Fingerprints
from captures.analysis.clients.libraries import JAVA, OTHERS, Library, java_releases, stated_library
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import ExchangeGroup
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.negotiation import (
    BETWEEN_BROKERS,
    BrokerOffer,
    ClientVersions,
    Limit,
    Negotiation,
    shown,
)
from captures.analysis.offered_versions import kafka_4_least
from captures.analysis.releases import (
    BrokerRelease,
    Line,
    ServedVersions,
    line_of,
    lines_matching,
    lines_serving,
    name_of,
)
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange
from captures.faults import RAISED
from captures.json_objects import Range
from dissectors.api_keys import TELEMETRY, ApiKey
from dissectors.apis import NAMES, api_name

# ---------------------------------------------------------------- results


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


# ---------------------------------------------------------------- versions that client libraries speak


@dataclass(frozen=True, slots=True)
class LibraryVersions:
    """Versions of an API that a client speaks.

    :ivar library: name and release, in words
    :ivar least: lowest version; None if unknown
    :ivar most: highest version, or its bounds if the release is not known exactly
    :ivar announced: whether the client stated its library; False for a guess
    :ivar also: versions below the highest that it also uses, depending on the content of a request
    """

    library: str
    least: int | None
    most: Range
    announced: bool
    also: frozenset[int] = frozenset()

    @property
    def words(self) -> str:
        """The versions in words: ``v0-3``, ``v3 at most``."""
        exact = self.most[0] == self.most[1]
        if exact and self.least is not None:
            return f"v{shown((self.least, self.most[1]))}"
        return f"v{self.most[1]} at most" if exact else f"v{self.most[0]} or up to v{self.most[1]} at most"

    @property
    def exactly(self) -> int | None:
        """The highest version, if it is known exactly."""
        return self.most[0] if self.most[0] == self.most[1] else None


@cache
def client_range(line: Line, key: int) -> Range | None:
    """Return the versions of an API that the Java client of a release speaks, None if it does not have it.

    They are those of the release's brokers, with ZooKeeper or KRaft.
    """
    for zookeeper in (False, True):
        served = BrokerRelease(line, zookeeper).apis.get(key)
        if served is not None:
            return served.versions
    return None


def library_versions(library: Library, key: int) -> LibraryVersions | None:
    """Return the versions of an API that a library speaks, None if unknown."""
    return _of_java(library, key) if library.name == JAVA else _of_other(library, key)


def _of_java(library: Library, key: int) -> LibraryVersions | None:
    ranges = []
    for release in _release_bounds(library):
        try:
            found = client_range(line_of(release), key)
        except ValueError:
            return None
        if found is None:
            return None
        ranges.append(found)
    first, last = ranges[0], ranges[-1]
    also = frozenset(
        version for each in java_releases()[-1:] for same, version in each.may_use if same == key
    )
    return LibraryVersions(
        _library_text(library), min(first[0], last[0]), (first[1], last[1]), library.announced, also
    )


def _of_other(library: Library, key: int) -> LibraryVersions | None:
    """Return the versions of other libraries; bug fix releases count as equal: 2.16.1 as 2.16."""
    release = library.release
    fits = [
        each
        for each in OTHERS
        if each.library == library.name
        and each.asks
        and key in each.least
        and each.release
        and (release == each.release or release.startswith(f"{each.release}."))
    ]
    if not fits:
        return None
    bounds = min(each.least[key] for each in fits), max(each.most[key] for each in fits)
    return LibraryVersions(_library_text(library), None, bounds, library.announced)


def _release_bounds(library: Library) -> list[str]:
    """Return the first and the last of a client's possible releases: ``2.1-2.8``."""
    if library.announced:
        return [library.release]
    first, _, last = library.release.partition("-")
    return [first, last or first]


def _library_text(library: Library) -> str:
    return str(library) if library.announced else f"what looks like {library}"


# ---------------------------------------------------------------- recorded clients with another broker


class Compatibility:
    """Judges the clients of a capture.

    :param capture: knows which connections were captured from their start; without it, that is unknown
    """

    def __init__(self, target: Target, capture: Capture | None = None) -> None:
        self.target = target
        self._faults = RAISED if capture is None else capture.faults
        self._negotiation = Negotiation(capture)
        self._fingerprints = Fingerprints(capture)

    def count(self, group: ExchangeGroup) -> None:
        """Count exchanges; groups must come in the order of their first exchanges."""
        self._negotiation.count(group)
        self._fingerprints.count(group)

    @staticmethod
    def deciding(rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges of a whole capture that it must learn from."""
        return Negotiation.deciding(rows) | Fingerprints.deciding(rows)

    def learn(self, exchange: Exchange) -> None:
        """Learn from the content of an exchange that was counted."""
        self._negotiation.learn(exchange)
        self._fingerprints.learn(exchange)

    def result(self) -> Report:
        """Return the expected result for every client."""
        matrix = self._negotiation.result()
        results = (
            self._faults.contained(partial(self._client, each), "judging a client", None)
            for each in matrix.clients
            if not each.is_broker
        )
        clients = [each for each in results if each is not None]
        order = list(Verdict)
        clients.sort(key=lambda each: (order.index(each.verdict), each.name))
        return Report(self.target, clients, [each.name for each in matrix.clients if each.is_broker])

    def _client(self, client: ClientVersions) -> ClientVerdict:
        order = list(Verdict)
        library = self._library(client)
        keys = sorted({use.key for use in client.uses})
        verdicts = [_Judge(self.target, client, key, library).verdict() for key in keys]
        verdicts += _of_not_fetching(self.target, client, library)
        verdicts.sort(key=lambda each: (order.index(each.verdict), each.key))
        guess = str(library) if library is not None and not library.announced else None
        return ClientVerdict(client.name, client.software, guess, client.hosts, client.asks, verdicts)

    def _library(self, client: ClientVersions) -> Library | None:
        """Return the library that a client stated, or looks like; None if several clients share a name."""
        if client.software:
            return stated_library(client.software[0]) if len(client.software) == 1 else None
        return self._fingerprints.guess(client.name, client.name)


def _of_not_fetching(target: Target, client: ClientVersions, library: Library | None) -> list[ApiVerdict]:
    """Judge a group member that never fetches.

    A client that knows the broker's versions sends nothing that the broker does not serve, so a consumer whose Fetch
    versions are not served never fetches.
    """
    joined = [use.first for use in client.uses if use.key == ApiKey.JOIN_GROUP]
    served = target.apis.get(ApiKey.FETCH)
    known = None if library is None else library_versions(library, ApiKey.FETCH)
    fetches = any(use.key == ApiKey.FETCH for use in client.uses)
    if not joined or fetches or known is None or served is None or known.most[1] >= served.versions[0]:
        return []
    speaks = f"{known.library} speaks Fetch {known.words}, and {target.name} serves v{shown(served.versions)}"
    return [
        ApiVerdict(
            key=ApiKey.FETCH,
            used={},
            serves=served.versions,
            verdict=Verdict.REFUSED,
            certainty=Certainty.INFERRED if known.announced else Certainty.POSSIBLE,
            would_use=None,
            or_higher=False,
            first=min(joined),
            sentence=f"it joined a group and never fetched: {speaks}",
        )
    ]


class _Judge:
    """Judges one API of one client."""

    def __init__(self, target: Target, client: ClientVersions, key: int, library: Library | None) -> None:
        self._spoken = None if library is None else library_versions(library, key)
        self._target = target
        self._client = client
        self._key = key
        uses = [use for use in client.uses if use.key == key]
        self._used: dict[int, int] = {}
        for use in uses:
            for version, count in use.used.items():
                self._used[version] = self._used.get(version, 0) + count
        self._top = max(self._used)
        self._first = min(use.first for use in uses)
        at_top = [use for use in uses if max(use.used) == self._top]
        # using less than it was offered anywhere shows its own limit
        self._own_limit = any(use.limit is Limit.CLIENT for use in at_top)
        self._served = target.apis.get(key)

    @property
    def _api(self) -> str:
        return api_name(self._key)

    def verdict(self) -> ApiVerdict:
        if self._key == ApiKey.API_VERSIONS:
            return self._of_asking()
        if self._client.asks and not self._target.negotiates:
            return self._verdict(
                Verdict.UNKNOWN,
                "without an answer to ApiVersions it uses what its configuration says, if anything",
            )
        if self._served is None:
            return self._of_missing()
        least, most = self._served.versions
        if self._client.asks is None:
            return self._of_either(least, most)
        return self._of_asking_client(least, most) if self._client.asks else self._of_fixed(least, most)

    def _verdict(
        self,
        verdict: Verdict,
        sentence: str,
        would_use: int | None = None,
        *,
        or_higher: bool = False,
        doubtful: bool = False,
    ) -> ApiVerdict:
        """Return a verdict; it is only possible if it is ``doubtful`` or unknown, and inferred otherwise."""
        possible = doubtful or verdict is Verdict.UNKNOWN
        return ApiVerdict(
            key=self._key,
            used=dict(sorted(self._used.items())),
            serves=None if self._served is None else self._served.versions,
            verdict=verdict,
            certainty=Certainty.POSSIBLE if possible else Certainty.INFERRED,
            would_use=would_use,
            or_higher=or_higher,
            first=self._first,
            sentence=sentence,
        )

    # ------------------------------------------------------------ ApiVersions
    def _of_asking(self) -> ApiVerdict:
        if not self._target.negotiates or self._served is None:
            return self._verdict(
                Verdict.REFUSED,
                f"{self._target.name} does not know ApiVersions (it came with 0.10): the client gets no "
                "answer, and works only if its configuration says which release the broker has",
            )
        most = self._served.versions[1]
        if self._top <= most:
            return self._verdict(Verdict.SERVED, "it is answered", self._top)
        return self._verdict(
            Verdict.OLDER,
            f"{self._target.name} does not know ApiVersions v{self._top} and answers in v0 with error 35: the client "
            f"asks again with v{most} or less (KIP-511)",
            most,
        )

    # ------------------------------------------------------------ all other APIs
    def _of_missing(self) -> ApiVerdict:
        used = min(self._used)
        begun = [
            line for version in range(used + 1) if (line := lines_serving(self._key, version)[0]) is not None
        ]
        since = min(begun, default=None)
        with_it, until = lines_serving(self._key, used)
        release = self._target.release
        why = ""
        if release is not None and since is not None and release.line < since:
            why = f": it came with Kafka {name_of(since)}"
            if with_it is not None and with_it != since:
                why += f", v{used} with {name_of(with_it)}"
        elif until is not None:
            why = f": Kafka {name_of(until)} removed it"
        lacks = f"{self._target.name} does not have {self._api}{why}"
        if self._client.asks:
            what = "what it does without it is not on the wire"
            return self._verdict(Verdict.MISSING, f"{lacks}; the client asks, and knows that: {what}")
        if self._client.asks is None:
            what = "whether the client asks before is not known: its connections began before the capture"
            return self._verdict(Verdict.UNKNOWN, f"{lacks}; {what}")
        return self._verdict(Verdict.REFUSED, f"{lacks}, and the client never asks: {self._refusal()}")

    def _of_fixed(self, least: int, most: int) -> ApiVerdict:
        """Judge a client that never sends ApiVersions: its versions are fixed."""
        outside = [version for version in self._used if not least <= version <= most]
        if not outside:
            return self._verdict(Verdict.SERVED, "it never asks, and what it uses is served", self._top)
        versions = ", ".join(f"v{version}" for version in sorted(outside))
        return self._verdict(
            Verdict.REFUSED,
            f"it never asks, and uses {versions}; {self._serves(min(outside))}: {self._refusal()}",
        )

    def _of_either(self, least: int, most: int) -> ApiVerdict:
        """Judge a client that may or may not send ApiVersions."""
        if all(least <= version <= most for version in self._used):
            return self._verdict(Verdict.SERVED, "all versions that it uses are served", self._top)
        outside = self._top if self._top > most else min(self._used)
        return self._verdict(
            Verdict.UNKNOWN,
            f"{self._serves(outside)}; whether the client asks and may take another version is not known: its "
            "connections began before the capture",
        )

    def _of_asking_client(self, least: int, most: int) -> ApiVerdict:
        """Judge a client that takes the highest version that both know."""
        known = self._spoken
        if known is not None and known.most[1] < least:
            return self._of_known(known, known.most[1])
        if known is not None and known.least is not None and known.least > most:
            return self._of_known(known, known.least)
        if self._top > most:
            return self._of_newer(most, known)
        if self._top >= least:
            return self._of_enough(most, known)
        if known is not None and known.most[0] >= least:
            return self._verdict(
                Verdict.SERVED,
                f"its broker offered no more than v{self._top}; {known.library} speaks {self._api} {known.words}",
                min(known.most[0], most),
                or_higher=known.most[1] > known.most[0] and known.most[0] < most,
                doubtful=not known.announced,
            )
        if self._own_limit:
            return self._verdict(
                Verdict.REFUSED,
                f"it uses v{self._top} although it was offered more, so that it is its highest, and "
                f"{self._serves(self._top)}: {self._refusal()}",
            )
        return self._verdict(
            Verdict.UNKNOWN,
            f"{self._serves(self._top)}; whether the client knows more than v{self._top} is not known: its broker did "
            "not offer more",
        )

    def _of_known(self, known: LibraryVersions, edge: int) -> ApiVerdict:
        """Judge a client that is known to speak no version that the broker serves.

        :param edge: its version nearest to the served ones
        """
        return self._verdict(
            Verdict.REFUSED,
            f"{known.library} speaks {self._api} {known.words}, and {self._serves(edge)}",
            doubtful=not known.announced,
        )

    def _of_enough(self, most: int, known: LibraryVersions | None) -> ApiVerdict:
        """Judge a client that can keep its version, or takes a higher one that it knows."""
        if self._own_limit or self._top == most:
            return self._verdict(Verdict.SERVED, f"it can go on with v{self._top}", self._top)
        exactly = None if known is None or self._top in known.also else known.exactly
        if known is not None and known.announced and exactly is not None:
            would = max(min(exactly, most), self._top)
            sentence = f"{known.library} speaks {self._api} {known.words}"
            return self._verdict(Verdict.SERVED, sentence, would)
        return self._verdict(
            Verdict.SERVED, f"it can go on with v{self._top}, or a higher one", self._top, or_higher=True
        )

    def _of_newer(self, most: int, known: LibraryVersions | None) -> ApiVerdict:
        speaks = most in self._used or (known is not None and known.announced and known.least is not None)
        return self._verdict(
            Verdict.OLDER,
            f"it used v{self._top}, and {self._serves(self._top)}: it goes back to v{most}"
            + ("" if speaks else ", if it still speaks that"),
            most,
            doubtful=not speaks,
        )

    def _serves(self, version: int) -> str:
        """Return a clause about the versions that the broker serves, and why not `version`."""
        assert self._served is not None
        least, most = self._served.versions
        text = f"{self._target.name} serves {self._api} v{shown((least, most))}"
        since, until = lines_serving(self._key, version)
        if version < least and until is not None:
            why = " (KIP-896)" if until == (4, 0) else ""
            text += f" (Kafka {name_of(until)} removed v{shown((0, least - 1))}{why.replace(' (', ': ').rstrip(')')})"
        elif version > most and since is not None:
            text += f" (v{version} came with Kafka {name_of(since)})"
        return text

    def _refusal(self) -> str:
        release = self._target.release
        if release is not None and release.line < (0, 10, 0):
            return (
                "0.9 does not answer what it does not know"
                if release.line >= (0, 9, 0)
                else "the broker closes the connection, or answers in an older format"
            )
        return "the broker closes the connection"


# ---------------------------------------------------------------- another Java client with recorded brokers


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiFit:
    """Common versions of a client and a broker for an API.

    :ivar speaks: versions that the client speaks
    :ivar offers: versions that the broker serves, as announced; None if it does not have the API
    :ivar version: version that they would use; None if there is none
    :ivar used_here: whether recorded clients use it with this broker
    """

    JSON = "api api_key=key speaks offers verdict would_use=version used_here sentence"

    key: int
    speaks: Range
    offers: Range | None
    version: int | None
    verdict: Verdict
    used_here: bool
    sentence: str

    @property
    def api(self) -> str:
        """Name of the API."""
        return api_name(self.key)


@dataclass(frozen=True, slots=True)
class BrokerFit:
    """The expected result of the client with one broker.

    :ivar broker: ``host:port``
    :ivar announced_by: number of the exchange with its announcement; None if there was none
    :ivar releases: releases whose brokers announce exactly that
    :ivar apis: the worst first, then by API key; empty if the broker announced nothing
    :ivar name: name of its address, None if it has none
    """

    JSON = "broker told=announced_by releases verdict apis name"

    broker: str
    announced_by: int | None
    releases: list[str]
    apis: list[ApiFit]
    name: str | None = None

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the APIs that are used with it here; if none is, of all except telemetry."""
        if not self.apis:
            return Verdict.UNKNOWN
        order = list(Verdict)
        needed = [each for each in self.apis if each.key not in TELEMETRY]
        used = [each for each in needed if each.used_here and each.key != ApiKey.API_VERSIONS]
        return min((each.verdict for each in used or needed), key=order.index, default=Verdict.SERVED)


class ClientCompatibility:
    """Judges the brokers of a capture.

    :param line: release of the client
    :ivar negotiation: must learn from the exchanges first
    """

    def __init__(self, line: Line, capture: Capture | None = None) -> None:
        self.name = f"{JAVA} {name_of(line)}"
        self._line = line
        self._faults = RAISED if capture is None else capture.faults
        self.negotiation = Negotiation(capture)

    def result(self) -> list[BrokerFit]:
        """Return the expected result of the client with every broker, the worst first."""
        matrix = self.negotiation.result()
        order = list(Verdict)
        results = (
            self._faults.contained(partial(self._broker, each, matrix.clients), "judging a broker", None)
            for each in matrix.brokers
        )
        found = [each for each in results if each is not None]
        return sorted(found, key=lambda each: (order.index(each.verdict), each.broker))

    def _broker(self, offer: BrokerOffer, clients: list[ClientVersions]) -> BrokerFit:
        if not offer.apis:
            return BrokerFit(offer.broker, None, [], [])
        used = {
            use.key
            for client in clients
            if not client.is_broker
            for use in client.uses
            if use.broker == offer.broker
        }
        served = Target.of_ranges(offer.broker, [offer.apis]).apis
        fits = []
        for key, name in enumerate(NAMES):
            speaks = None if name in BETWEEN_BROKERS else client_range(self._line, key)
            if speaks is not None:
                offers = served[key].versions if key in served else None
                fits.append(self._fit(key, speaks, offers, used_here=key in used))
        order = list(Verdict)
        fits.sort(key=lambda each: (order.index(each.verdict), not each.used_here, each.key))
        return BrokerFit(offer.broker, offer.announced_by, lines_matching(offer.apis), fits)

    def _fit(self, key: int, speaks: Range, offers: Range | None, *, used_here: bool) -> ApiFit:
        both = None if offers is None else (max(speaks[0], offers[0]), min(speaks[1], offers[1]))
        version = both[1] if both is not None and both[0] <= both[1] else None
        client = f"{self.name} speaks {api_name(key)} v{shown(speaks)}"
        if offers is None:
            verdict, sentence = Verdict.MISSING, f"the broker does not have {api_name(key)}"
        elif version is None:
            why = ": brokers before 2.1 are too old for it (KIP-896)" if offers[1] < speaks[0] else ""
            verdict = Verdict.REFUSED
            sentence = f"{client}, and the broker offers v{shown(offers)}{why}"
        elif version < speaks[1]:
            verdict, sentence = (
                Verdict.OLDER,
                f"{client}, and the broker offers v{shown(offers)}: it uses v{version}",
            )
        else:
            verdict, sentence = Verdict.SERVED, f"both know v{version}"
        return ApiFit(
            key=key,
            speaks=speaks,
            offers=offers,
            version=version,
            verdict=verdict,
            used_here=used_here,
            sentence=sentence,
        )
