"""Statistics per group: requests by API, and errors.

An exchange counts for every group that its messages name; a Fetch names none. Members, generations and state of a group
come from :mod:`captures.analysis.groups`, which follows the members' exchanges; the contents of DescribeGroups and
ListGroups responses are kept here, for groups without a captured member.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from captures.analysis.exchange_groups import RowGroups, api_names
from captures.analysis.groups.calls import HEARTBEATS
from captures.arrays import Int64s
from captures.exchanges import Exchange, ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.columns.arrays import without_repeats
from captures.exchanges.projected_reader import CALLS
from captures.filters.groups import named_groups
from captures.meaning.exchange import rows, text
from dissectors.api_keys import ApiKey
from dissectors.error_codes import error_name

_DESCRIBES = {ApiKey.DESCRIBE_GROUPS: "", **{key + 1: str(kind) for key, kind in HEARTBEATS.items()}}
"""API key -> kind of group that it describes; for newer kinds, the key follows that of their heartbeats."""

TAKEN = ("groups", "member", "error_codes")
"""The message columns that :meth:`GroupStats.add_columns` uses."""


@dataclass(slots=True)
class GroupRow:
    """One group.

    :ivar kind: as last listed or described: ``classic``, ``consumer``, ``share`` or ``streams``; empty if unknown
    :ivar protocol_type: as last listed or described, of a classic group, such as ``consumer`` or ``connect``
    :ivar protocol: as last described, name of the assignor
    :ivar state: as last listed or described
    :ivar exchanges: exchanges that name it
    :ivar apis: exchanges by API, the most frequent first
    :ivar errors: number of occurrences by name, without expected ones
    :ivar members: calls of its members to the coordinator, by member ID
    :ivar first: time of the first exchange that names it, ns since the epoch
    :ivar last: time of the last exchange that names it, ns since the epoch
    """

    group: str
    kind: str = ""
    protocol_type: str = ""
    protocol: str = ""
    state: str = ""
    exchanges: int = 0
    apis: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    members: Counter[str] = field(default_factory=Counter)
    first: int = 0
    last: int = 0


class GroupStats:
    """Counts exchanges by group."""

    def __init__(self) -> None:
        self._groups: dict[str, GroupRow] = {}

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        for name in named_groups(exchange):
            self._count(name, exchange)
        self._describe(exchange)

    def add_columns(self, columns: ExchangeColumns, reader: ExchangeReader, indexes: Int64s) -> None:
        """Count exchanges, in the order of their numbers.

        :param indexes: index in the reader for each row of the columns
        """
        groups, names = columns.ragged("groups"), [text or "" for text in columns.texts("groups")]
        times = columns.flat("time")[groups.rows]
        codes, apis = api_names(columns)
        kinds = RowGroups(groups.values, codes[groups.rows])
        figures = kinds.sums(np.ones(len(times))), kinds.least(times), kinds.greatest(times)
        for at, count, first, last in zip(kinds.first.tolist(), *figures, strict=True):
            group = self._group(names[groups.values[at]], first)
            group.exchanges += count
            group.apis[apis[codes[groups.rows[at]]]] += count
            group.first, group.last = min(group.first, first), max(group.last, last)
        callers, members = columns.flat("member")[groups.rows], columns.texts("member")
        calls = callers >= 0
        for name, member, count in _pairs(groups.values[calls], callers[calls]):
            self._groups[names[name]].members[members[member] or ""] += count
        errors = columns.ragged("error_codes")
        once = without_repeats(errors, errors.values)
        failed = groups.take(errors.rows[once].astype(np.int64))
        for name, error, count in _pairs(failed.values, errors.values[once][failed.rows]):
            self._groups[names[name]].errors[error_name(error)] += count
        describing = np.isin(columns.flat("api_key"), [*_DESCRIBES, ApiKey.LIST_GROUPS])
        for exchange in reader.several(indexes[describing].tolist()):
            self._describe(exchange)

    def _describe(self, exchange: Exchange) -> None:
        kind = _DESCRIBES.get(exchange.api_key or 0)
        response = exchange.response_body
        if response and (kind is not None or exchange.api_key == ApiKey.LIST_GROUPS):
            for row in rows(response, "groups"):
                group = self._groups.get(text(row, "group_id"))
                if group is not None and not row.get("error_code"):
                    group.state = text(row, "group_state") or group.state
                    group.kind = text(row, "group_type").lower() or group.kind or kind or ""
                    group.protocol_type = text(row, "protocol_type") or group.protocol_type
                    named = text(row, "protocol_data") or text(row, "assignor_name")
                    group.protocol = named or group.protocol

    def result(self) -> list[GroupRow]:
        """Return the groups, the one with the most exchanges first."""
        for group in self._groups.values():
            group.apis = Counter(dict(group.apis.most_common()))
        return sorted(self._groups.values(), key=lambda group: (-group.exchanges, group.group))

    def group(self, name: str) -> GroupRow | None:
        """Return a group, None if nothing was counted of it."""
        return self._groups.get(name)

    def _group(self, name: str, time: int) -> GroupRow:
        group = self._groups.get(name)
        if group is None:
            group = self._groups[name] = GroupRow(name, first=time)
        return group

    def _count(self, name: str, exchange: Exchange) -> None:
        group = self._group(name, exchange.time)
        group.exchanges += 1
        group.apis[exchange.api] += 1
        group.first = min(group.first, exchange.time)
        group.last = max(group.last, exchange.time)
        group.errors.update({error.name for error in exchange.unexpected_errors})
        for body in (exchange.request_body, exchange.response_body) if exchange.api_key in CALLS else ():
            if body and (member := text(body, "member_id")):
                group.members[member] += 1
                break


def _pairs(*codes: NDArray[np.integer]) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of codes, in the order of their first occurrences, with the number of its occurrences."""
    pairs = RowGroups(*codes)
    found = (each[pairs.first].tolist() for each in codes)
    yield from zip(*found, pairs.sums(np.ones(len(codes[0]))), strict=True)
