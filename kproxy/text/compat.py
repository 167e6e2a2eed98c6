"""The sentences and tables of ``kproxy compat``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from captures.analysis.compat import ApiFit, ApiVerdict, BrokerFit, ClientVerdict, Report, Verdict
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.negotiation import shown
from captures.meaning import words
from captures.names import Names
from kproxy.text.api_versions import ASKS
from kproxy.text.tables import Column, Table

W = TypeVar("W")
F = TypeVar("F", bound=ApiVerdict | ApiFit)

_COLORS = {Verdict.REFUSED: "red", Verdict.MISSING: "yellow", Verdict.UNKNOWN: "yellow"}
_OF_CLIENTS = {
    Verdict.REFUSED: "would be refused",
    Verdict.MISSING: "would miss an API",
    Verdict.UNKNOWN: "may or may not be served",
    Verdict.OLDER: "would be served with older versions",
    Verdict.SERVED: "would be served as now",
}
_OF_BROKERS = {
    Verdict.REFUSED: "too old or too new for it",
    Verdict.MISSING: "without an API that is used here",
    Verdict.UNKNOWN: "of unknown versions",
    Verdict.OLDER: "serving it older versions",
    Verdict.SERVED: "serving all it knows",
}


def _counts(verdicts: Iterable[Verdict], phrases: dict[Verdict, str]) -> str:
    counts = Counter(verdicts)
    return words.listed(f"{counts[verdict]:,} {phrases[verdict]}" for verdict in Verdict if counts[verdict])


def clients_sentence(report: Report) -> str:
    """The expected result for all clients, in one sentence."""
    if not report.clients:
        return "No client was seen, so there is nothing to compare."
    total = words.counted(len(report.clients), "client")
    found = _counts((each.verdict for each in report.clients), _OF_CLIENTS)
    return f"With {report.target.name}, of {total}: {found}."


def brokers_sentence(client: str, brokers: list[BrokerFit]) -> str:
    """The expected result of a client with all brokers, in one sentence."""
    if not brokers:
        return "No broker was seen, so there is nothing to compare."
    found = _counts((each.verdict for each in brokers), _OF_BROKERS)
    return f"For {client}, of {words.counted(len(brokers), 'broker')}: {found}."


def client_table(report: Report, names: Names) -> Table:
    """Clients, with the expected result."""
    return Table.of(
        "Clients",
        report.clients,
        [
            (Column("client", least=12), lambda client: words.line(names.shown_host(client.name))),
            (Column("verdict"), lambda client: str(client.verdict)),
            (Column("asks"), lambda client: ASKS[client.asks]),
            (Column("software", least=12, rank=1), _software),
            *((Column(str(verdict), right=True), _counted(verdict)) for verdict in Verdict),
        ],
        about="how many APIs; asks: whether it asks which versions the broker has",
        color=lambda client: _COLORS.get(client.verdict),
    )


def _software(client: ClientVerdict) -> str:
    guess = f"{client.guess} (a guess)" if client.guess else "-"
    return words.line(words.listed(client.software)) or guess


def _counted(verdict: Verdict) -> Callable[[ClientVerdict], str]:
    def counted(client: ClientVerdict) -> str:
        count = sum(each.verdict is verdict for each in client.apis)
        return f"{count:,}" if count else ""

    return counted


def _alike(found: Iterable[tuple[W, F]], order: Callable[[F], tuple[Any, ...]]) -> list[list[tuple[W, F]]]:
    """Return equal statements about several clients or brokers together, the worst verdicts first."""
    alike: dict[tuple[Any, str], list[tuple[W, F]]] = {}
    for who, each in found:
        key = (list(Verdict).index(each.verdict), *order(each))
        alike.setdefault((key, each.sentence), []).append((who, each))
    return [alike[key] for key in sorted(alike, key=lambda key: key[0])]


def verdict_table(report: Report, names: Names, *, served: bool) -> Table:
    """APIs, with reasons; equal rows of several clients are merged.

    :param served: whether to show unchanged clients, too
    """
    shown_ones = (
        (client, each)
        for client in report.clients
        for each in client.apis
        if served or each.verdict is not Verdict.SERVED
    )
    return Table.of(
        "Versions",
        _alike(shown_ones, lambda each: (each.key, tuple(each.used))),
        [
            (Column("verdict"), lambda found: str(found[0][1].verdict)),
            (Column("API", least=12), lambda found: found[0][1].api),
            (Column("used", right=True), lambda found: words.ranges(found[0][1].used)),
            (Column("served", right=True), lambda found: shown(found[0][1].serves) or "-"),
            (Column("would use", right=True), lambda found: _would_use(found[0][1])),
            (
                Column("clients", least=12),
                lambda found: words.some(
                    dict.fromkeys(words.line(names.shown_host(client.name)) for client, _ in found)
                ),
            ),
            (
                Column("requests", right=True, rank=1),
                lambda found: f"{sum(sum(each.used.values()) for _, each in found):,}",
            ),
            (Column("first", right=True), lambda found: f"#{_first(found)}"),
            (
                Column("certainty", rank=2),
                lambda found: str(found[0][1].certainty).removeprefix(Certainty.OBSERVED),
            ),
        ],
        about="first: number of an exchange for read --exchange",
        below=lambda found: [found[0][1].sentence],
        color=lambda found: _COLORS.get(found[0][1].verdict),
        number=_first,
    )


def _would_use(one: ApiVerdict) -> str:
    return "" if one.would_use is None else f"{one.would_use}{'+' if one.or_higher else ''}"


def _first(found: list[tuple[ClientVerdict, ApiVerdict]]) -> int:
    return min(each.first for _, each in found)


def broker_table(brokers: list[BrokerFit], names: Names) -> Table:
    """Brokers, with the expected result of the client."""
    return Table.of(
        "Brokers",
        brokers,
        [
            (Column("broker", least=15), lambda each: words.line(names.shown(each.broker))),
            (Column("verdict"), lambda each: str(each.verdict)),
            (
                Column("announced in", right=True),
                lambda each: "not announced" if each.announced_by is None else f"#{each.announced_by}",
            ),
            (Column("looks like", least=12), lambda each: words.listed(each.releases) or "-"),
        ],
        color=lambda each: _COLORS.get(each.verdict),
        about="looks like: releases that announce just these versions",
    )


def fit_table(brokers: list[BrokerFit], names: Names, *, everything: bool) -> Table:
    """APIs that do not match; equal rows of several brokers are merged.

    :param everything: whether to show APIs that match, or that no client uses here
    """
    shown_ones = (
        (broker, each)
        for broker in brokers
        for each in broker.apis
        if everything or (each.verdict is not Verdict.SERVED and (each.used_here or _is_refused(each)))
    )
    return Table.of(
        "Versions",
        _alike(shown_ones, lambda each: (not each.used_here, each.key)),
        [
            (Column("verdict"), lambda found: str(found[0][1].verdict)),
            (Column("API", least=12), lambda found: found[0][1].api),
            (Column("speaks", right=True), lambda found: shown(found[0][1].speaks)),
            (Column("offered", right=True), lambda found: shown(found[0][1].offers) or "-"),
            (
                Column("would use", right=True),
                lambda found: "" if found[0][1].version is None else str(found[0][1].version),
            ),
            (Column("used here"), lambda found: "yes" if found[0][1].used_here else "no"),
            (
                Column("brokers", least=12),
                lambda found: words.some(dict.fromkeys(names.shown(broker.broker) for broker, _ in found)),
            ),
        ],
        about="used here: whether recorded clients use it",
        below=lambda found: [found[0][1].sentence],
        color=lambda found: _COLORS.get(found[0][1].verdict),
    )


def _is_refused(fit: ApiFit) -> bool:
    return fit.verdict is Verdict.REFUSED
