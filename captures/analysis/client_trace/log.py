"""The log of a party: exchanges of its connections merged into lines, ordered by time.

Equal exchanges form one line until something new begins: a join, a new identity, an error. Lines are under the phase
that they begin; lines of all phases are under the current one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import numpy as np

from captures.analysis.client_identity import client_name
from captures.analysis.client_trace import apis
from captures.analysis.client_trace.authentication import Authentications
from captures.analysis.client_trace.connection_histories import ConnectionHistories
from captures.analysis.client_trace.data import Consumer, Fetches, PositionJump, Produces
from captures.analysis.client_trace.exchange_runs import Commits, ExchangeRun, Heartbeats, alike
from captures.analysis.client_trace.model import Line, Phase, TracedClient
from captures.analysis.client_trace.rebalances import rebalance_lines
from captures.analysis.client_trace.transactions import TransactionRequests
from captures.analysis.error_recovery import NOTHING, ErrorRecovery, RecoveryRow
from captures.analysis.findings.common import unexpected
from captures.analysis.groups.calls import OF_MEMBERS
from captures.analysis.groups.context import OF_TOPICS
from captures.analysis.groups.history import GroupHistories
from captures.arrays import Int64s
from captures.exchanges import NO_ANSWER_SEEN, Capture, Exchange, Flag
from captures.exchanges.exchange import summary_of
from captures.meaning import Names, ResponseError, errors_text, topic_partitions, words
from captures.meaning.exchange import number, rows, text
from captures.time_format import span
from dissectors.api_keys import GROUP_HEARTBEATS, ApiKey
from dissectors.error_codes import ErrorCode

_FIRST = attrgetter("first")

IDLE = 10_000_000_000
"""ns without any exchange, or without a Fetch or Produce of a stretch, that the log reports."""
MOST_STRETCHES = 20_000
"""Most stretches that are kept; later exchanges are only counted."""

_ERROR = apis.ApiWording("error", None, "")
_REBALANCE_NOTICE = apis.ApiWording("rebalance_told", Phase.GROUP, "learns of a rebalance")
_EXPECTED = apis.ApiWording("expected_error", None, "")
_UNANSWERED = apis.ApiWording("unanswered", None, "")
_ORPHAN = apis.ApiWording("orphan", None, "an answer to a request that was not captured")
_JUMP_BACK = apis.ApiWording("position_back", None, "")
_JUMP_AHEAD = apis.ApiWording("position_ahead", None, "")
_SILENCE = apis.ApiWording("silence", None, "")
_DATA = frozenset({ApiKey.PRODUCE, ApiKey.FETCH, ApiKey.SHARE_FETCH})
_REPLICA = -1
_ALWAYS = 1 << 63
_Run = TypeVar("_Run", bound=ExchangeRun)


def rows_of(capture: Capture, party: TracedClient) -> Int64s:
    """Return the indexes, as for :meth:`ExchangeReader.exchange`, of the exchanges that its log takes.

    These are the party's exchanges and, for the story of its groups, those of other members and the coordinators.
    """
    order = capture.table.order()
    connection = capture.table.column("connection")[order]
    keys = capture.table.column("api_key")[order]
    mask = np.isin(connection, list(party.ties))
    if party.company:
        mask |= np.isin(connection, party.company) & np.isin(keys, [*OF_MEMBERS, *OF_TOPICS])
    found: Int64s = np.flatnonzero(mask)
    return found


class PartyLog:
    """Collects the actions of a party, and returns its log.

    Exchanges may be those of the whole capture; others than the party's count only if they belong to members of its
    groups.

    :param party: result of :func:`~captures.analysis.client_trace.connections.find_client`
    :param names: returns names of topic IDs
    """

    def __init__(self, party: TracedClient, capture: Capture, names: Names) -> None:
        self._party = party
        self._capture = capture
        self._names = names
        self._tied = frozenset(party.ties)
        self._company = frozenset(party.company)
        self._stretches: list[ExchangeRun] = []
        self._open: dict[tuple[object, ...], ExchangeRun] = {}
        self._keys: dict[str, dict[str, set[tuple[object, ...]]]] = {}
        """Client and kind of action -> keys of the open stretches."""
        self._left_out = 0
        self._left_out_since = 0
        self._consumer = Consumer(names)
        self._authentications = Authentications()
        self._transactions = TransactionRequests()
        self._aftermath = ErrorRecovery(capture)
        self._histories = GroupHistories(names, capture)
        self._lives = ConnectionHistories(capture, party)
        self._busy_until = 0

    def add(self, exchange: Exchange) -> None:
        """Process one exchange."""
        key = exchange.api_key
        if exchange.connection in self._company and (key in OF_MEMBERS or key in OF_TOPICS):
            self._histories.add(exchange)
        if exchange.connection not in self._tied:
            return
        self._silence(exchange)
        self._lives.add(exchange)
        self._aftermath.add(exchange)
        if exchange.flag and Flag.ORPHAN in exchange.flag:
            self._add_line(("orphan", exchange.connection), _ORPHAN, exchange, _ORPHAN.does)
        elif not self._authentications.add(exchange):
            self._add_exchange(exchange)

    def result(self) -> list[Line]:
        """Return the log, ordered by time, each line with its phase."""
        lines = [stretch.line() for stretch in self._stretches]
        self._add_recoveries(zip(self._stretches, lines, strict=True))
        lines += self._authentications.lines()
        lines += self._transactions.lines(self._busy_until)
        lines += rebalance_lines(self._histories.result() if self._company else [], self._party)
        lines += self._lives.lines()
        if self._left_out:
            more = f"{words.counted(self._left_out, 'more exchange')} from here on, which are not shown"
            since = self._left_out_since
            lines.append(Line(time=since, until=self._busy_until, what="left_out", text=more))
        lines.sort(key=lambda line: (line.time, line.numbers[:1]))
        self._lives.name_clients(lines)
        lines.append(self._lives.ending(lines))
        settle_phases(lines, from_the_beginning=self._lives.from_the_beginning())
        return lines

    # ------------------------------------------------------------ one exchange
    def _add_exchange(self, exchange: Exchange) -> None:
        failures = unexpected(exchange)
        unanswered = bool(exchange.flag) and bool(exchange.flag & NO_ANSWER_SEEN)
        manner = apis.manner_of(exchange.api_key, exchange.api)
        if exchange.api_key in GROUP_HEARTBEATS and number(exchange.request_body, "member_epoch", 0) < 0:
            manner = apis.MANNERS[ApiKey.LEAVE_GROUP]  # -1, and -2 for a while (KIP-848)
        if manner.turn and _is_turn(exchange):
            self._break(client_name(exchange))
        if failures:
            self._failed(exchange, failures)
            self._transactions.failed(exchange)
        elif unanswered:
            self._unanswered(exchange, manner)
        if exchange.api_key in _DATA:
            self._data(exchange, manner)
        elif not failures and not unanswered:
            self._add_plain(exchange, manner)

    def _unanswered(self, exchange: Exchange, manner: apis.ApiWording) -> None:
        known = Flag.UNANSWERED in exchange.flag
        how = "no answer came" if known else "its answer was not recorded"
        if manner.turn and _is_turn(exchange):  # such as leaving: the request alone counts
            sentence = words.listed(summary_of(exchange, self._names)[0].split("  "))
            own = manner.what, client_name(exchange), exchange.number
            stretch = self._add_line(own, manner, exchange, f"{manner.does} ({sentence}): {how}")
        else:
            key = "unanswered", known, exchange.api, exchange.connection
            stretch = self._add_line(key, _UNANSWERED, exchange, f"{exchange.api}: {how}")
        if stretch is not None:
            stretch.trouble = known and self._lives.left_unanswered(exchange)

    def _failed(self, exchange: Exchange, failures: list[ResponseError]) -> None:
        codes = tuple(sorted({error.code for error in failures}))
        # this is how a coordinator tells members to rejoin
        called = exchange.api_key in OF_MEMBERS and codes == (ErrorCode.REBALANCE_IN_PROGRESS,)
        manner = _REBALANCE_NOTICE if called else _ERROR
        client = client_name(exchange)
        key = (manner.what, client, exchange.api, codes)
        if key not in self._open:  # earlier and later exchanges are not merged
            self._break(client, apis.manner_of(exchange.api_key, exchange.api).what)
        sentence = words.line(f"{exchange.api}: {errors_text(failures, self._names)}")
        stretch = self._add_line(
            key, manner, exchange, f"{_REBALANCE_NOTICE.does} ({sentence})" if called else sentence
        )
        if stretch is not None:
            stretch.trouble = not called

    def _data(self, exchange: Exchange, manner: apis.ApiWording) -> None:
        if not exchange.response_size and Flag.NO_RESPONSE_EXPECTED not in exchange.flag:
            if exchange.api_key != ApiKey.PRODUCE:
                self._consumer.traffic.seen(exchange)
            return
        client = client_name(exchange)
        if exchange.api_key == ApiKey.PRODUCE:
            self._transactions.produced(exchange)
            self._produced(exchange, manner, client)
        else:
            self._fetched(exchange, manner, client)

    def _produced(self, exchange: Exchange, manner: apis.ApiWording, client: str) -> None:
        parts = self._consumer.traffic.produced(exchange)
        if exchange.errors:
            parts = [part for part in parts if not part.error]
            if not parts:
                return
        key = ("produce", client)
        run = self._run(Produces, key, manner, exchange, within=IDLE, names=self._names)
        if run is not None:
            run.take(exchange, parts)

    def _fetched(self, exchange: Exchange, manner: apis.ApiWording, client: str) -> None:
        for jump in self._consumer.jumps(exchange):
            self._jumped(exchange, jump)
        traffic = self._consumer.traffic
        parts, seen = traffic.fetched(exchange), traffic.seen(exchange)
        if exchange.errors and not any(part.size for part in parts):
            return
        replica = seen is not None and seen.replica > _REPLICA
        key = ("fetch", client, replica)
        run = self._run(Fetches, key, manner, exchange, within=IDLE, names=self._names, replica=replica)
        if run is not None:
            run.take(exchange, seen, parts)

    def _jumped(self, exchange: Exchange, jump: PositionJump) -> None:
        (topic, partition), expected, offset = jump
        back = offset < expected
        count = words.counted(abs(offset - expected), "offset")
        what = f"goes back, {count} again" if back else f"goes ahead, {count} left out"
        sentence = f"{what}: {words.line(topic)}-{partition} from {expected} to {offset}"
        manner = _JUMP_BACK if back else _JUMP_AHEAD
        self._add_line((manner.what, client_name(exchange), topic), manner, exchange, sentence)

    def _add_plain(self, exchange: Exchange, manner: apis.ApiWording) -> None:
        """Add an exchange without records and without trouble."""
        key, client = exchange.api_key, client_name(exchange)
        if key in apis.IN_TRANSACTION and not exchange.errors and self._transactions.add(exchange):
            return
        if key == ApiKey.HEARTBEAT or (key in GROUP_HEARTBEATS and not _is_turn(exchange)):
            self._beat(exchange, client)
        elif key == ApiKey.OFFSET_COMMIT and not exchange.errors:
            self._commit(exchange, manner, client)
        else:
            self._other(exchange, manner, client)

    def _beat(self, exchange: Exchange, client: str) -> None:
        request = exchange.request_body
        generation = number(request, "generation_id", number(request, "member_epoch"))
        member = text(request, "member_id")
        counter = "generation" if exchange.api_key == ApiKey.HEARTBEAT else "epoch"
        group = words.line(text(request, "group_id", "?"))
        key = ("heartbeat", client, group, generation, member)
        sentence = f"in {group}, {counter} {generation}"
        run = self._run(Heartbeats, key, apis.MANNERS[ApiKey.HEARTBEAT], exchange, text=sentence)
        if run is not None:
            run.add(exchange)

    def _commit(self, exchange: Exchange, manner: apis.ApiWording, client: str) -> None:
        group = words.line(text(exchange.request_body, "group_id", "?"))
        run = self._run(Commits, ("commit", client, group), manner, exchange, text=f"commits for {group}")
        if run is not None:
            run.add(exchange)
            where = topic_partitions.each(rows(exchange.request_body, "topics"), self._names)
            run.latest = words.line(topic_partitions.at(where, "committed_offset"))

    def _other(self, exchange: Exchange, manner: apis.ApiWording, client: str) -> None:
        request, answer = (words.listed(side.split("  ")) for side in summary_of(exchange, self._names))
        what = f"{manner.does} ({request})" if request else manner.does
        done = f"{what}: {answer}" if answer else what
        if exchange.errors:
            manner = _EXPECTED if manner.phase is None else manner._replace(what=_EXPECTED.what)
        # each of these counts by itself
        own = exchange.number if manner.turn else 0
        # coordinators may differ only by a number
        like = done if exchange.api_key == ApiKey.FIND_COORDINATOR else alike(done)
        self._add_line((manner.what, client, exchange.api_key, like, own), manner, exchange, done)

    # ------------------------------------------------------------ stretches
    def _add_line(
        self, key: tuple[object, ...], manner: apis.ApiWording, exchange: Exchange, sentence: str
    ) -> ExchangeRun | None:
        run = self._run(ExchangeRun, key, manner, exchange, text=sentence)
        if run is not None:
            run.add(exchange)
        return run

    def _run(
        self,
        kind: type[_Run],
        key: tuple[object, ...],
        manner: apis.ApiWording,
        exchange: Exchange,
        *,
        within: int = _ALWAYS,
        **fields: Any,
    ) -> _Run | None:
        """Return the open run with a key, or else a new one; None if there are too many.

        :param within: ns without an exchange after which a new one begins
        :param fields: fields of a new run
        """
        run = self._open.get(key)
        if isinstance(run, kind) and exchange.time - run.end < within:
            return run
        if len(self._stretches) >= MOST_STRETCHES:
            self._left_out += 1
            self._left_out_since = self._left_out_since or exchange.time
            return None
        new = self._open[key] = kind(key, manner, exchange.time, **fields)
        self._stretches.append(new)
        of_client = self._keys.setdefault(client_name(exchange), {})
        of_client.setdefault(manner.what, set()).add(key)
        return new

    def _break(self, client: str, what: str = "") -> None:
        """Start new stretches for a client from here on: for all of its actions, or for one kind."""
        of_client = self._keys.get(client, {})
        for kind in [what] if what else list(of_client):
            for key in of_client.pop(kind, ()):
                stretch = self._open.get(key)
                if stretch is not None and stretch.client == client:  # connections may have several clients
                    del self._open[key]
        if not what:
            self._consumer.joined(client)

    def _silence(self, exchange: Exchange) -> None:
        quiet = exchange.time - self._busy_until
        if self._busy_until and quiet >= IDLE:
            begin = self._busy_until
            stretch = ExchangeRun(
                ("silence",), _SILENCE, begin, f"silence for {span(quiet)}", end=exchange.time
            )
            if len(self._stretches) < MOST_STRETCHES:
                self._stretches.append(stretch)
        self._busy_until = max(self._busy_until, exchange.end)

    # ------------------------------------------------------------ errors
    def _add_recoveries(self, lines: Iterable[tuple[ExchangeRun, Line]]) -> None:
        """Add the steps after an error to the line of the first exchange that they followed."""
        every: dict[tuple[object, int], list[RecoveryRow]] = {}
        for row in sorted(self._aftermath.result(), key=_FIRST):
            every.setdefault((row.api, row.code), []).append(row)
        for stretch, line in lines:
            if stretch.manner is not _ERROR or stretch.last is None:
                continue
            *_, api, codes = stretch.key
            assert isinstance(codes, tuple), "as _failed makes it"
            found: list[RecoveryRow] = []
            for code in codes:
                of_error = every.get((api, code), [])
                begin = bisect_left(of_error, line.numbers[0], key=_FIRST)
                found += of_error[begin : bisect_right(of_error, stretch.last, key=_FIRST)]
            line.then += map(_then, sorted(found, key=_FIRST))


def _then(row: RecoveryRow) -> str:
    times = f" — {row.count:,} times" if row.count > 1 else ""
    after = f"after {span(row.delay.p50)}: " if row.delay is not None else ""
    steps = NOTHING if row.steps == (NOTHING,) else ", then ".join(row.steps)
    return f"{after}{steps}{times}"


def _is_turn(exchange: Exchange) -> bool:
    """Return whether an exchange begins something new; heartbeats of the newer protocols do if they change anything."""
    if exchange.api_key not in GROUP_HEARTBEATS:
        return True
    request, response = exchange.request_body, exchange.response_body
    epoch, reached = number(request, "member_epoch"), number(response, "member_epoch", -9)
    assigned = any(response.get(field) is not None for field in ("assignment", "active_tasks"))
    return epoch <= 0 or assigned or (reached != -9 and reached != epoch)


# ---------------------------------------------------------------- phases
_OF_THE_CLUSTER = frozenset({"metadata", "error", "unanswered"})
"""Kinds of lines that follow an authentication."""


def settle_phases(lines: Sequence[Line], *, from_the_beginning: bool) -> None:
    """Set the phase of each line: lines of all phases get the current one.

    :param lines: ordered by time; those that begin a phase have theirs
    :param from_the_beginning: whether the start of the first connection was captured; otherwise the party may be in the
        middle of the first phase
    """
    first = next((line.phase for line in lines if line.phase is not None), Phase.BOOTSTRAP)
    current = before = Phase.BOOTSTRAP if from_the_beginning else first
    for line in lines:
        if line.phase is Phase.AUTHENTICATION and not line.trouble and before is not Phase.BOOTSTRAP:
            line.phase = current  # a later connection
        elif line.phase is None:
            back = current is Phase.AUTHENTICATION and line.what in _OF_THE_CLUSTER
            line.phase = before if back else current
        if line.phase is not Phase.AUTHENTICATION:
            before = line.phase
        current = line.phase
