"""The tables of ``kproxy stats``: rows of :mod:`captures.analysis` as text, with names instead of addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import tzinfo

from captures.analysis.api_stats import ApiRow
from captures.analysis.client_identity import Introduction
from captures.analysis.client_stats import ClientRow
from captures.analysis.clusters import beside
from captures.analysis.connection_stats import OPEN, ConnectionRow
from captures.analysis.error_stats import ErrorRow
from captures.analysis.percentiles import Percentiles
from captures.analysis.throttling import ThrottleRow
from captures.analysis.time_shares import ShareRow
from captures.analysis.topic_stats import Flow, PartitionRow, TopicRow
from captures.meaning import words
from captures.names import Names
from captures.time_format import clock, milliseconds, span
from kproxy.text.tables import Column, Row, Table

_TROUBLE = "red"
_ODD = "yellow"


def api_table(rows: list[ApiRow], *, waits_known: bool = True) -> Table:
    """APIs and versions, with broker time; designed waits are below an API that has some.

    :param waits_known: False if only columns were counted, which do not separate waits from work
    """
    waits = "without" if waits_known else "with"
    intervened = any(row.intervened for row in rows)
    return Table.of(
        "APIs",
        rows,
        [
            (
                Column("API", least=22),
                lambda row: row.api + ("" if row.version is None else f" v{row.version}"),
            ),
            (Column("count", right=True), lambda row: f"{row.exchanges:,}"),
            (Column("errors", right=True), lambda row: words.figure(row.errors)),
            (Column("expected", right=True, rank=4), lambda row: words.figure(row.expected_errors)),
            (Column("unanswered", right=True, rank=2), lambda row: words.figure(row.unanswered)),
            (Column("not recorded", right=True, rank=2), lambda row: words.figure(row.not_recorded)),
            (Column("undecoded", right=True, rank=3), lambda row: words.figure(row.undecoded)),
            (Column("kproxy", right=True), lambda row: words.figure(row.intervened)),
            (Column("sent", right=True, rank=6), lambda row: words.size(row.request_bytes)),
            (Column("received", right=True, rank=5), lambda row: words.size(row.response_bytes)),
            (Column("p50", right=True), lambda row: _time(_worked(row), "p50")),
            (Column("p95", right=True, rank=1), lambda row: _time(_worked(row), "p95")),
            (Column("p99", right=True), lambda row: _time(_worked(row), "p99")),
            (Column("max", right=True), lambda row: _time(_worked(row), "max")),
        ],
        about=f"latency in ms, {waits} waits by design: end of request to begin of response"
        + (
            "; kproxy: in which its proxy intervened, errors and delays of its making not counted"
            if intervened
            else ""
        ),
        color=lambda row: _TROUBLE if row.errors else _ODD if row.unanswered or row.undecoded else None,
        more=_waited,
    )


def _worked(row: ApiRow) -> Percentiles | None:
    # columns alone do not distinguish waits from work, and there is no broker time
    return row.broker_time or (None if row.waited else row.latency)


def _waited(row: ApiRow) -> list[list[str]]:
    """Return the line about designed waits."""
    if row.waited is None:
        return []
    times = [_time(row.waited, name) for name in ("p50", "p95", "p99", "max")]
    return [["  waited by design", f"{row.waited.count:,}", *[""] * 8, *times]]


def _time(times: Percentiles | None, name: str, nothing: str = "-") -> str:
    return nothing if times is None else milliseconds(getattr(times, name))


def latency_table(rows: list[ShareRow]) -> Table:
    """Shares of the time of each API; the reasons of its designed waits below it."""
    intervened = any(row.kproxy for row in rows)
    return Table.of(
        "Where the time went",
        [row for row in rows if row.latency or row.kproxy],
        [
            (Column("API", least=22), lambda row: row.api),
            (Column("answered", right=True), lambda row: f"{row.latency.count:,}" if row.latency else ""),
            (Column("p50", right=True, rank=2), lambda row: _time(row.latency, "p50")),
            (Column("p99", right=True, rank=1), lambda row: _time(row.latency, "p99")),
            (Column("broker", right=True), lambda row: _time(row.broker, "p50")),
            (Column("p99", right=True), lambda row: _time(row.broker, "p99")),
            (Column("by design", right=True), lambda row: _time(row.waited, "p50", "")),
            (Column("followers", right=True, rank=3), lambda row: _time(row.followers, "p50", "")),
            (Column("paused", right=True, rank=4), lambda row: _time(row.paused, "p50", "")),
            (Column("network", right=True, rank=5), lambda row: _time(row.network, "p50", "")),
            (Column("throttled", right=True, rank=6), lambda row: _time(row.throttled, "p50", "")),
            (Column("client", right=True, rank=7), lambda row: _time(row.client, "p50", "")),
            (Column("kproxy", right=True), lambda row: _time(row.kproxy, "p50", "")),
        ],
        about="in ms; medians but for p99, of those that waited at all; client: from a response to the next request"
        + ("; kproxy: held back by its rules and holds, no part of p50 and p99" if intervened else ""),
        below=lambda row: [
            *(f"{why}: {span(total)} in all" for why, total in row.wait_reasons.items()),
            *_in_broker(row),
        ],
    )


def _in_broker(row: ShareRow) -> Iterator[str]:
    """Yield the time in the broker by part; parts that took no time are left out."""
    parts = [
        f"{name.replace('_', ' ')} {milliseconds(times.p50)} / {milliseconds(times.p99)}"
        for name, times in row.in_broker.items()
        if times.max
    ]
    if parts:
        yield f"in the broker, p50 / p99: {', '.join(parts)}"


def error_table(rows: list[ErrorRow], names: Names) -> Table:
    """Errors by API and code."""
    return Table.of(
        "Errors",
        rows,
        [
            (Column("error", least=20), lambda row: row.name),
            (Column("API", least=12), lambda row: row.api),
            (Column("exchanges", right=True), lambda row: f"{row.exchanges:,}"),
            (
                Column("times", right=True, rank=3),
                lambda row: f"{row.count:,}" if row.count > row.exchanges else "",
            ),
            (Column("first", right=True), lambda row: f"#{row.first}"),
            (Column("clients", least=10, rank=2), lambda row: words.some(map(names.shown_host, row.clients))),
            (
                Column("note", least=20, rank=1),
                lambda row: (
                    f"expected: {row.reason}" if row.expected else words.clipped(row.message or "", 200)
                ),
            ),
        ],
        color=lambda row: None if row.expected else _TROUBLE,
        about="first: number of an exchange for read --exchange",
    )


def client_table(rows: list[ClientRow], names: Names) -> Table:
    """Clients and their requests."""
    return Table.of(
        "Clients",
        rows,
        [
            (Column("client", least=12), lambda row: row.client_id or f"(none) {names.shown_host(row.name)}"),
            (Column("software", least=12), lambda row: words.listed(row.software) or "-"),
            (Column("principal", least=8, rank=3), lambda row: words.listed(row.principals)),
            (Column("address", least=9, rank=2), lambda row: words.some(map(names.shown_host, row.hosts))),
            (Column("conns", right=True, rank=4), lambda row: f"{row.connections:,}"),
            (Column("count", right=True), lambda row: f"{row.exchanges:,}"),
            (Column("errors", right=True), lambda row: words.figure(row.errors)),
            (Column("unanswered", right=True, rank=1), lambda row: words.figure(row.unanswered)),
            (Column("sent", right=True, rank=5), lambda row: words.size(row.request_bytes)),
            (Column("received", right=True, rank=6), lambda row: words.size(row.response_bytes)),
            (
                Column("APIs", least=20, rank=7),
                lambda row: words.listed(f"{api} {count:,}" for api, count in row.apis.items()),
            ),
        ],
        color=lambda row: _TROUBLE if row.errors else _ODD if row.unanswered else None,
    )


def topic_table(rows: list[TopicRow], names: Names, *, partitions: bool) -> Table:
    """Topics and optionally their partitions: produced and fetched data, by client."""
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
        lines.append(
            _topic_row(beside(topic.topic, topic.cluster), f"{len(topic.partitions)}", topic.total, names)
        )
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
            words.figure(row.produced.batches),
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
    """Number of records, and of compressed message sets that do not announce theirs."""
    sets = f"{flow.uncounted:,} sets" if flow.uncounted else ""
    return "+".join(filter(None, [words.figure(flow.records), sets]))


def throttle_table(rows: list[ThrottleRow], names: Names) -> Table:
    """Throttled clients, with durations."""
    return Table.of(
        "Throttling",
        rows,
        [
            (Column("client", least=12), lambda row: names.shown_host(row.client)),
            (Column("API"), lambda row: row.api),
            (Column("throttled", right=True), lambda row: words.figure(row.throttled)),
            (Column("of", right=True, rank=3), lambda row: f"{row.responses:,}"),
            (
                Column("total", right=True),
                lambda row: span(row.total_ms * 1_000_000) if row.throttled else "",
            ),
            (Column("max", right=True), lambda row: span(row.max_ms * 1_000_000) if row.throttled else ""),
            (
                Column("first", right=True, rank=2),
                lambda row: f"#{row.first_number}" if row.throttled else "",
            ),
            (Column("paused", right=True), lambda row: words.figure(row.paused)),
            (Column("for", right=True, rank=1), lambda row: span(row.paused_total) if row.paused else ""),
            (Column("how", least=12, rank=4), lambda row: _how(row)),
        ],
        color=lambda row: _ODD,
        about="throttle_time_ms in responses; paused: requests that waited for the end of a pause",
    )


def _how(row: ThrottleRow) -> str:
    parts = []
    if row.held:
        parts.append(f"{row.held:,} answers held back (brokers before 2.0)")
    if row.throttled > row.held:
        parts.append("answered at once, then the connection paused (KIP-219)")
    return words.listed(parts)


def connection_table(rows: list[ConnectionRow], names: Names, zone: tzinfo | None, *, story: bool) -> Table:
    """Connections by number, for ``connection==N``, and optionally the story of each below it."""
    return Table.of(
        "Connections",
        rows,
        [
            (Column("conn", right=True), lambda row: str(row.connection)),
            (Column("client", least=15), lambda row: names.shown(row.client)),
            (Column("broker", least=15), lambda row: names.shown(row.broker)),
            (Column("client ID", least=10, rank=3), lambda row: words.some(row.client_ids)),
            (Column("began", rank=7), lambda row: clock(row.first, zone)),
            (Column("lasted", right=True, rank=5), lambda row: span(row.last - row.first)),
            (Column("count", right=True), lambda row: f"{row.exchanges:,}"),
            (Column("errors", right=True, rank=1), lambda row: words.figure(row.errors)),
            (Column("sent", right=True, rank=6), lambda row: words.size(row.request_bytes)),
            (Column("received", right=True, rank=6), lambda row: words.size(row.response_bytes)),
            (
                Column("RTT ms", right=True, rank=4),
                lambda row: "-" if row.round_trip is None else milliseconds(row.round_trip),
            ),
            (Column("ended", least=15), lambda row: ended(row)),
            (Column("trouble", least=12, rank=2), lambda row: "" if story else words.listed(troubles(row))),
        ],
        below=lambda row: [_story(row)] if story else [],
        color=lambda row: _ODD if row.troubled else _TROUBLE if row.errors else None,
    )


def ended(row: ConnectionRow) -> str:
    """Return who ended a connection, and how."""
    if row.ended == OPEN:
        return "still open"
    what, _, side = row.ended.partition(" by ")
    return f"{side} {'RST' if what == 'reset' else 'FIN'}{', RST' if row.then_reset_by else ''}"


def _story(row: ConnectionRow) -> str:
    """Notes on a connection, in chronological order."""
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
    """Yield what a client stated about itself: software, SASL."""
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
    """Return what deserves attention about a connection."""
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
    """Return counts by side: ``1,200 from client``, ``1,200 from client + 90 from broker``."""
    both = zip(counts, ("client", "broker"), strict=True)
    return " + ".join(f"{count:,} from {side}" for count, side in both if count)


def _size(count: int) -> str:
    return words.size(count) if count else ""
