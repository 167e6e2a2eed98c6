"""Clients: their software, identity, addresses, and the API versions they use."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from captures.analysis.client_stats import ClientRow, ClientStats
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import COUNTED, exchange_groups
from captures.analysis.offered_versions import OfferedVersions, too_old
from captures.arrays import Int64s
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from captures.filters.lexer import quoted
from captures.meaning import words
from captures.time_format import clock
from kproxy.session.access import Access
from kproxy.text.tables import Column
from kproxy.tui.views.table_view import Detail, TableView, facts
from kproxy.tui.widgets.table_rows import AnyCell, Cell, Role, Row, counted, moment, sized

_MOST_CONNECTIONS = 200
"""Most connections that a filter lists one by one."""


class ClientsFold:
    """The figures of clients, and the versions that brokers offer them."""

    TAKEN = COUNTED

    def __init__(self) -> None:
        self.offered = OfferedVersions()
        self._stats = ClientStats()
        self._result: list[ClientRow] | None = None

    def add(self, exchange: Exchange) -> None:
        self._result = None
        self._stats.add(exchange)
        self.offered.add(exchange)

    def add_all(self, access: Access, columns: ExchangeColumns, indexes: Int64s) -> Iterator[int]:
        for group in exchange_groups(columns, indexes + access.plain.first):
            self._stats.count(group)
        for exchange in access.plain.several(indexes[DecisionColumns(columns).introducing].tolist()):
            self._stats.introduce(exchange)
            self.offered.add(exchange)
            yield exchange.number - access.plain.first

    def result(self) -> list[ClientRow]:
        """Return the clients, by number of exchanges, descending."""
        if self._result is None:
            self._result = self._stats.result()
        return self._result


class Clients(TableView[ClientsFold]):
    """One row per client; API versions of the selected one."""

    view_name = "clients"
    THINGS = "clients"
    FACTS = True
    COLUMNS = (
        Column("client", least=12),
        Column("software", least=23),
        Column("too old", least=8, rank=2),
        Column("principal", least=8, rank=4),
        Column("address", least=9, rank=3),
        Column("brokers", right=True, rank=8),
        Column("conns", right=True, rank=5),
        Column("count", right=True),
        Column("errors", right=True),
        Column("unanswered", right=True, rank=1),
        Column("sent", right=True, rank=6),
        Column("received", right=True, rank=6),
        Column("began", rank=9),
        Column("APIs", least=20, rank=7),
    )
    DETAILS = (
        (
            Column("API", least=14),
            Column("count", right=True),
            Column("versions", least=8),
            Column("offered", right=True, rank=1),
            Column("note", least=16),
        ),
    )

    def make(self, access: Access) -> ClientsFold:
        return ClientsFold()

    def rows(self, fold: ClientsFold, access: Access) -> Sequence[Row]:
        known = self._known(access)
        return [self._row(row, known.get(_key(row), row), access) for row in fold.result()]

    def _known(self, access: Access) -> dict[Hashable, ClientRow]:
        """Return the clients' rows over all exchanges, by key."""
        return {_key(row): row for row in self.all_of(access).result()}

    def _row(self, row: ClientRow, known: ClientRow, access: Access) -> Row:
        names = access.capture.names
        cells: tuple[AnyCell, ...] = (
            row.client_id or Cell(f"(none) {names.shown_host(row.name)}", Role.MUTED),
            words.listed(known.software),
            Cell(words.listed(_old(known)), Role.WARNING),
            words.listed(known.principals),
            words.some(map(names.shown_host, row.hosts)),
            counted(len(row.brokers)),
            counted(row.connections),
            counted(row.exchanges),
            counted(row.errors, Role.ERROR),
            counted(row.unanswered, Role.WARNING),
            sized(row.request_bytes),
            sized(row.response_bytes),
            moment(row.first, self.session.zone),
            words.listed(f"{api} {count:,}" for api, count in row.apis.items()),
        )
        return Row(_key(row), cells, leads_to=_filter(row))

    def detail(self, fold: ClientsFold, access: Access, key: Hashable) -> Detail | None:
        row = next((row for row in fold.result() if _key(row) == key), None)
        if row is None:
            return None
        known, offered = self._known(access).get(key, row), self.all_of(access).offered
        names, zone = access.capture.names, self.session.zone
        old = _old(known)
        text = facts(
            ("software", *(known.software or ("unknown",))),
            ("principal", *known.principals),
            ("hosts", *map(names.shown_host, row.hosts)),
            ("brokers", *map(names.shown, row.brokers)),
            ("seen", f"{clock(row.first, zone)} to {clock(row.last, zone)}"),
            ("too old", Cell(_advice(old), Role.WARNING) if old else ""),
        )
        matrix = [_speaks(row, api, offered) for api in row.apis]
        return Detail(f"client {row.name}", text, (matrix,))


def _key(row: ClientRow) -> Hashable:
    return row.client_id, row.name


def _old(row: ClientRow) -> list[str]:
    """Return the API versions used that brokers of Kafka 4 refuse: ``Fetch v3``."""
    return [
        f"{api} v{version}" for api, used in row.versions.items() for version in used if too_old(api, version)
    ]


def _advice(old: Sequence[str]) -> str:
    return f"{words.some(old, 6)}: brokers from Kafka 4.0 on refuse this (KIP-896); renew the client library"


def _speaks(row: ClientRow, api: str, offered: OfferedVersions) -> Row:
    """Return a row of the matrix: an API, the versions used, and those that the brokers offer."""
    used, brokers = row.versions.get(api, {}), offered.of(row.brokers, api)
    old = [version for version in used if too_old(api, version)]
    note: AnyCell = ""
    if old:
        note = Cell("refused by Kafka 4 (KIP-896)", Role.WARNING)
    elif used and brokers is not None and max(used) > brokers[1]:
        fell_back = api == "ApiVersions"
        note = (
            "fell back to what is offered"
            if fell_back
            else Cell("more than all its brokers offer", Role.WARNING)
        )
    elif len(used) > 1:
        note = "several versions"
    cells: tuple[AnyCell, ...] = (
        api,
        counted(row.apis[api]),
        words.listed(
            f"v{version}" if len(used) == 1 else f"v{version} ×{count:,}" for version, count in used.items()
        ),
        "" if brokers is None else f"{brokers[0]}-{brokers[1]}",
        note,
    )
    return Row(api, cells, leads_to=f"({_filter(row)}) and api == {quoted(api)}")


def _filter(row: ClientRow) -> str:
    """Return a filter for a client's exchanges, including those without a client ID on its connections."""
    unnamed = ""
    if row.unnamed:
        wanted = words.plain(row.unnamed) if len(row.unnamed) <= _MOST_CONNECTIONS else ""
        place = (
            f"connection in {{{wanted}}}" if wanted else f"client.host == {quoted(row.hosts[0].strip('[]'))}"
        )
        unnamed = f"{place} and not client_id"
    if row.client_id is None:
        return unnamed
    named = f"client_id == {quoted(row.client_id)}"
    return f"{named} or ({unnamed})" if unnamed else named
