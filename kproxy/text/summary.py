"""The closing line: number of exchanges, and how many were decoded, paired, lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from captures.analysis.exchange_groups import Counts, ExchangeGroup, exchange_groups
from captures.exchanges import Capture, Exchange, Flag
from captures.exchanges.columns import ExchangeColumns
from captures.exchanges.exchange_block import ExchangeBlock
from captures.meaning import words
from captures.packets import CaptureError, JoinedSource
from captures.packets.clock_offsets import ClockOffset
from captures.packets.files import CaptureFile
from captures.time_format import latency, span

if TYPE_CHECKING:
    from captures.filters import Filter

E = TypeVar("E", bound=Exchange | ExchangeBlock)

_MOST_CLOCKS = 20
_MOST_OPAQUE = 20


@dataclass(kw_only=True)
class Tally(Counts):
    """Counts exchanges in passing."""

    clients: set[str] = field(default_factory=set)
    first: int | None = None
    last: int = 0

    def add(self, exchange: Exchange) -> None:
        Counts.add(self, exchange)
        self._met(exchange.client_id or exchange.client, exchange.time, exchange.time)

    def add_block(self, block: ExchangeBlock) -> None:
        for kind, count in block.counted_kinds():
            self.add_kind(kind, count)
        self.request_bytes += sum(block.request_size)
        self.response_bytes += sum(block.response_size)
        first, last = min(block.time), max(block.time)
        for party in block.parties:
            self._met(party.client_id or party.client, first, last)

    def add_columns(self, columns: ExchangeColumns) -> None:
        """Count exchanges by their columns (:data:`captures.analysis.exchange_groups.COUNTED`)."""
        for group in exchange_groups(columns):
            self.count(group)

    def count(self, group: ExchangeGroup) -> None:
        self.include(group)
        self._met(group.client_id or group.connection.client, group.earliest, group.last)

    def _met(self, client: str, first: int, last: int) -> None:
        self.clients.add(client)
        self.first = first if self.first is None else min(self.first, first)
        self.last = max(self.last, last)

    def counting(self, exchanges: Iterable[E]) -> Iterator[E]:
        """Count exchanges, or blocks of them, and pass them on, keeping none while the next one is decoded."""

        def count(item: E) -> E:
            if isinstance(item, ExchangeBlock):
                self.add_block(item)
            else:
                self.add(item)
            return item

        return map(count, exchanges)

    def merge(self, other: Tally) -> None:
        """Add another tally."""
        self.include(other)
        self.clients |= other.clients
        self.first = min((time for time in (self.first, other.first) if time is not None), default=None)
        self.last = max(self.last, other.last)

    def sentence(self, capture: Capture, wanted: Filter | None = None) -> str:
        """Return the closing line.

        :param wanted: the filter, if there was one
        """
        if not self.exchanges and len(capture.table):
            meant = "" if wanted is None or wanted.expanded == wanted.text.strip() else f": {wanted.expanded}"
            none = f"None of {len(capture.table):,} exchanges{_in_files(capture, ' in')} fits{meant}"
            hint = _cluster_hint(capture, wanted)
            return f"{none}{hint or ('' if meant else '.')}"
        if not self.exchanges:
            return f"No Kafka exchanges{_in_files(capture, ' in')}."
        lost = int(capture.connections.streams.lost.sum())
        skipped = sum(skip.size for skip in capture.skipped if not skip.at_end)
        # absence proves nothing if the capture has gaps
        doubt = " (may have been dropped by the capture)" if capture.statistics.dropped else ""
        ok = self.exchanges - self.errors - self.unanswered - self.not_recorded - self.orphans
        what = [f"{ok:,} ok"]
        what += [
            f"{count:,} {word}"
            for count, word in (
                (self.errors, "with errors"),
                (self.unanswered, f"unanswered{doubt}"),
                (self.not_recorded, "whose answer was not recorded"),
                (self.orphans, "without their request"),
            )
            if count
        ]
        took = f" in {span(self.last - self.first)}" if self.first is not None else ""
        clients = words.counted(len(self.clients), "client")
        files = _in_files(capture, ", from")
        parts = [f"{words.counted(self.exchanges, 'exchange')} of {clients}{took}{files}: {', '.join(what)}."]
        parts.append(f"{words.counted(lost, 'byte')} lost{doubt if lost else ''}.")
        if skipped:
            parts.append(f"{words.counted(skipped, 'byte')} skipped.")
        whole = self.exchanges - self.undecoded - self.orphans
        share = 100 * whole / self.exchanges if self.exchanges else 0.0
        parts.append(
            f"{'100' if whole == self.exchanges else f'{share:.1f}'} % decoded"
            + (f", {self.guessed:,} of them by a guess." if self.guessed else ".")
        )
        return " ".join(parts)

    def clean(self, capture: Capture) -> bool:
        """Return whether there were exchanges, everything was read, and no internal error occurred."""
        trouble = (
            capture.faults
            or capture.foreign
            or _partly_decrypted(capture)
            or capture.statistics.damage
            or any(not skip.at_end for skip in capture.skipped)
            or capture.connections.streams.lost.any()
            or capture.statistics.dropped
            or unreadable(capture)
        )
        exchanges_seen = self.exchanges or len(capture.table)
        return bool(exchanges_seen) and not trouble and not self.undecoded and not self.orphans


def _cluster_hint(capture: Capture, wanted: Filter | None) -> str:
    """Return the end of a sentence and that a filter names a cluster that the capture does not; empty if it does."""
    from captures.filters import unknown_cluster

    names = sorted({each.cluster for each in capture.samples.upstreams.values()})
    error = None if wanted is None else unknown_cluster(wanted, names)
    if error is None:
        return ""
    return f". {error.message[0].upper()}{error.message[1:]}: {error.hint}{'' if error.hint.endswith('?') else '.'}"


def unreadable(capture: Capture) -> list[CaptureError]:
    """Return why files of a capture could not be read, or not completely."""
    return capture.source.unreadable if isinstance(capture.source, JoinedSource) else []


def _partly_decrypted(capture: Capture) -> list[int]:
    """Return the TLS connections whose decryption stopped before their end."""
    tls = capture.decryption.tls
    return [each for each in tls if tls[each].info.reason and each not in capture.foreign]


def _translated(capture: Capture) -> Iterator[str]:
    """Yield what was found of a request log's connections whose addresses were translated."""
    found = capture.translated
    if found is None:
        return
    if found.ends:
        yield (
            f"{words.counted(len(found.ends), 'connection')} of the broker's request log matched by the content, "
            "because the log has other addresses than the packets"
        )
    for why, count in sorted(found.unmatched.items(), reverse=True):
        entries = words.counted(count, "entry", "entries")
        yield f"{entries} of the broker's request log not matched: its addresses were not captured, and {why}"


def notes(capture: Capture) -> list[str]:
    """Return the reader's notes on a capture, one per line."""
    lines = _file_notes(capture.source) if isinstance(capture.source, JoinedSource) else []
    lines += [
        f"{damage.path}: damaged at byte {damage.offset:,}: {damage.reason}"
        for damage in capture.statistics.damage
    ]
    logs = capture.notes.broker_logs
    if logs.captured or (len(logs) and capture.table.by_time):
        _, logged = capture.table.broker_log_column("captured", slice(None))
        lacking = int(np.count_nonzero(capture.table.only_logged()))
        both = int(np.count_nonzero(logged)) - lacking
        added = capture.table.column("flags") & np.uint16(Flag.REQUEST_LOGGED | Flag.RESPONSE_LOGGED) != 0
        completed = f" ({np.count_nonzero(added):,} of them lack a request or response, which it has)"
        hint = "" if both else "; nothing in it is certain to be what was captured"
        lines.append(
            f"the broker's request log has measurements of {words.counted(both, 'captured exchange')}"
            f"{completed if added.any() else ''}, and "
            f"{words.counted(lacking, 'exchange')} that the packets lack{hint}"
        )
        lines += _translated(capture)
    elif len(logs):
        lines.append(
            "made of a broker's request log, which leaves out records, packets and requests without an end"
        )
    foreign: dict[tuple[str, str], list[str]] = {}
    for connection, guess in sorted(capture.foreign.items()):
        client, broker = capture.shown_endpoints(connection)
        foreign.setdefault((broker, guess), []).append(client)
    for (broker, guess), clients in foreign.items():
        tls = guess.startswith("TLS")  # its content may be Kafka
        what = "is" if tls else "is not Kafka: it looks like"
        if len(clients) > 1:
            are = "are" if tls else "are not Kafka: they look like"
            what = f"and {len(clients) - 1:,} more connections {are}"
        lines.append(f"{clients[0]} > {broker} {what} {guess}")
    for connection in _partly_decrypted(capture)[:_MOST_OPAQUE]:
        client, broker = capture.shown_endpoints(connection)
        lines.append(f"{client} > {broker} is {capture.decryption.summary(connection)}")
    reasons: Counter[tuple[str, int]] = Counter()
    for skip in capture.skipped:
        if not skip.at_end:
            reasons[skip.reason, skip.stream >> 1] += skip.size
    for (reason, connection), size in reasons.most_common(20):
        client, broker = capture.shown_endpoints(connection)
        lines.append(f"{client} > {broker}: {words.counted(size, 'byte')} skipped: {reason}")
    if capture.statistics.dropped:
        lines.append(
            f"{words.counted(capture.statistics.dropped, 'packet')} dropped by the capturing machine"
        )
    if not capture.statistics.tcp:
        seen = ", ".join(f"{count} {what}" for what, count in capture.statistics.not_tcp.most_common(5))
        lines.append(
            f"no TCP packets in {words.counted(capture.statistics.packets, 'packet')}{f' ({seen})' if seen else ''}"
        )
    return lines


def _file_notes(source: JoinedSource) -> list[str]:
    lines = [str(error) for error in source.unreadable]
    if source.passed_over:
        names = words.some(source.passed_over)
        many = len(source.passed_over) > 1
        lines.append(f"skipped, as {'they are not captures' if many else 'it is not a capture'}: {names}")
    compared = source.clocks or []
    lines += [_clock_note(*each, aligned=source.aligned) for each in compared[:_MOST_CLOCKS]]
    if len(compared) > _MOST_CLOCKS:
        lines.append(f"{len(compared) - _MOST_CLOCKS:,} more files were compared by their clocks")
    if not source.aligned and any(each.offset.matters for each in compared):
        lines.append("--align-clocks brings them to one clock")
    if source.copies:
        lines.append(
            f"{words.counted(source.copies, 'packet')} of which another file has a copy, counted once"
        )
    return lines


def _clock_note(file: CaptureFile, reference: CaptureFile, offset: ClockOffset, *, aligned: bool) -> str:
    """Return a note on the clock of a file in comparison with another's."""
    both = f"{words.counted(offset.packets, 'packet')} seen in both"
    if offset.uncertainty is None:
        both += ", in one direction only, so the delay of the network is in it"
    else:
        both = f"±{latency(offset.uncertainty)}, {both}"
    if not offset.matters:
        return f"the clocks of {file.path} and {reference.path} agree ({both})"
    where = "ahead of" if offset.offset >= 0 else "behind"
    how_far = f"{'was' if aligned else 'is'} {latency(abs(offset.offset))} {where}"
    parts = [f"{file.path} {how_far} {reference.path} ({both})"]
    if offset.drift:
        parts.append(
            f"{'gaining' if offset.drift > 0 else 'losing'} {latency(abs(offset.drift) * 1e9)} a second"
        )
    if offset.irregular:
        parts.append("later more or less, since a clock was set or ran unevenly")
    if aligned:
        parts.append("and was aligned")
    return ", ".join(parts)


def _in_files(capture: Capture, before: str) -> str:
    return f"{before} {capture.source.path}" if isinstance(capture.source, JoinedSource) else ""
