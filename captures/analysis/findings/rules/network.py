"""What TCP shows: trouble of the network, and losses of the capture itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from captures.analysis.findings.common import captured_twice
from captures.analysis.findings.finding import EffectOf, Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import MOST_CONNECTIONS, Rule, Threshold, Unit
from captures.arrays import distinct_values
from captures.exchanges import Capture
from captures.exchanges.broker_logs import Lack
from captures.meaning import words
from captures.time_format import span
from dissectors.sides import ENDS
from dissectors.units import MS

# ---------------------------------------------------------------- tcp_trouble

_LARGEST_SEGMENT = 1448
"""Bytes of payload on Ethernet, with time stamps (RFC 7323)."""


class _Path(msgspec.Struct):
    """TCP statistics between a client's host and a broker; pairs are for data sent by client and broker."""

    connections: list[int] = []
    packets: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    bytes: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    retransmitted: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    segments: list[float] = msgspec.field(default_factory=lambda: [0.0, 0.0])
    reordered: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    closed: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    trips: list[int] = []
    samples: list[int] = msgspec.field(default_factory=lambda: [0, 0])
    sampled_trips: tuple[list[int], list[int]] = msgspec.field(default_factory=lambda: ([], []))

    @property
    def round_trip(self) -> int:
        """Round trip time in ns, through a proxy the sum of both paths; 0 if unknown."""
        if any(self.sampled_trips):
            return sum(int(np.median(trips)) for trips in self.sampled_trips if trips)
        return int(np.median(self.trips)) if self.trips else 0


def _lifetimes(capture: Capture, connections: Iterable[int]) -> Occurrences:
    """Return connections as occurrences, from the first one's first packet to the last packet of any."""
    columns, every = capture.connections, list(connections)
    seen = Occurrences.of((0, int(columns.first_time[each])) for each in every)
    seen.last = max((int(columns.last_time[each]) for each in every), default=0)
    return seen


class TcpTrouble(Rule):
    """Finds paths between a client's host and a broker with TCP problems."""

    name = "tcp_trouble"
    needs = Lack.PACKETS
    effect_of = EffectOf.BROKERS
    title = "Network trouble, not Kafka"
    about = (
        "A broker seems slow if the network is. Retransmitted segments cost at least a round trip, mostly 200 ms "
        "and more (RFC 6298). A zero window means that the receiver does not read its data. A long round trip is "
        "part of every response. A segment lost before the place of capture shows up as late. A few of each are "
        "normal."
    )
    key = Key.CAPTURE
    thresholds = (
        Threshold("lost", 1, Unit.PERCENT, "retransmitted or late segments, of all packets of a direction"),
        Threshold("segments", 20, Unit.COUNT, "least number of them"),
        Threshold("zero_windows", 20, Unit.COUNT, "packets of one side that announce a zero window"),
        Threshold(
            "closed",
            1,
            Unit.PERCENT,
            "share of all packets of that side; a busy consumer closes its window now and then",
        ),
        Threshold(
            "round_trip",
            50,
            Unit.MS,
            "median from SYN to SYN-ACK, or as the kernel reports it to a proxy; a finding of low severity",
        ),
    )

    def findings(self) -> Iterator[Finding]:
        for (client, broker), path in _paths(self.context.capture).items():
            for side in (0, 1):
                yield from self._lost(client, broker, path, side)
                yield from self._full(client, broker, path, side)
            yield from self._slow(client, broker, path)

    def blind(self) -> str:
        capture = self.context.capture
        if np.any(capture.connections.handshake >= 0) or len(capture.samples):
            return ""
        return "the capture shows no TCP handshake, so round trips are not known"

    def _lost(self, client: str, broker: str, path: _Path, side: int) -> Iterator[Finding]:
        lost = max(round(path.segments[side]), path.samples[side]) + path.reordered[side]
        if captured_twice(path.retransmitted[side], path.bytes[side]):
            return
        share = 100 * lost / max(path.packets[side], 1)
        if lost < self.limit("segments") or share < self.limit("lost"):
            return
        sender, receiver = (client, broker) if side == 0 else (broker, client)
        yield self.finding(
            f"network {sender} to {receiver}, loss",
            f"From {sender} to {receiver}, about {lost:,} of {path.packets[side]:,} segments ({share:.1f}%) were"
            f" lost, late or sent again ({words.volume(path.retransmitted[side])} twice in the capture).",
            "The network between them loses or reorders packets, so latencies on this path are not the broker's. "
            "Check its interfaces (errors, drops, duplex, MTU), the hosts' queues, and limits of virtual networks.",
            _lifetimes(self.context.capture, path.connections),
            connections=path.connections,
        )

    def _full(self, client: str, broker: str, path: _Path, side: int) -> Iterator[Finding]:
        share = 100 * path.closed[side] / max(path.packets[side], 1)
        if path.closed[side] < self.limit("zero_windows") or share < self.limit("closed"):
            return
        receiver, sender = (client, broker) if side == 0 else (broker, client)
        yield self.finding(
            f"network {sender} to {receiver}, window",
            f"{receiver} announced {path.closed[side]:,} times ({share:.1f}% of its packets) that it can receive no "
            f"more from {sender} (zero window).",
            f"The process at {receiver} reads too slowly: it is busy, paused (garbage collection), or its"
            f" {'receive.buffer.bytes' if side == 0 else 'socket.receive.buffer.bytes'} is too small.",
            _lifetimes(self.context.capture, path.connections),
            connections=path.connections,
        )

    def _slow(self, client: str, broker: str, path: _Path) -> Iterator[Finding]:
        median = path.round_trip
        if median < self.limit("round_trip") * MS:
            return
        yield self.finding(
            f"network {client} to {broker}, round trip",
            f"A round trip from {client} to {broker} takes {span(median)}: every answer takes at least as long.",
            "Move clients and brokers closer together (same region, client.rack with follower fetching, KIP-392), and "
            "let clients do more per request: larger batches, more fetch.max.bytes and send.buffer.bytes.",
            _lifetimes(self.context.capture, path.connections),
            severity=Severity.LOW,
            connections=path.connections,
        )


def _paths(capture: Capture) -> dict[tuple[str, str], _Path]:
    paths: dict[tuple[str, str], _Path] = {}
    of_connection: dict[int, _Path] = {}
    streams = capture.connections.streams
    # converted at once, because reading single elements of arrays is slow
    packets, retransmitted, late = (
        streams.packets.tolist(),
        streams.retransmitted.tolist(),
        streams.reordered.tolist(),
    )
    ends, closed = streams.end.tolist(), streams.zero_windows.tolist()
    for connection, handshake in enumerate(capture.connections.handshake.tolist()):
        client, broker = capture.shown_endpoints(connection)
        path = paths.setdefault((client.rpartition(":")[0], broker), _Path())
        of_connection[connection] = path
        path.connections.append(connection)
        if handshake >= 0:
            path.trips.append(handshake)
        own_stream = capture.client_stream(connection)
        for side, stream in enumerate((own_stream, own_stream ^ 1)):
            path.packets[side] += packets[stream]
            path.bytes[side] += ends[stream]
            path.retransmitted[side] += retransmitted[stream]
            path.segments[side] += _segments(retransmitted[stream], ends[stream], packets[stream])
            path.reordered[side] += late[stream]
            path.closed[side] += closed[stream]
    _sampled(capture, of_connection)
    return paths


def _segments(retransmitted: int, end: int, packets: int) -> float:
    """Return the least number of segments for `retransmitted` bytes, by the bytes and packets of the stream.

    Half of the packets carry data, the others acknowledge; if segmentation is offloaded to the network card, captured
    packets are larger than those on the wire.
    """
    return retransmitted / min(max(2 * end / max(packets, 1), 1), _LARGEST_SEGMENT)


def _sampled(capture: Capture, paths: dict[int, _Path]) -> None:
    """Add what the kernel reported to a proxy: retransmissions and round trip time of each side."""
    latest: dict[tuple[int, int], int] = {}
    for sample in capture.samples:
        side, path = ENDS.index(sample.values.side), paths.get(sample.connection)
        if path is None:
            continue
        # the kernel sends to that side, so the other side's data was lost
        latest[sample.connection, 1 - side] = sample.values.retransmits
        if sample.values.rtt_us:
            path.sampled_trips[side].append(sample.values.rtt_us * 1_000)
    for (connection, side), retransmits in latest.items():
        paths[connection].samples[side] += retransmits


# ---------------------------------------------------------------- capture_losses


class CaptureLosses(Rule):
    """Finds packets and bytes that were on the wire and are not in the capture."""

    name = "capture_losses"
    needs = Lack.PACKETS
    title = "Losses in the capture itself"
    about = (
        "The capturing machine was too slow, or kept only the start of packets, or the file is damaged. Bytes "
        "that hosts acknowledged did arrive; only the capture lacks them. So unanswered requests, gaps between "
        "heartbeats and the like may be artefacts."
    )
    severity = Severity.LOW
    key = Key.CAPTURE

    def findings(self) -> Iterator[Finding]:
        yield from self._lost()
        yield from self._twice()
        yield from self._encrypted()

    def _twice(self) -> Iterator[Finding]:
        streams = self.context.capture.connections.streams
        retransmitted, size = int(streams.retransmitted.sum()), int(streams.end.sum())
        if captured_twice(retransmitted, size):
            yield self.finding(
                "captured twice",
                f"{words.volume(retransmitted)} of {words.volume(size)} were captured more than once: "
                "TCP figures on lost and repeated segments are unreliable.",
                "If packets pass several interfaces, capture on one of them instead of all (tcpdump -i any).",
                _when(self, range(len(self.context.capture.connections))),
                severity=Severity.INFO,
                connections=range(len(self.context.capture.connections)),
            )

    def _encrypted(self) -> Iterator[Finding]:
        capture = self.context.capture
        closed = [
            each for each in capture.decryption.tls if each in capture.foreign and _answered(self, each)
        ]
        if closed:
            reason = capture.decryption.tls[closed[0]].info.reason
            yield self.finding(
                "encrypted connections",
                f"{words.counted(len(closed), 'connection')} spoke TLS and could not be decrypted"
                f"{f' ({reason})' if reason else ''}: their contents are not known.",
                "Supply the secrets (--keylog): clients write them with SSLKEYLOGFILE or an agent. Or record with a "
                "proxy that terminates TLS.",
                _when(self, closed),
                severity=Severity.INFO,
                connections=closed,
            )

    def _lost(self) -> Iterator[Finding]:
        capture = self.context.capture
        statistics, streams = capture.statistics, capture.connections.streams
        lost, cut = int(streams.lost.sum()), int(streams.cut.sum())
        parts = []
        if statistics.dropped:
            parts.append(f"the capturing machine dropped {words.counted(statistics.dropped, 'packet')}")
        if lost:
            parts.append(f"{words.volume(lost)} of {_streams(streams.lost)} were not captured")
        if cut:
            parts.append(f"{words.volume(cut)} of {_streams(streams.cut)} were cut by the snapshot length")
        if statistics.damage:
            parts.append(f"{words.counted(len(statistics.damage), 'place')} of the file could not be read")
        if not parts:
            return
        text = "; ".join(parts)
        concerned = distinct_values(np.flatnonzero((streams.lost > 0) | (streams.cut > 0)) // 2)[
            :MOST_CONNECTIONS
        ].tolist()
        yield self.finding(
            "capture",
            f"{text[0].upper()}{text[1:]}: other findings about these connections may be wrong.",
            "Capture with a larger buffer (tcpdump -B, kproxy sniff --buffer-size), whole packets (-s 0), a faster "
            "disk, and only the ports of the brokers. With kproxy proxy, use a larger --queue, or --lossless.",
            _when(self, concerned),
            filter_text="damaged" if lost or cut else "",
            connections=concerned,
        )


def _streams(column: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    count = len(distinct_values(np.flatnonzero(column > 0) // 2))
    return words.counted(count, "connection")


def _when(rule: Rule, connections: Iterable[int]) -> Occurrences:
    return _lifetimes(rule.context.capture, connections) or Occurrences.of([(0, rule.context.capture.latest)])


def _answered(rule: Rule, connection: int) -> bool:
    """Return whether the broker sent anything; otherwise it did not understand TLS (tls_on_plaintext)."""
    capture = rule.context.capture
    return bool(capture.connections.streams.end[capture.client_stream(connection) ^ 1] > 0)
