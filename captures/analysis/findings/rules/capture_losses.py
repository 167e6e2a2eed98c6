"""Data missing in the capture itself, which makes other findings doubtful."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from captures.analysis.findings.common import captured_twice
from captures.analysis.findings.finding import Finding, Occurrences, Severity
from captures.analysis.findings.keys import Key
from captures.analysis.findings.rule import MOST_CONNECTIONS, Rule
from captures.arrays import distinct_values
from captures.exchanges.broker_logs import Lack
from captures.meaning import words


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
    capture, seen = rule.context.capture, Occurrences()
    for connection in connections:
        seen.note(0, int(capture.connections.first_time[connection]))
        seen.last = max(seen.last, int(capture.connections.last_time[connection]))
    if not seen:
        seen.note(0, capture.latest)
    return seen


def _answered(rule: Rule, connection: int) -> bool:
    """Return whether the broker sent anything; otherwise it did not understand TLS (tls_on_plaintext)."""
    capture = rule.context.capture
    return bool(capture.connections.streams.end[capture.client_stream(connection) ^ 1] > 0)
