"""Groups of exchanges that statistics count together: of one connection, client ID, API and version.

Statistics accept groups: of one exchange (:meth:`ExchangeGroup.of`), or of a whole capture, added up by column
(:func:`exchange_groups`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from captures.analysis.client_identity import ConnectionKey, connection_key
from captures.arrays import Bools, Int64s
from captures.exchanges import Exchange, Flag
from captures.exchanges.columns import ExchangeColumns
from dissectors.apis import api_name

SASL_TOKEN = "SaslToken"  # noqa: S105  # a name
UNKNOWN = "unknown"
COUNTED = ("error_codes", "expected_error_codes", "undecoded", "guessed")
"""The message columns that :func:`exchange_groups` uses."""

_DENSE = 4
"""Span of values, per element, up to which ranks are counted instead of sorted."""

_COUNTED_FLAGS = (Flag.UNANSWERED, Flag.NOT_RECORDED, Flag.NO_RESPONSE_EXPECTED, Flag.ORPHAN)


@dataclass(slots=True)
class Counts:
    """Numbers of exchanges, in total and by kind.

    :ivar errors: exchanges with an error that does not belong to a normal conversation
    :ivar expected_errors: exchanges with only expected errors
    :ivar undecoded: exchanges that were not fully decoded (:func:`undecoded`)
    :ivar guessed: exchanges with a message that was decoded in another version than announced
    :ivar intervened: exchanges in which kproxy intervened
    :ivar request_bytes: with size fields, as all bytes here
    """

    exchanges: int = 0
    errors: int = 0
    expected_errors: int = 0
    undecoded: int = 0
    guessed: int = 0
    intervened: int = 0
    unanswered: int = 0
    no_response_expected: int = 0
    not_recorded: int = 0
    orphans: int = 0
    request_bytes: int = 0
    response_bytes: int = 0

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.add_kind(exchange, 1)
        self.request_bytes += exchange.request_size
        self.response_bytes += exchange.response_size

    def add_kind(self, exchange: Exchange, count: int) -> None:
        """Count exchanges that differ from `exchange` in nothing that is counted, but not their bytes."""
        self.exchanges += count
        if flag := exchange.flag:  # nearly always 0, and testing an IntFlag is slow
            self.unanswered += count * (Flag.UNANSWERED in flag)
            self.no_response_expected += count * (Flag.NO_RESPONSE_EXPECTED in flag)
            self.not_recorded += count * (Flag.NOT_RECORDED in flag)
            self.orphans += count * (Flag.ORPHAN in flag)
        if exchange.errors:
            self.errors += count * exchange.failed
            self.expected_errors += count * (
                not exchange.failed and not exchange.interventions.has_injected_errors
            )
        self.undecoded += count * undecoded(exchange)
        request, response = exchange.request, exchange.response
        self.guessed += count * bool((request and request.guess) or (response and response.guess))
        self.intervened += count * exchange.intervened

    def include(self, other: Counts) -> None:
        """Add other counts."""
        self.exchanges += other.exchanges
        self.errors += other.errors
        self.expected_errors += other.expected_errors
        self.undecoded += other.undecoded
        self.guessed += other.guessed
        self.intervened += other.intervened
        self.unanswered += other.unanswered
        self.no_response_expected += other.no_response_expected
        self.not_recorded += other.not_recorded
        self.orphans += other.orphans
        self.request_bytes += other.request_bytes
        self.response_bytes += other.response_bytes


@dataclass(slots=True, kw_only=True)
class ExchangeGroup(Counts):
    """Exchanges of one connection, client ID, API and version.

    :ivar api_key: None for raw SASL tokens and orphan responses, as is the version
    :ivar unanswered_first: number and time of the first exchange without an answer; None if there is none
    :ivar number: number of the first exchange
    :ivar first: time of the first exchange by number, ns since the epoch
    :ivar earliest: earliest time
    :ivar last: latest time
    """

    connection: ConnectionKey
    client_id: str | None
    api: str
    api_key: int | None
    version: int | None
    unanswered_first: tuple[int, int] | None
    number: int
    first: int
    earliest: int
    last: int

    @property
    def client_name(self) -> str:
        """The client ID, or the address without its port if there is none."""
        return self.client_id or self.connection.client.rpartition(":")[0]

    @classmethod
    def of(cls, exchange: Exchange) -> ExchangeGroup:
        """Return the group of a single exchange."""
        time = exchange.time
        unanswered = bool(exchange.flag) and Flag.UNANSWERED in exchange.flag
        group = cls(
            connection=connection_key(exchange),
            client_id=exchange.client_id,
            api=exchange.api,
            api_key=exchange.api_key,
            version=exchange.version,
            unanswered_first=(exchange.number, time) if unanswered else None,
            number=exchange.number,
            first=time,
            earliest=time,
            last=time,
        )
        group.add(exchange)
        return group


def undecoded(exchange: Exchange) -> bool:
    """Return whether a captured frame was not decoded, or not completely because of a limit.

    A response that the end cut off counts as unanswered instead, and one without its request as an orphan.
    """
    if not exchange.problems and not exchange.limits:
        return False
    if Flag.ORPHAN in exchange.flag:
        return False
    if Flag.UNANSWERED in exchange.flag:
        return any(side == "request" for side, _ in exchange.problems)
    return True


# ---------------------------------------------------------------- by column
class RowGroups:
    """Rows with equal keys.

    :ivar first: first row of each group; groups are ordered by it
    :ivar of: group of each row
    """

    def __init__(self, *keys: NDArray[np.integer]) -> None:
        """Group rows.

        :param keys: arrays with one element per row; rows with equal elements in all of them form a group
        """
        rows = np.arange(len(keys[0]))
        codes = np.zeros(len(rows), np.int64)
        for key in keys:
            further = _ranks(key)
            codes = _ranks(codes * (int(further.max(initial=0)) + 1) + further)
        first = np.zeros(int(codes.max(initial=-1)) + 1, np.int64)
        first[codes[::-1]] = rows[::-1]  # of several rows with a code, the one assigned last stays
        order = np.argsort(first)
        self.first = first[order]
        self.of = _ranks(first[codes])
        self._order = np.argsort(self.of, kind="stable")
        self._begins = np.searchsorted(self.of[self._order], np.arange(len(self.first)))

    def __len__(self) -> int:
        return len(self.first)

    def __iter__(self) -> Iterator[Int64s]:
        """Yield the rows of each group, increasing."""
        return iter(np.split(self._order, self._begins[1:])) if len(self) else iter(())

    def sums(self, values: NDArray[np.generic]) -> list[int]:
        """Return the sum of each group."""
        return self._reduced(np.add, values.astype(np.int64))

    def least(self, values: Int64s) -> list[int]:
        """Return the minimum of each group."""
        return self._reduced(np.minimum, values)

    def greatest(self, values: Int64s) -> list[int]:
        """Return the maximum of each group."""
        return self._reduced(np.maximum, values)

    def _reduced(self, function: np.ufunc, values: NDArray[np.int64]) -> list[int]:
        if not len(self):
            return []
        found: list[int] = function.reduceat(values[self._order], self._begins).tolist()
        return found


def _ranks(values: NDArray[np.integer]) -> Int64s:
    """Return the rank of each value among the distinct ones."""
    if not len(values):
        return np.zeros(0, np.int64)
    least, greatest = int(values.min()), int(values.max())
    if greatest - least > _DENSE * len(values):
        ranks: Int64s = np.unique(values, return_inverse=True)[1]
        return ranks
    # counting is faster than sorting; the difference is right for large uint64 too, as both wrap around
    places = values.astype(np.int64) - values.min().astype(np.int64)
    there = np.zeros(greatest - least + 1, np.bool_)
    there[places] = True
    found: Int64s = (np.cumsum(there) - 1)[places]
    return found


def greatest_before(keys: NDArray[np.integer], values: Int64s) -> Int64s:
    """Return for each row the greatest value of earlier rows with the same key, 0 if there is none.

    :param values: not negative
    """
    order = np.argsort(keys, kind="stable")
    sizes, places = np.unique(
        values[order], return_inverse=True
    )  # small numbers, which a key can be added to
    of_key = _ranks(keys[order]) * (len(sizes) + 1)
    seen = np.maximum.accumulate(of_key + places + 1)
    before = np.concatenate(([0], seen[:-1])) - of_key
    found = np.zeros(len(values), np.int64)
    found[order] = np.concatenate(([0], sizes))[np.maximum(before, 0)]
    return found


def api_grouping(columns: ExchangeColumns, *keys: NDArray[np.integer]) -> RowGroups:
    """Return exchanges grouped by API and version; raw tokens and orphans, which have neither, form separate groups.

    :param keys: further keys of the groups
    """
    token = columns.flat("flags") & int(Flag.SASL_TOKEN) != 0
    api = columns.flat("api_key")
    return RowGroups(api, np.where(api < 0, 0, columns.flat("version")), token, *keys)


def apis_of(columns: ExchangeColumns, rows: Int64s) -> list[tuple[str, int | None, int | None]]:
    """Return API name, API key and version of exchanges, as :class:`Exchange` has them."""
    found: list[tuple[str, int | None, int | None]] = []
    of_rows = (columns.flat(name)[rows].tolist() for name in ("api_key", "version", "flags"))
    for key, version, flags in zip(*of_rows, strict=True):
        token = flags & int(Flag.SASL_TOKEN)
        if key < 0:
            found.append((SASL_TOKEN if token else UNKNOWN, None, None))
        else:
            found.append((SASL_TOKEN if token else api_name(key), key, version))
    return found


def api_names(columns: ExchangeColumns) -> tuple[Int64s, list[str]]:
    """Return the number of each exchange's API name, and the names by number, as in :attr:`Exchange.api`."""
    grouping = api_grouping(columns)
    names: dict[str, int] = {}
    codes = [names.setdefault(api, len(names)) for api, _, _ in apis_of(columns, grouping.first)]
    return np.array(codes, np.int64)[grouping.of], list(names)


def exchange_groups(
    columns: ExchangeColumns, numbers: Int64s | None = None, *, bodies: bool = True
) -> list[ExchangeGroup]:
    """Return exchanges in groups, ordered by their first exchanges.

    :param columns: exchanges in the order of their numbers
    :param numbers: their numbers, if they do not start at 1
    :param bodies: whether to decode messages, for errors and problems
    """
    flags = columns.flat("flags")
    connection, client = columns.flat("connection"), columns.flat("client_id")
    grouping = api_grouping(columns, connection, client)
    times = columns.flat("time")
    numbers = np.arange(1, len(columns) + 1) if numbers is None else numbers
    nothing = np.zeros(len(columns), np.bool_)
    failed = expected = unread = guessed = nothing
    intervened = columns.flat("intervened")
    if bodies:
        failed = columns.ragged("error_codes").filled
        expected = columns.ragged("expected_error_codes").filled & ~failed & (intervened < 2)
        unread = _undecoded(columns)
        guessed = columns.flat("guessed") > 0
    has = {flag: flags & int(flag) != 0 for flag in _COUNTED_FLAGS}
    never = len(columns)
    unanswered_first = grouping.least(np.where(has[Flag.UNANSWERED], np.arange(never), never))
    counts = zip(
        grouping.sums(~nothing),
        grouping.sums(failed),
        grouping.sums(expected),
        grouping.sums(unread),
        grouping.sums(guessed),
        grouping.sums(intervened > 0),
        grouping.sums(has[Flag.UNANSWERED]),
        grouping.sums(has[Flag.NO_RESPONSE_EXPECTED]),
        grouping.sums(has[Flag.NOT_RECORDED]),
        grouping.sums(has[Flag.ORPHAN]),
        grouping.sums(columns.flat("request_size")),
        grouping.sums(columns.flat("response_size")),
        strict=True,
    )
    others = zip(
        grouping.first.tolist(),
        [(int(numbers[at]), int(times[at])) if at < never else None for at in unanswered_first],
        numbers[grouping.first].tolist(),
        times[grouping.first].tolist(),
        grouping.least(times),
        grouping.greatest(times),
        strict=True,
    )
    clients, brokers, ids = (columns.texts(name) for name in ("client", "broker", "client_id"))
    found = []
    apis = apis_of(columns, grouping.first)
    for figures, (at, unanswered, number, first, earliest, last), (api, key, version) in zip(
        counts, others, apis, strict=True
    ):
        id_, code = int(connection[at]), int(client[at])
        group = ExchangeGroup(
            *figures,
            connection=ConnectionKey(id_, clients[id_] or "", brokers[id_] or ""),
            client_id=ids[code] if code >= 0 else None,
            api=api,
            api_key=key,
            version=version,
            unanswered_first=unanswered,
            number=number,
            first=first,
            earliest=earliest,
            last=last,
        )
        found.append(group)
    return found


def _undecoded(columns: ExchangeColumns) -> Bools:
    """Return a mask of the rows for which :func:`undecoded` is true."""
    flags, sides = columns.flat("flags"), columns.flat("undecoded")
    unanswered = flags & int(Flag.UNANSWERED) != 0
    found: Bools = (sides & np.where(unanswered, 1, 3) != 0) & (flags & int(Flag.ORPHAN) == 0)
    return found


def client_names(columns: ExchangeColumns) -> tuple[Int64s, list[str]]:
    """Return for each exchange the number of its client's name, and the names: as
    :func:`captures.analysis.client_identity.client_name` has them."""
    grouping = RowGroups(columns.flat("client_id"), columns.flat("connection"))
    ids, clients = columns.texts("client_id"), columns.texts("client")
    names: dict[str, int] = {}
    codes = []
    of_rows = (columns.flat(name)[grouping.first].tolist() for name in ("client_id", "connection"))
    for code, connection in zip(*of_rows, strict=True):
        named = ids[code] if code >= 0 else None
        name = named or (clients[connection] or "").rpartition(":")[0]
        codes.append(names.setdefault(name, len(names)))
    return np.array(codes, np.int64)[grouping.of], list(names)
