"""Recorded brokers that would refuse or limit a release of the Java client.

The client speaks the versions of its release (:mod:`captures.analysis.releases`), the brokers offer those that they
announced in ApiVersions. The client takes the highest version that both know (KIP-35), and fails if there is none:
clients of 4.0 and later do so with brokers before 2.1 (KIP-896).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from captures.analysis.client_ranges import client_range
from captures.analysis.clients.libraries import JAVA
from captures.analysis.compat_model import Target, Verdict
from captures.analysis.negotiation import BETWEEN_BROKERS, Negotiation
from captures.analysis.releases import Line, lines_matching, name_of
from captures.analysis.version_matrix import BrokerOffer, ClientVersions, shown
from captures.exchanges import Capture
from captures.faults import RAISED
from captures.json_objects import Range
from dissectors.api_keys import TELEMETRY, ApiKey
from dissectors.apis import NAMES, api_name


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
