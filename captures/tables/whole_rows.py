"""Rows that need all of a capture: groups, clients, connections, findings, and the health of TCP.

They come from the analyses that the commands show, so that tables and commands agree. Several processes may each make a
part: some tables, and some rules of the diagnosis.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from captures.analysis.clients.libraries import stated_library
from captures.analysis.clusters import ONE_CLUSTER, Clusters
from captures.analysis.connection_stats import ConnectionStats
from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.exchange_groups import ExchangeGroup
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Rule
from captures.analysis.groups.calls import (
    OF_MEMBERS,
    Call,
    Commit,
    GroupCalls,
    HeartbeatRun,
    Join,
    Leave,
    ModernHeartbeatRun,
    Sync,
)
from captures.analysis.groups.model import GroupTimeline, Rebalance, TopicPartition
from captures.analysis.groups.vocabulary import Kind
from captures.analysis.incidents.history import NEEDED as BY_INCIDENTS
from captures.analysis.incidents.history import IncidentHistories
from captures.analysis.incidents.model import Incident
from captures.analysis.negotiation import BrokerOffer, ClientVersions, Matrix, Negotiation, Use
from captures.analysis.round_trips import RoundTrips
from captures.arrays import Bools
from captures.exchanges import Capture, Exchange
from captures.export.arrow import record_batch
from captures.faults import Faults
from captures.json_objects import to_json
from captures.meaning import Names
from captures.packets import JoinedSource
from captures.packets.remote import absolute
from captures.tables.schema import OF_THE_WHOLE, doing, schema
from dissectors.apis import api_name
from dissectors.error_codes import error_name
from dissectors.sides import ENDS
from dissectors.units import MS, US

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]


OF_GROUPS = frozenset({"group_events", "rebalances", "incidents"})
"""Tables made from the histories of groups."""
BY_CONNECTION = frozenset({"connections", "tcp_health"})
"""Tables whose rows each belong to one connection."""
_PIECE = 1 << 13
"""Rows per batch."""
OF_ALL_EXCHANGES = frozenset({"connections", "client_versions"})
"""Tables that count all exchanges."""


def needs(chosen: Iterable[str], rules: Sequence[type[Rule]] = RULES) -> frozenset[int] | None:
    """Return the keys of the APIs whose exchanges have to be added; None for all exchanges, even those without a key.

    :param chosen: names of tables; per-exchange tables are skipped
    :param rules: rules for the table of findings
    """
    wanted = set(chosen)
    if wanted & OF_ALL_EXCHANGES:
        return None
    found: set[int] = set()
    if "group_events" in wanted:
        found |= OF_MEMBERS
    if wanted & {"rebalances", "incidents"}:
        found |= BY_INCIDENTS
    for rule in rules if "findings" in wanted else ():
        if rule.apis is None:
            return None
        found |= rule.apis
        if rule.of_groups:
            found |= BY_INCIDENTS
    return frozenset(found)


class WholeTables:
    """Makes the rows of the tables of :data:`~captures.tables.schema.OF_THE_WHOLE`.

    It uses these attributes of the capture when the rows are requested:

    - ``connections``, ``client_stream``, ``endpoints``, ``shown_endpoints``, ``names``, ``foreign``, ``samples``,
      ``statistics``, ``skipped``, ``latest``, and of ``decryption`` the mapping ``tls``;
    - ``source.live``, ``source.complete``, and the ``source`` itself to read packets again, if members of groups fell
      silent without closing their connections (:mod:`captures.analysis.groups.silence`);
    - of ``table``, for the same purpose, the columns ``client_id``, ``connection``, ``request_size``, ``request_last``,
      ``response_size``, ``response_last``, and ``client_ids``; and the rows of requests in flight, of which a capture
      that was read to its end has none.

    :param names: returns the name of a topic ID; it must know all names of the capture before the first exchange
    :param chosen: names of tables; per-exchange tables are skipped
    :param run: number of the run into the folder
    :param rules: rules for the table of findings
    :param limits: thresholds of rules that differ from their defaults: ``rule.name`` -> value
    :param has: returns whether a connection has rows in the tables :data:`BY_CONNECTION`
    :param follow: whether :meth:`add` follows groups; otherwise their histories arrive by :meth:`merge`
    :param count: whether :meth:`add` counts for :data:`OF_ALL_EXCHANGES`; otherwise counts arrive by :meth:`merge`
    :param clusters: clusters of the connections; by default all are of one cluster
    :ivar faults: internal errors, those of the capture
    """

    def __init__(
        self,
        capture: Capture,
        names: Names,
        chosen: Iterable[str],
        *,
        run: int,
        rules: Sequence[type[Rule]] = RULES,
        limits: Mapping[str, float] | None = None,
        has: Callable[[int], bool] = lambda _: True,
        follow: bool = True,
        count: bool = True,
        clusters: Clusters = ONE_CLUSTER,
    ) -> None:
        wanted = set(chosen)
        self.tables = tuple(name for name in OF_THE_WHOLE if name in wanted)
        self._capture = capture
        self._run = run
        self._has = has
        asked = rules if "findings" in wanted else ()
        followed = follow and (bool(wanted & OF_GROUPS) or any(rule.of_groups for rule in asked))
        self._clusters = clusters
        self._diagnosis = Diagnosis(
            capture, names, limits=limits, rules=asked, with_groups=followed, clusters=clusters
        )
        self._connections = ConnectionStats(capture)
        self._versions = _Versions(capture)
        self.faults = capture.faults
        self._paths: dict[int, str] = {}
        self._diagnoses = bool(asked or followed)
        self._adders: list[tuple[str, Callable[[Exchange], None]]] = []
        self._counters: list[Callable[[ExchangeGroup], None]] = []
        made: dict[str, ConnectionStats | _Versions]
        made = {"connections": self._connections, "client_versions": self._versions}
        for name in (name for name in made if name in wanted):
            self._adders.append((doing(name), made[name].add if count else made[name].introduce))
            self._counters.append(self.faults.guarded(made[name].count, doing(name)))

    def add(self, exchange: Exchange, shown: bytes | None = None) -> None:
        """Add one exchange; in the order of numbers, at least those of the APIs that :func:`needs` returns.

        :param exchange: decoded with ``annotate=False``; number and connection as they are to be written
        :param shown: what :meth:`wanted` returned for it; None to show it to all rules of its API
        """
        if self._diagnoses and shown is not None:
            self._diagnosis.add_to(shown, exchange)
        elif self._diagnoses:
            self._diagnosis.add(exchange)
        for what, add in self._adders:
            try:
                add(exchange)
            except Exception as error:
                self.faults.note(error, what, exchange.number)

    def merge(
        self,
        histories: Mapping[str, IncidentHistories] | None,
        counted: Sequence[ExchangeGroup],
        by_rules: Mapping[str, Mapping[str, Any]],
        faults: Faults,
    ) -> None:
        """Add what others have collected.

        :param histories: histories of some groups, by member of :attr:`Clusters.parts`
        :param counted: the exchanges that follow those of earlier calls, before any of them is added
        :param by_rules: what rules :meth:`counted` in the next part of the capture
        :param faults: internal errors that occurred meanwhile
        """
        if histories is not None:
            self._diagnosis.groups.merge(histories)
        for group in counted:
            for count in self._counters:
                count(group)
        self._diagnosis.merge(by_rules)
        self.faults.merge(faults)

    def wanted(self, rows: DecisionColumns) -> Bools:
        """Return a mask of the exchanges that have to be added, if :meth:`merge` adds the counts of all.

        It has a row for each rule, one for the groups, and one for the tables :data:`OF_ALL_EXCHANGES`.
        """
        counting = rows.nothing
        if "connections" in self.tables:
            counting = counting | rows.introducing
        if "client_versions" in self.tables:
            counting = counting | Negotiation.deciding(rows)
        return np.vstack((self._diagnosis.wanted(rows), counting))

    def counted(self) -> dict[str, Mapping[str, Any]]:
        """Return what rules have counted in :meth:`wanted` instead of having it shown, by name of the rule and key."""
        return self._diagnosis.counted()

    def batches(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """Yield the rows table by table, in batches of bounded size; tables without rows are left out."""
        for table in self.tables:
            nothing: Iterator[Row] = iter(())
            made = self.faults.contained(partial(self._rows, table), doing(table), nothing)
            coming, shape = self.faults.contained_items(made, doing(table)), schema(table)
            while rows := list(islice(coming, _PIECE)):
                columns = (
                    [self._run] * len(rows) if name == "run" else [row.get(name) for row in rows]
                    for name in shape.names
                )
                yield table, record_batch(shape, columns, (), self.faults, doing(table))

    def _rows(self, table: str) -> Iterator[Row]:
        match table:
            case "group_events":
                every = self._diagnosis.groups.calls
                return (row for calls in every for row in _group_events(calls, self._id_of_connection))
            case "rebalances":
                timelines = self._diagnosis.groups.result()
                return (
                    _rebalance(each, timeline) | self._cluster_id(each)
                    for timeline in timelines
                    for each in timeline.rebalances
                )
            case "incidents":
                self._diagnosis.groups.result()
                incidents = self._diagnosis.groups.incidents
                return (_incident(each) | self._cluster_id(each) for each in incidents)
            case "client_versions":
                rows = self._versions.rows()
                return (row | {"cluster_id": self._clusters.id_of_broker(row["broker"])} for row in rows)
            case "connections":
                return self._connection_rows()
            case "findings":
                return self._findings()
            case _:
                return self._tcp_health()

    def _id_of_connection(self, connection: int) -> str | None:
        return self._clusters.id_of(self._clusters.part_of(connection))

    def _cluster_id(self, of: Rebalance | Incident | Finding) -> Row:
        return {"cluster_id": self._clusters.id_of(of.cluster)}

    # ------------------------------------------------------------ findings
    def _findings(self) -> Iterator[Row]:
        for finding in self._diagnosis.findings():
            shape = to_json(finding)
            del shape["first"]
            del shape[
                "because_of"
            ]  # several tasks may share the rules, and not each of them knows the incidents
            yield shape | {
                **_moment("time", finding.first),
                **_moment("last", finding.last),
                **self._cluster_id(finding),
                "thresholds": list(finding.thresholds.items()),
            }

    # ------------------------------------------------------------ connections
    def _connection_rows(self) -> Iterator[Row]:
        skipped: dict[int, int] = {}
        for skip in self._capture.skipped:
            skipped[skip.stream >> 1] = skipped.get(skip.stream >> 1, 0) + skip.size
        for connection in filter(self._has, range(len(self._capture.connections))):
            row = self._connections.row(connection)
            yield to_json(row) | {
                **_moment("time", row.first),
                **_moment("last", row.last),
                "versions": list(row.versions.items()),
                "fallback": list(row.fallback.items()),
                "unanswered": list(row.unanswered.items()),
                "skipped_bytes": skipped.get(connection, 0),
                "file": self._file_of(connection),
                "cluster_id": self._id_of_connection(connection),
            }

    def _file_of(self, connection: int) -> str | None:
        """Return the path of the file with the last packet of a connection; None if unknown."""
        connections, source = self._capture.connections, self._capture.source
        number = int(connections.last_file[connection])
        if number not in connections.observation.spans:
            return None
        if number not in self._paths:
            path = source.files[number].path if isinstance(source, JoinedSource) else source.path
            self._paths[number] = absolute(path)
        return self._paths[number]

    def _tcp_health(self) -> Iterator[Row]:
        capture = self._capture
        trips = RoundTrips(capture)
        for connection in filter(self._has, range(len(capture.connections))):
            known, ends = capture.connections[connection], capture.endpoints(connection)
            turned = capture.client_stream(connection) & 1
            for side, direction in enumerate((known.directions[turned], known.directions[1 - turned])):
                yield {
                    **_moment("time", known.first_time),
                    **_moment("last", known.last_time),
                    "connection": connection,
                    "direction": ENDS[side],
                    "sender": ends[side],
                    "receiver": ends[1 - side],
                    "packets": direction.packets,
                    "bytes": direction.end,
                    "retransmitted": direction.retransmitted,
                    "reordered": direction.reordered,
                    "lost": direction.lost,
                    "cut": direction.cut,
                    "conflicting": direction.conflicting,
                    "zero_windows": direction.zero_windows,
                    "syn_seen": direction.syn_seen,
                    **_moment("fin", _seen(direction.fin_time)),
                    **_moment("reset", _seen(direction.reset_time)),
                    "handshake_ns": _seen(known.handshake),
                    "rtt_ns": trips.of(connection),
                    "file": self._file_of(connection),
                    "cluster_id": self._id_of_connection(connection),
                }


def _moment(name: str, time: int | None) -> Row:
    """Return the values of the two columns of a point in time."""
    return {name: None if time is None else time // US, f"{name}_ns": time}


def _seen(time: int) -> int | None:
    return time if time >= 0 else None


# ---------------------------------------------------------------- groups
def _group_events(group: GroupCalls, cluster_of: Callable[[int], str | None]) -> Iterator[Row]:
    newer = [kind for kind in group.kinds if kind is not Kind.CLASSIC]
    for call in group.ordered():
        modern = call if isinstance(call, ModernHeartbeatRun) else None
        kind = modern.kind if modern is not None else Kind.CLASSIC
        if isinstance(call, Commit) and newer:
            kind = newer[0]
        # in the newer protocols a negative epoch means that a member leaves
        named = call.generation if modern is not None or call.generation >= 0 else None
        yield {
            "number": call.number,
            **_moment("time", call.time),
            "connection": call.connection,
            "group": group.group,
            "kind": str(kind),
            "event": _event(call),
            "client_id": call.client,
            "host": call.host,
            "broker": call.broker,
            "member": call.member or None,
            "instance_id": call.instance,
            "generation": named,
            "latency_ns": None if call.end is None else call.end - call.time,
            "error_code": call.error,
            "error": error_name(call.error) if call.error else None,
            "count": call.count,
            **_moment("last", call.last),
            "last_number": call.last_number,
            "longest_gap_ns": call.longest,
            "cluster_id": cluster_of(call.connection),
            **_details(call),
        }


def _event(call: Call) -> str:
    match call:
        case ModernHeartbeatRun():
            return "join" if call.generation == 0 else "leave" if call.generation < 0 else "heartbeat"
        case Join():
            return "join"
        case Sync():
            return "sync"
        case Leave():
            return "leave"
        case Commit():
            return "commit"
        case HeartbeatRun():
            return "heartbeat"
    raise AssertionError(f"{type(call).__name__} is no event")


def _details(call: Call) -> Row:
    """Return the columns that only some kinds of calls have."""
    match call:
        case Join():
            subscription = call.subscription
            return {
                "generation_told": _seen(call.answered),
                "protocol_type": call.protocol_type or None,
                "protocol": call.chosen or None,
                "leader": call.leader or None,
                "reason": call.reason or None,
                "topics": None if subscription is None else list(subscription.topics),
                "owned": None if subscription is None else _places(subscription.owned),
                "session_timeout_ms": _ms(call.session_timeout),
                "rebalance_timeout_ms": _ms(call.rebalance_timeout),
                "members": list(call.members) or None,
            }
        case Sync():
            return {
                "protocol_type": call.protocol_type or None,
                "protocol": call.protocol or None,
                "assigned": _places(call.assigned),
            }
        case Leave():
            reasons = [reason for _, _, reason, _ in call.gone if reason]
            return {
                "reason": reasons[0] if reasons else None,
                "members": [member or instance or "" for member, instance, _, _ in call.gone],
            }
        case Commit():
            return {"transactional": call.transactional}
        case ModernHeartbeatRun():
            pattern = [f"/{call.pattern}/"] if call.pattern else []
            said_topics = call.topics is not None or bool(pattern)
            return {
                "generation_told": call.epoch,
                "protocol": call.assignor or None,
                "topics": [*(call.topics or ()), *pattern] if said_topics else None,
                "owned": _places(call.owned),
                "assigned": _places(call.assigned),
                "rebalance_timeout_ms": _ms(call.rebalance_timeout),
            }
    return {}


def _ms(time: int | None) -> int | None:
    return None if time is None else time // MS


def _places(partitions: Iterable[TopicPartition] | None) -> list[Row] | None:
    if partitions is None:
        return None
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(partitions)]


def _rebalance(rebalance: Rebalance, timeline: GroupTimeline) -> Row:
    shape: Row = to_json(rebalance)
    shape |= _moment("time", rebalance.time)
    for cause, row in zip(rebalance.causes, shape["causes"], strict=True):
        row |= _moment("time", cause.time)
        del row[
            "session_end"
        ]  # an existing column cannot get a new field; timeout_cause has this information
    for awaited, row in zip(rebalance.awaited, shape["awaited"], strict=True):
        row |= {**_moment("since", awaited.since), **_moment("deadline", awaited.deadline)}
    for failure, row in zip(rebalance.commit_failures, shape["commit_failures"], strict=True):
        row |= _moment("time", failure.time)
    for name in ("assigned", "tasks"):
        shape[name] = list(shape[name].items())
    shape["because_of"] = None if rebalance.because_of is None else rebalance.because_of.id
    shape["coordinator"] = timeline.coordinator_at(rebalance.time)
    return shape


def _incident(incident: Incident) -> Row:
    shape: Row = to_json(incident)
    del shape["begin"]
    del shape["end"]
    effects = [each for each in incident.consequences if not each.rule]
    return shape | {
        **_moment("time", incident.begin),
        **_moment("ended", incident.end),
        "groups": list(incident.groups),
        "consequences": [{**to_json(each), **_moment("time", each.time)} for each in effects],
    }


# ---------------------------------------------------------------- versions
class _Versions:
    """The versions that clients use and brokers offer, with their times."""

    def __init__(self, capture: Capture) -> None:
        self._negotiation = Negotiation(capture)
        self._used: dict[tuple[str, str, int, int], ExchangeGroup] = {}
        self.introduce = self._negotiation.learn

    def add(self, exchange: Exchange) -> None:
        self.count(ExchangeGroup.of(exchange))
        self.introduce(exchange)

    def count(self, group: ExchangeGroup) -> None:
        self._negotiation.count(group)
        if group.api_key is not None and group.version is not None:
            place = group.client_name, group.connection.broker, group.api_key, group.version
            known = self._used.setdefault(place, group)
            known.last = max(known.last, group.last)

    def rows(self) -> Iterator[Row]:
        """Yield rows of versions that clients use, then of versions that brokers offer."""
        matrix = self._negotiation.result()
        warnings: dict[tuple[str, str, str, int | None], list[str]] = {}
        for each in matrix.warnings:
            place = each.client, each.broker, each.api, each.version
            warnings.setdefault(place, []).append(str(each.kind))
        for client in matrix.clients:
            for use in client.uses:
                yield from self._of_use(client, use, warnings)
        yield from _offers(matrix, warnings)

    def _of_use(
        self, client: ClientVersions, use: Use, warnings: Mapping[tuple[str, str, str, int | None], list[str]]
    ) -> Iterator[Row]:
        library = stated_library(client.software[0]) if client.software else None
        offered, could = use.offered or (None, None), use.could or (None, None)
        for version, count in use.used.items():
            used = self._used[client.name, use.broker, use.key, version]
            yield {
                **_moment("time", used.first),
                "first": used.number,
                **_moment("last", used.last),
                "client": client.name,
                "software": client.software,
                "library": library.name if library is not None else None,
                "release": (library.release or None) if library is not None else None,
                "hosts": client.hosts,
                "asks_for_versions": client.asks,
                "is_broker": client.is_broker,
                "broker": use.broker,
                "api": use.api,
                "api_key": use.key,
                "version": version,
                "exchanges": count,
                "offered_min": offered[0],
                "offered_max": offered[1],
                "could_use_min": could[0],
                "could_use_max": could[1],
                "limit": None if use.limit is None else str(use.limit),
                "used_elsewhere": use.elsewhere,
                "warnings": warnings.get((client.name, use.broker, use.api, version), []),
            }


def _offers(matrix: Matrix, warnings: Mapping[tuple[str, str, str, int | None], list[str]]) -> Iterator[Row]:
    for broker in matrix.brokers:
        yield from _offer(broker, warnings.get(("", broker.broker, "", None), []))


def _offer(broker: BrokerOffer, warnings: list[str]) -> Iterator[Row]:
    for key, (least, most) in sorted(broker.apis.items()):
        yield {
            **_moment("time", broker.time),
            "first": broker.announced_by,
            **_moment("last", broker.time),
            "software": [],
            "hosts": [],
            "is_broker": False,
            "broker": broker.broker,
            "api": api_name(key),
            "api_key": key,
            "exchanges": 0,
            "offered_min": least,
            "offered_max": most,
            "used_elsewhere": [],
            "warnings": warnings,
        }
