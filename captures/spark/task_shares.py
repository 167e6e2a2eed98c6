"""How what needs all exchanges of a capture is shared among tasks: by what it is about, and by key."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from captures.analysis.findings.rule import Key, Rule
from captures.arrays import Bools
from captures.tables.whole_rows import OF_GROUPS
from dissectors.api_keys import ApiKey

if TYPE_CHECKING:
    from captures.ranges.exchanges import RangeExchanges

_RECORDS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""Produce and Fetch: most of what there is, and the dearest to look at."""
_WORTH_SHARING = 3
"""Processors from which on it is faster that several tasks decode exchanges."""
_MOST = 100
"""Tasks among which exchanges are dealt out by a key."""


class Dealt(Enum):
    """By what exchanges are dealt out among tasks that do the same."""

    TOGETHER = "together"
    CLIENT = "client"
    CONNECTION = "connection"


class Share(NamedTuple):
    """What one task makes of the exchanges it is given.

    :ivar tables: names of tables
    :ivar rules: that make the findings
    :ivar dealt: by what exchanges are dealt out among the tasks of these tables and rules
    :ivar bucket: which of these tasks it is
    :ivar of: how many they are
    """

    tables: tuple[str, ...]
    rules: tuple[type[Rule], ...]
    dealt: Dealt = Dealt.TOGETHER
    bucket: int = 0
    of: int = 1

    @property
    def follows_groups(self) -> bool:
        """Whether it tells the histories of groups, which look at when anything at all was answered."""
        return bool(OF_GROUPS.intersection(self.tables)) or any(rule.of_groups for rule in self.rules)

    @property
    def needs_headers(self) -> bool:
        """Whether it is given the headers of all its exchanges, also of those that are not shown to rules."""
        return self.follows_groups or "client_versions" in self.tables

    def has(self, connection: int) -> bool:
        """Tell whether it makes the rows of a connection."""
        return self.dealt is not Dealt.CONNECTION or connection % self.of == self.bucket

    def holds(self, part: RangeExchanges) -> Bools:
        """Return which exchanges of a range are its own."""
        if self.dealt is Dealt.TOGETHER:
            return np.ones(len(part), np.bool_)
        if self.dealt is Dealt.CONNECTION:
            mine: Bools = part.connections % self.of == self.bucket
            return mine
        table = part.capture.table
        texts = np.array([self._has(text) for text in table.client_ids] + [False], np.bool_)
        named = np.array([bool(text) for text in table.client_ids] + [False], np.bool_)
        client_ids, connections = (table.column(name)[part.rows] for name in ("client_id", "connection"))
        met, which = np.unique(connections, return_inverse=True)
        hosts = (part.capture.endpoints(connection)[0].rpartition(":")[0] for connection in met.tolist())
        of_hosts = np.array([self._has(host) for host in hosts], np.bool_)
        chosen: Bools = np.where(named[client_ids], texts[client_ids], of_hosts[which])
        return chosen

    def _has(self, client: str | None) -> bool:
        return crc32((client or "").encode()) % self.of == self.bucket


def shares_of(tables: Sequence[str], rules: Sequence[type[Rule]], processors: int) -> list[Share]:
    """Divide tables, and the rules of the diagnosis, among tasks.

    With few processors one task makes all, while the others decode ranges.

    :param tables: names of tables that need all exchanges
    """
    if processors < _WORTH_SHARING:
        return [Share(tuple(tables), tuple(rules))]
    wanted = tuple(rules) if "findings" in tables else ()
    groups = tuple(rule for rule in wanted if rule.of_groups)
    by_client = tuple(rule for rule in wanted if rule.key is Key.CLIENT)
    rest = tuple(rule for rule in wanted if rule not in groups and rule not in by_client)
    records = tuple(rule for rule in rest if rule.apis and rule.apis & _RECORDS)
    others = tuple(rule for rule in rest if rule not in records)
    of_groups = tuple(name for name in tables if name in OF_GROUPS)
    by_connection = tuple(name for name in tables if name == "connections")
    of_others = tuple(name for name in tables if name not in (*of_groups, *by_connection, "findings"))
    shares = [
        Share((*of_groups, *_findings(groups)), groups),
        Share(_findings(records), records),
        Share((*of_others, *_findings(others)), others),
        *_dealt(Share(_findings(by_client), by_client, Dealt.CLIENT), processors),
        *_dealt(Share(by_connection, (), Dealt.CONNECTION), processors),
    ]
    return [share for share in shares if share.tables]


def _dealt(share: Share, processors: int) -> list[Share]:
    count = min(processors, _MOST)
    return [share._replace(bucket=bucket, of=count) for bucket in range(count)]


def _findings(rules: Sequence[type[Rule]]) -> tuple[str, ...]:
    return ("findings",) if rules else ()
