"""The tables of ``kproxy api-versions``: brokers, clients, versions in use, and warnings."""

from __future__ import annotations

from captures.analysis.negotiation import (
    ClientVersions,
    Limit,
    Matrix,
    Use,
    VersionWarning,
    WarningKind,
    shown,
)
from captures.json_objects import Range
from captures.meaning import words
from captures.names import Names
from dissectors.apis import api_name
from kproxy.text.tables import Column, Row, Table

_TROUBLE = "red"
_ODD = "yellow"
_GRAVE = frozenset({WarningKind.OUTSIDE_OFFERED, WarningKind.REFUSED_BY_KAFKA_4})
ASKS = {True: "yes", False: "never", None: "not known"}
"""Whether a client asks for the versions that brokers offer."""


def broker_table(matrix: Matrix, names: Names) -> Table:
    """Brokers, and what they announced."""
    return Table.of(
        "Brokers",
        matrix.brokers,
        [
            (Column("broker", least=15), lambda offer: words.line(names.shown(offer.broker))),
            (Column("APIs", right=True), lambda offer: f"{len(offer.apis):,}" if offer.apis else "-"),
            (
                Column("announced in", right=True, rank=1),
                lambda offer: "not announced" if offer.announced_by is None else f"#{offer.announced_by}",
            ),
            (
                Column("features in force", least=20, rank=2),
                lambda offer: words.line(
                    words.listed(f"{name} {most}" for name, (_, most) in sorted(offer.finalized.items()))
                ),
            ),
        ],
        color=lambda offer: None if offer.apis else _ODD,
        about="brokers announce what they offer in ApiVersions (0.10 and later)",
    )


def client_table(matrix: Matrix, names: Names) -> Table:
    """Clients, and whether they ask."""
    return Table.of(
        "Clients",
        matrix.clients,
        [
            (Column("client", least=12), lambda client: words.line(names.shown_host(client.name))),
            (
                Column("software", least=12),
                lambda client: (
                    words.line(words.listed(client.software)) or ("a broker" if client.is_broker else "-")
                ),
            ),
            (Column("asks"), lambda client: ASKS[client.asks]),
            (
                Column("brokers", right=True, rank=2),
                lambda client: f"{len({use.broker for use in client.uses}):,}",
            ),
            (Column("APIs", right=True, rank=1), lambda client: f"{len({use.key for use in client.uses}):,}"),
            (
                Column("address", least=9, rank=3),
                lambda client: words.some(map(names.shown_host, client.hosts)),
            ),
        ],
        color=lambda client: _ODD if client.asks is False and not client.is_broker else None,
        about="asks: whether it asks for the versions that the broker offers",
    )


def use_table(matrix: Matrix, names: Names, *, unused: bool) -> Table:
    """Versions in use; equal rows of several clients and brokers are merged.

    :param unused: whether to show offered APIs that are not used
    """
    columns = [
        Column("API", least=16),
        Column("offered", right=True),
        Column("used", right=True, least=4),
        Column("could use", right=True),
        Column("requests", right=True, rank=1),
        Column("clients", least=12),
        Column("brokers", least=12, rank=2),
        Column("limit", least=8, rank=3),
    ]
    alike: dict[tuple[object, ...], list[tuple[ClientVersions, Use]]] = {}
    for client in matrix.clients:
        for use in client.uses:
            key = use.key, use.offered, tuple(use.used), use.could, use.limit
            alike.setdefault(key, []).append((client, use))
    warned = {(each.client, each.broker, each.api): each.kind for each in reversed(matrix.warnings)}
    rows = [(found[0][1].key, _use_row(found, names, warned)) for found in alike.values()]
    if unused:
        rows += _unused(matrix, names)
    about = "could use: what the broker offers, from the highest on that the client is known to speak"
    return Table("Versions", columns, [row for _, row in sorted(rows, key=lambda each: each[0])], about)


def _use_row(
    found: list[tuple[ClientVersions, Use]], names: Names, warned: dict[tuple[str, str, str], WarningKind]
) -> Row:
    use = found[0][1]
    kinds = {warned.get((client.name, each.broker, each.api)) for client, each in found}
    color = _TROUBLE if kinds & _GRAVE else _ODD if kinds - {None} else None
    limit = {Limit.BROKER: "broker offers no more", Limit.CLIENT: "client uses less", None: ""}[use.limit]
    return Row(
        [
            use.api,
            shown(use.offered) or "not announced",
            words.ranges(use.used),
            shown(use.could) or "-",
            f"{sum(sum(each.used.values()) for _, each in found):,}",
            words.some(dict.fromkeys(words.line(names.shown_host(client.name)) for client, _ in found)),
            words.some(dict.fromkeys(names.shown(each.broker) for _, each in found)),
            limit,
        ],
        color=color,
    )


def _unused(matrix: Matrix, names: Names) -> list[tuple[int, Row]]:
    used = {(use.broker, use.key) for client in matrix.clients for use in client.uses}
    offered: dict[tuple[int, Range], list[str]] = {}
    for offer in matrix.brokers:
        for key, versions in offer.apis.items():
            if (offer.broker, key) not in used:
                offered.setdefault((key, versions), []).append(names.shown(offer.broker))
    return [
        (key, Row([api_name(key), shown(versions), "", "", "", "", words.some(brokers), ""]))
        for (key, versions), brokers in offered.items()
    ]


def warning_table(matrix: Matrix, names: Names) -> Table:
    """Warnings; equal ones about several clients or brokers are merged."""
    alike: dict[tuple[object, ...], list[VersionWarning]] = {}
    for each in matrix.warnings:
        alike.setdefault((each.kind, each.api, each.version, each.sentence), []).append(each)
    return Table.of(
        "Warnings",
        alike.values(),
        [
            (Column("warning"), lambda found: str(found[0].kind)),
            (
                Column("API", least=10),
                lambda found: (
                    found[0].api if found[0].version is None else f"{found[0].api} v{found[0].version}"
                ),
            ),
            (
                Column("clients", least=10),
                lambda found: words.some(
                    dict.fromkeys(words.line(names.shown_host(each.client)) for each in found)
                ),
            ),
            (Column("times", right=True, rank=1), lambda found: f"{sum(each.count for each in found):,}"),
            (Column("first", right=True), lambda found: f"#{min(each.first for each in found)}"),
            (
                Column("brokers", least=12, rank=2),
                lambda found: words.some(dict.fromkeys(names.shown(each.broker) for each in found)),
            ),
        ],
        below=lambda found: [found[0].sentence],
        color=lambda found: _TROUBLE if found[0].kind in _GRAVE else _ODD,
        about="first: number of an exchange for read --exchange",
    )
