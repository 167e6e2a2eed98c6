"""The sentences and tables of ``kproxy compat``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from captures.analysis.client_compat import ApiFit, BrokerFit
from captures.analysis.compat_model import ApiVerdict, ClientVerdict, Report, Verdict
from captures.analysis.groups.vocabulary import Certainty
from captures.analysis.version_matrix import shown
from captures.meaning import words
from captures.names import Names
from dissectors.apis import api_name
from kproxy.cli.tables import Column, Row, Table

_COLORS = {Verdict.REFUSED: "red", Verdict.MISSING: "yellow", Verdict.UNKNOWN: "yellow"}
_ASKS = {True: "yes", False: "never", None: "not known"}
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
    """What would come of all clients, in one sentence."""
    if not report.clients:
        return "No client was seen, so there is nothing to compare."
    total = words.counted(len(report.clients), "client")
    found = _counts((each.verdict for each in report.clients), _OF_CLIENTS)
    return f"With {report.target.name}, of {total}: {found}."


def brokers_sentence(client: str, brokers: list[BrokerFit]) -> str:
    """What would come of a client with all brokers, in one sentence."""
    if not brokers:
        return "No broker was seen, so there is nothing to compare."
    found = _counts((each.verdict for each in brokers), _OF_BROKERS)
    return f"For {client}, of {words.counted(len(brokers), 'broker')}: {found}."


def client_table(report: Report, names: Names) -> Table:
    """Clients, and what would come of them."""
    columns = [
        Column("client", least=12),
        Column("verdict"),
        Column("asks"),
        Column("software", least=12, rank=1),
        Column("refused", right=True),
        Column("missing", right=True),
        Column("unknown", right=True),
        Column("older", right=True),
        Column("served", right=True),
    ]
    rows = [_client_row(client, names) for client in report.clients]
    return Table(
        "Clients", columns, rows, "how many APIs; asks: whether it asks which versions the broker has"
    )


def _client_row(client: ClientVerdict, names: Names) -> Row:
    counts = Counter(each.verdict for each in client.apis)
    return Row(
        [
            words.line(names.shown_host(client.name)),
            str(client.verdict),
            _ASKS[client.asks],
            words.line(words.listed(client.software))
            or (f"{client.guess} (a guess)" if client.guess else "-"),
            *(f"{counts[verdict]:,}" if counts[verdict] else "" for verdict in Verdict),
        ],
        color=_COLORS.get(client.verdict),
    )


def verdict_table(report: Report, names: Names, *, served: bool) -> Table:
    """APIs, and why; what is said of several clients is said once.

    :param served: whether what would go on as it does is told, too
    """
    columns = [
        Column("verdict"),
        Column("API", least=12),
        Column("used", right=True),
        Column("served", right=True),
        Column("would use", right=True),
        Column("clients", least=12),
        Column("requests", right=True, rank=1),
        Column("first", right=True),
        Column("certainty", rank=2),
    ]
    alike: dict[tuple[object, ...], list[tuple[ClientVerdict, ApiVerdict]]] = {}
    for client in report.clients:
        for each in client.apis:
            if served or each.verdict is not Verdict.SERVED:
                key = list(Verdict).index(each.verdict), each.key, tuple(each.used), each.sentence
                alike.setdefault(key, []).append((client, each))
    rows = [_verdict_row(found, names) for _, found in sorted(alike.items(), key=lambda each: each[0][:3])]
    return Table("Versions", columns, rows, "first: number of an exchange for read --exchange")


def _verdict_row(found: list[tuple[ClientVerdict, ApiVerdict]], names: Names) -> Row:
    one = found[0][1]
    return Row(
        [
            str(one.verdict),
            one.api,
            words.ranges(one.used),
            shown(one.serves) or "-",
            "" if one.would_use is None else f"{one.would_use}{'+' if one.or_higher else ''}",
            words.some(dict.fromkeys(words.line(names.shown_host(client.name)) for client, _ in found)),
            f"{sum(sum(each.used.values()) for _, each in found):,}",
            f"#{min(each.first for _, each in found)}",
            "" if one.certainty is Certainty.OBSERVED else str(one.certainty),
        ],
        below=[one.sentence],
        color=_COLORS.get(one.verdict),
    )


def broker_table(brokers: list[BrokerFit], names: Names) -> Table:
    """Brokers, and what would come of the client with them."""
    columns = [
        Column("broker", least=15),
        Column("verdict"),
        Column("told in", right=True),
        Column("looks like", least=12),
    ]
    rows = [
        Row(
            [
                words.line(names.shown(each.broker)),
                str(each.verdict),
                "not told" if each.told is None else f"#{each.told}",
                words.listed(each.releases) or "-",
            ],
            color=_COLORS.get(each.verdict),
        )
        for each in brokers
    ]
    return Table("Brokers", columns, rows, "looks like: releases that announce just these versions")


def fit_table(brokers: list[BrokerFit], names: Names, *, everything: bool) -> Table:
    """APIs that do not fit; what is said of several brokers is said once.

    :param everything: whether APIs are told that fit, or that nobody uses here
    """
    columns = [
        Column("verdict"),
        Column("API", least=12),
        Column("speaks", right=True),
        Column("offered", right=True),
        Column("would use", right=True),
        Column("used here"),
        Column("brokers", least=12),
    ]
    alike: dict[tuple[object, ...], list[tuple[BrokerFit, ApiFit]]] = {}
    for broker in brokers:
        for each in broker.apis:
            if everything or (each.verdict is not Verdict.SERVED and (each.used_here or _is_refused(each))):
                key = list(Verdict).index(each.verdict), not each.used_here, each.key, each.sentence
                alike.setdefault(key, []).append((broker, each))
    rows = [_fit_row(found, names) for _, found in sorted(alike.items(), key=lambda each: each[0][:3])]
    return Table("Versions", columns, rows, "used here: whether recorded clients use it")


def _is_refused(fit: ApiFit) -> bool:
    return fit.verdict is Verdict.REFUSED


def _fit_row(found: list[tuple[BrokerFit, ApiFit]], names: Names) -> Row:
    one = found[0][1]
    return Row(
        [
            str(one.verdict),
            api_name(one.key),
            shown(one.speaks),
            shown(one.offers) or "-",
            "" if one.version is None else str(one.version),
            "yes" if one.used_here else "no",
            words.some(dict.fromkeys(names.shown(broker.broker) for broker, _ in found)),
        ],
        below=[one.sentence],
        color=_COLORS.get(one.verdict),
    )
