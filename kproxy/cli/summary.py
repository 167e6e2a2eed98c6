"""The line that closes a reading: how much was there, how much of it was decoded, paired, lost."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from captures.analysis.api_stats import undecoded
from captures.exchanges import Capture, Exchange, Flag
from kproxy.cli.times import span


@dataclass
class Tally:
    """Counts exchanges as they go by."""

    exchanges: int = 0
    errors: int = 0
    unanswered: int = 0
    orphans: int = 0
    undecoded: int = 0
    guessed: int = 0
    clients: set[str] = field(default_factory=set)
    first: int | None = None
    last: int = 0

    def add(self, exchange: Exchange) -> None:
        """Count one exchange."""
        self.exchanges += 1
        self.clients.add(exchange.client_id or exchange.client)
        self.errors += len(exchange.errors) > len(exchange.expected)
        self.unanswered += Flag.UNANSWERED in exchange.flag
        self.orphans += Flag.ORPHAN in exchange.flag
        self.undecoded += undecoded(exchange)
        self.guessed += any(
            body is not None and bool(body.guess) for body in (exchange.request, exchange.response)
        )
        self.first = exchange.time if self.first is None else min(self.first, exchange.time)
        self.last = max(self.last, exchange.time)

    def sentence(self, captures: list[Capture]) -> str:
        """Return the closing line."""
        if not self.exchanges:
            return "No Kafka exchanges."
        lost = sum(int(capture.connections.streams.lost.sum()) for capture in captures)
        skipped = sum(skip.size for capture in captures for skip in capture.skipped if not skip.at_end)
        ok = self.exchanges - self.errors - self.unanswered - self.orphans
        what = [f"{ok:,} ok"]
        what += [
            f"{count:,} {word}"
            for count, word in (
                (self.errors, "with errors"),
                (self.unanswered, "unanswered"),
                (self.orphans, "without their request"),
            )
            if count
        ]
        took = f" in {span(self.last - self.first)}" if self.first is not None else ""
        clients = _plural(len(self.clients), "client")
        parts = [f"{_plural(self.exchanges, 'exchange')} of {clients}{took}: {', '.join(what)}."]
        parts.append(f"{_plural(lost, 'byte')} lost.")
        if skipped:
            parts.append(f"{_plural(skipped, 'byte')} skipped.")
        whole = self.exchanges - self.undecoded - self.orphans
        share = 100 * whole / self.exchanges if self.exchanges else 0.0
        parts.append(
            f"{'100' if whole == self.exchanges else f'{share:.1f}'} % decoded"
            + (f", {self.guessed:,} of them by a guess." if self.guessed else ".")
        )
        return " ".join(parts)

    def clean(self, captures: list[Capture]) -> bool:
        """Whether there were exchanges, and all that was there was read."""
        whole = not any(
            capture.foreign or capture.statistics.damage or any(not skip.at_end for skip in capture.skipped)
            for capture in captures
        )
        return bool(self.exchanges) and whole and not self.undecoded and not self.orphans


def notes(capture: Capture) -> list[str]:
    """Return what the reader has to say about a capture, a line each."""
    lines = []
    lines += [f"damaged at byte {damage.offset:,}: {damage.reason}" for damage in capture.statistics.damage]
    foreign: dict[tuple[str, str], list[str]] = {}
    for connection, guess in sorted(capture.foreign.items()):
        client, broker = capture.endpoints(connection)
        foreign.setdefault((broker, guess), []).append(client)
    for (broker, guess), clients in foreign.items():
        what = "is not Kafka: it looks like"
        if len(clients) > 1:
            what = f"and {len(clients) - 1:,} more connections are not Kafka: they look like"
        lines.append(f"{clients[0]} > {broker} {what} {guess}")
    reasons: Counter[tuple[str, int]] = Counter()
    for skip in capture.skipped:
        if not skip.at_end:
            reasons[skip.reason, skip.stream >> 1] += skip.size
    for (reason, connection), size in reasons.most_common(20):
        client, broker = capture.endpoints(connection)
        lines.append(f"{client} > {broker}: {_plural(size, 'byte')} skipped: {reason}")
    if capture.statistics.dropped:
        lines.append(f"{_plural(capture.statistics.dropped, 'packet')} dropped by the capturing machine")
    if not capture.statistics.tcp:
        seen = ", ".join(f"{count} {what}" for what, count in capture.statistics.not_tcp.most_common(5))
        lines.append(
            f"no TCP packets in {_plural(capture.statistics.packets, 'packet')}{f' ({seen})' if seen else ''}"
        )
    return lines


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
