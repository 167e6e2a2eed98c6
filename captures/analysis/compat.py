"""Recorded clients that a broker of another release would refuse, or serve with older versions.

A client that sends ApiVersions (KIP-35) takes the highest version that both sides know. Its own versions are bounded by
the versions it used, and known for the Java client from its release: client and broker of a release are built from one
list of versions. If it used less than its broker offered, that was its own limit. Its behaviour is thus inferred, and
marked as such; how its client library reacts (a fallback, an exception) cannot be seen on the wire.

A client that never sends ApiVersions sends the same versions to any broker. One whose start was not captured may do
either.

Brokers since 0.10 close the connection on a version that they do not serve, except for ApiVersions itself (KIP-511).
0.9 keeps the connection open and does not answer an unknown API; 0.8.2 closes it.
"""

from __future__ import annotations

from functools import partial

from captures.analysis.client_ranges import LibraryVersions, library_versions
from captures.analysis.clients.fingerprints import Fingerprints
from captures.analysis.clients.libraries import Library, stated_library
from captures.analysis.compat_model import ApiVerdict, ClientVerdict, Report, Target, Verdict
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import ExchangeGroup
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.negotiation import Negotiation
from captures.analysis.releases import lines_serving, name_of
from captures.analysis.version_matrix import ClientVersions, Limit, shown
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange
from captures.faults import RAISED
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name


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
