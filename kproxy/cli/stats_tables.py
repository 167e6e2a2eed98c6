"""The tables of ``kproxy stats``: rows of :mod:`captures.analysis` as text, with names in the place of addresses."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo

from captures.analysis.api_stats import ApiRow
from captures.analysis.client_stats import ClientRow
from captures.analysis.connection_stats import OPEN, ConnectionRow
from captures.analysis.error_stats import ErrorRow
from captures.analysis.introductions import Introduction
from captures.analysis.percentiles import Percentiles
from captures.analysis.throttling import ThrottleRow
from captures.analysis.time_shares import ShareRow
from captures.analysis.topic_stats import Flow, PartitionRow, TopicRow
from captures.meaning import words
from captures.names import Names
from kproxy.cli.tables import Column, Row, Table
from kproxy.cli.times import clock, milliseconds, span

_TROUBLE = "red"
_ODD = "yellow"


def api_table(rows: list[ApiRow], *, waits_known: bool = True) -> Table:
    """APIs and versions, with broker time; below an API that waits, how long it did.

    :param waits_known: False if only columns were counted, which do not tell waits from work
    """
    columns = [
        Column("API", least=22),
        Column("count", right=True),
        Column("errors", right=True),
        Column("expected", right=True, rank=4),
        Column("unanswered", right=True, rank=2),
        Column("undecoded", right=True, rank=3),
        Column("sent", right=True, rank=6),
        Column("received", right=True, rank=5),
        Column("p50", right=True),
        Column("p95", right=True, rank=1),
        Column("p99", right=True),
        Column("max", right=True),
    ]
    return Table(
        "APIs",
        columns,
        [_api_row(row) for row in rows],
        f"latency in ms, {'without' if waits_known else 'with'} waits by design: end of request to begin of response",
    )


def _api_row(row: ApiRow) -> Row:
    # by columns alone no wait is told from work, and there is no broker time
    times = row.broker_time or (None if row.waited else row.latency)
    first = Row(
        [
            row.api if row.version is None else f"{row.api} v{row.version}",
            f"{row.exchanges:,}",
            _count(row.errors),
            _count(row.expected_errors),
            _count(row.unanswered),
            _count(row.problems),
            words.size(row.request_bytes),
            words.size(row.response_bytes),
            *_times(times),
        ],
        color=_TROUBLE if row.errors else _ODD if row.unanswered or row.problems else None,
    )
    if row.waited is not None:
        first.more.append(["  waited by design", f"{row.waited.count:,}", *[""] * 6, *_times(row.waited)])
    return first


def _times(times: Percentiles | None) -> list[str]:
    if times is None:
        return ["-"] * 4
    return [milliseconds(time) for time in (times.p50, times.p95, times.p99, times.max)]


def latency_table(rows: list[ShareRow]) -> Table:
    """Where the time of each API went; below it, why it was waited by design."""
    columns = [
        Column("API", least=22),
        Column("answered", right=True),
        Column("p50", right=True, rank=2),
        Column("p99", right=True, rank=1),
        *(
            Column(title, right=True, rank=rank)
            for title, rank in (
                ("broker", 0),
                ("p99", 0),
                ("by design", 0),
                ("followers", 3),
                ("paused", 4),
                ("network", 5),
                ("throttled", 6),
                ("client", 7),
            )
        ),
    ]
    return Table(
        "Where the time went",
        columns,
        [_share_row(row) for row in rows if row.latency is not None],
        "in ms; medians but for p99, of those that waited at all; client: from a response to the next request",
    )


def _share_row(row: ShareRow) -> Row:
    assert row.latency is not None
    medians = (row.waited, row.followers, row.paused, row.network, row.throttled, row.client)
    made = Row(
        [
            row.api,
            f"{row.latency.count:,}",
            milliseconds(row.latency.p50),
            milliseconds(row.latency.p99),
            *(
                ["-", "-"]
                if row.broker is None
                else [milliseconds(row.broker.p50), milliseconds(row.broker.p99)]
            ),
            *("" if each is None else milliseconds(each.p50) for each in medians),
        ]
    )
    made.below += [f"{why}: {span(total)} in all" for why, total in row.wait_reasons.items()]
    return made


def error_table(rows: list[ErrorRow], names: Names) -> Table:
    """Errors by API and code."""
    columns = [
        Column("error", least=20),
        Column("API", least=12),
        Column("exchanges", right=True),
        Column("times", right=True, rank=3),
        Column("first", right=True),
        Column("clients", least=10, rank=2),
        Column("note", least=20, rank=1),
    ]
    lines = [
        Row(
            [
                row.name,
                row.api,
                f"{row.exchanges:,}",
                f"{row.count:,}" if row.count > row.exchanges else "",
                f"#{row.first}",
                words.some(map(names.shown_host, row.clients)),
                f"expected: {row.reason}" if row.expected else words.clipped(row.message or "", 200),
            ],
            color=None if row.expected else _TROUBLE,
        )
        for row in rows
    ]
    return Table("Errors", columns, lines, "first: number of an exchange for read --exchange")


def client_table(rows: list[ClientRow], names: Names) -> Table:
    """Clients and what they asked for."""
    columns = [
        Column("client", least=12),
        Column("software", least=12),
        Column("principal", least=8, rank=3),
        Column("address", least=9, rank=2),
        Column("conns", right=True, rank=4),
        Column("count", right=True),
        Column("errors", right=True),
        Column("unanswered", right=True, rank=1),
        Column("sent", right=True, rank=5),
        Column("received", right=True, rank=6),
        Column("APIs", least=20, rank=7),
    ]
    lines = [
        Row(
            [
                row.client_id or f"(none) {names.shown_host(row.name)}",
                words.listed(row.software) or "-",
                words.listed(row.principals),
                words.some(map(names.shown_host, row.hosts)),
                f"{row.connections:,}",
                f"{row.exchanges:,}",
                _count(row.errors),
                _count(row.unanswered),
                words.size(row.request_bytes),
                words.size(row.response_bytes),
                words.listed(f"{api} {count:,}" for api, count in row.apis.items()),
            ],
            color=_TROUBLE if row.errors else _ODD if row.unanswered else None,
        )
        for row in rows
    ]
    return Table("Clients", columns, lines)


def topic_table(rows: list[TopicRow], names: Names, *, partitions: bool) -> Table:
    """Topics and, if asked for, their partitions: what was produced and fetched, by whom."""
    columns = [
        Column("topic", least=14),
        Column("parts" if not partitions else "partition", right=True, rank=7),
        Column("produced", right=True),
        Column("records", right=True, rank=1),
        Column("batches", right=True, rank=6),
        Column("fetched", right=True),
        Column("records", right=True, rank=2),
        Column("replicated", right=True, rank=3),
        Column("producers", least=10, rank=4),
        Column("fetchers", least=10, rank=5),
        Column("errors", least=16),
    ]
    lines = []
    for topic in rows:
        lines.append(_topic_row(topic.topic, f"{len(topic.partitions)}", topic.total, names))
        if partitions:
            lines[-1].cells[1] = ""
            lines += [_topic_row("", f"{row.partition}", row, names) for row in topic.partitions]
    about = "bytes of records as they were sent; records by batch headers"
    return Table("Topics", columns, lines, about)


def _topic_row(name: str, partition: str, row: PartitionRow, names: Names) -> Row:
    return Row(
        [
            name,
            partition,
            _size(row.produced.bytes),
            records(row.produced),
            _count(row.produced.batches),
            _size(row.fetched.bytes),
            records(row.fetched),
            _size(row.replicated.bytes),
            words.some(map(names.shown_host, row.produced.clients)),
            words.some(map(names.shown_host, {**row.fetched.clients, **row.replicated.clients})),
            words.listed(f"{count:,} {error}" for error, count in row.errors.items()),
        ],
        color=_TROUBLE if row.errors else None,
    )


def records(flow: Flow) -> str:
    """Records, and compressed sets that do not tell how many are in them."""
    sets = f"{flow.uncounted:,} sets" if flow.uncounted else ""
    return "+".join(filter(None, [_count(flow.records), sets]))


def throttle_table(rows: list[ThrottleRow], names: Names) -> Table:
    """Who was throttled, and for how long."""
    columns = [
        Column("client", least=12),
        Column("API"),
        Column("throttled", right=True),
        Column("of", right=True, rank=3),
        Column("total", right=True),
        Column("max", right=True),
        Column("first", right=True, rank=2),
        Column("paused", right=True),
        Column("for", right=True, rank=1),
        Column("how", least=12, rank=4),
    ]
    lines = [
        Row(
            [
                names.shown_host(row.client),
                row.api,
                _count(row.throttled),
                f"{row.responses:,}",
                span(row.total_ms * 1_000_000) if row.throttled else "",
                span(row.max_ms * 1_000_000) if row.throttled else "",
                f"#{row.first_number}" if row.throttled else "",
                _count(row.paused),
                span(row.paused_total) if row.paused else "",
                _how(row),
            ],
            color=_ODD,
        )
        for row in rows
    ]
    return Table(
        "Throttling",
        columns,
        lines,
        "throttle_time_ms in responses; paused: requests that waited for the end of a pause",
    )


def _how(row: ThrottleRow) -> str:
    parts = []
    if row.held:
        parts.append(f"{row.held:,} answers held back (brokers before 2.0)")
    if row.throttled > row.held:
        parts.append("answered at once, then the connection paused (KIP-219)")
    return words.listed(parts)


def connection_table(rows: list[ConnectionRow], names: Names, zone: tzinfo | None, *, story: bool) -> Table:
    """Connections by their numbers, for ``connection==N``, and, if asked for, the story of each in a line below it."""
    columns = [
        Column("conn", right=True),
        Column("client", least=15),
        Column("broker", least=15),
        Column("client ID", least=10, rank=3),
        Column("began", rank=7),
        Column("lasted", right=True, rank=5),
        Column("count", right=True),
        Column("errors", right=True, rank=1),
        Column("sent", right=True, rank=6),
        Column("received", right=True, rank=6),
        Column("RTT ms", right=True, rank=4),
        Column("ended", least=15),
        Column("trouble", least=12, rank=2),
    ]
    lines = [
        Row(
            [
                str(row.connection),
                names.shown(row.client),
                names.shown(row.broker),
                words.some(row.client_ids),
                clock(row.first, zone),
                span(row.last - row.first),
                f"{row.exchanges:,}",
                _count(row.errors),
                words.size(row.request_bytes),
                words.size(row.response_bytes),
                "-" if row.handshake is None else milliseconds(row.handshake),
                ended(row),
                "" if story else words.listed(troubles(row)),
            ],
            below=[_story(row)] if story else [],
            color=_ODD if row.troubled else _TROUBLE if row.errors else None,
        )
        for row in rows
    ]
    return Table("Connections", columns, lines)


def ended(row: ConnectionRow) -> str:
    """Return who ended a connection, and how."""
    if row.ended == OPEN:
        return "still open"
    what, _, side = row.ended.partition(" by ")
    return f"{side} {'RST' if what == 'reset' else 'FIN'}{', RST' if row.then_reset_by else ''}"


def _story(row: ConnectionRow) -> str:
    """What is to be told of a connection, in the order in which it happened."""
    parts = [] if row.whole else ["began before the capture"]
    parts += introduced(row.introduction)
    parts += [
        f"ApiVersions v{asked} not known, fell back to v{given}" for asked, given in row.fallback.items()
    ]
    parts += troubles(row)
    if sum(row.retransmitted):
        parts.append(f"bytes sent again: {sides(row.retransmitted)}")
    if sum(row.reordered):
        parts.append(f"segments out of order: {sides(row.reordered)}")
    if not row.exchanges and not row.foreign:
        parts.append("no Kafka" if row.request_bytes + row.response_bytes else "no data")
    if row.versions:
        parts.append(words.listed(f"{api} v{'/'.join(map(str, used))}" for api, used in row.versions.items()))
    return "; ".join(parts)


def introduced(intro: Introduction) -> Iterable[str]:
    """Yield what a client said of itself: software, SASL."""
    if intro.software:
        yield intro.software
    if not intro.mechanism:
        return
    who = f" as {intro.principal}" if intro.principal else ""
    again = f", {intro.authentications} times" if intro.authentications > 1 else ""
    if intro.authenticated:
        yield f"{intro.mechanism}{who}{again}"
    elif intro.authenticated is None:
        yield f"{intro.mechanism}{who}{again}, outcome not seen"


def troubles(row: ConnectionRow) -> list[str]:
    """Return what wants to be looked at of a connection."""
    parts = []
    intro = row.introduction
    if row.foreign:
        parts.append(f"not Kafka: {row.foreign}")
    if intro.authenticated is False:
        who = f" {intro.mechanism}" if intro.mechanism else ""
        parts.append(f"{intro.refusal}{who}{f' as {intro.principal}' if intro.principal else ''}")
    if row.unanswered_for is not None:
        what = words.listed(f"{count:,} {api}" for api, count in row.unanswered.items())
        parts.append(f"{what} unanswered for {span(row.unanswered_for)}")
    if sum(row.lost):
        parts.append(f"bytes not captured: {sides(row.lost)}")
    if sum(row.cut):
        parts.append(f"bytes cut by the snapshot length: {sides(row.cut)}")
    if sum(row.zero_windows):
        parts.append(f"packets saying that the receive window is full: {sides(row.zero_windows)}")
    return parts


def sides(counts: tuple[int, int]) -> str:
    """``1,200 from client``, ``1,200 from client + 90 from broker``."""
    both = zip(counts, ("client", "broker"), strict=True)
    return " + ".join(f"{count:,} from {side}" for count, side in both if count)


def _count(count: int) -> str:
    return f"{count:,}" if count else ""


def _size(count: int) -> str:
    return words.size(count) if count else ""
