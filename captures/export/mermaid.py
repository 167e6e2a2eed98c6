"""Conversations as a Mermaid sequence diagram (https://mermaid.js.org/syntax/sequenceDiagram.html).

Clients and brokers are participants; a connection opens and closes, every exchange is an arrow there and an arrow
back with its latency. What repeats is folded: one exchange "×14", several in turn as a loop. A picture is for
reading, so it ends after a number of steps, and says how much it leaves out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TextIO

from captures.exchanges import Capture, Exchange, Flag

MAX_STEPS = 100
MAX_EXCHANGES = 20_000

_LONGEST_LOOP = 4
_LEAST_TURNS = 2
_TEXT = 90
# opening and closing of connections, and the steps that a group or a transaction is made of
_NEVER_FOLDED = frozenset({"", "JoinGroup", "SyncGroup", "LeaveGroup", "InitProducerId", "EndTxn"})
# what goes on and on: one is like the other, whatever it carries
_STEADY = frozenset({"Produce", "Fetch", "ShareFetch", "Heartbeat", "OffsetCommit"})
_NUMBER = re.compile(r"\d[\d,.]*")
_PLURAL = re.compile(r"# (\w+?)s\b")
_ESCAPES = str.maketrans(
    {"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "\n": " ", "\r": " ", "\t": " ", "%": "#37;"}
)


@dataclass(slots=True)
class _Step:
    """One exchange, or the opening or closing of a connection (``api`` empty).

    :ivar key: equal for steps that may be folded
    """

    time: int
    client: str
    broker: str
    api: str
    request: str
    response: str = ""
    arrow: str = "-->>"
    latency: int | None = None
    waited: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        """Numbers aside, what is shown: ``at offset 17`` repeats ``at offset 16``."""
        if self.api in _STEADY:
            return (
                self.client,
                self.broker,
                self.arrow,
                self.api,
                self.response if self.arrow == "--x" else "",
            )
        texts = (_PLURAL.sub(r"# \1", _NUMBER.sub("#", text)) for text in (self.request, self.response))
        return self.client, self.broker, self.arrow, *texts


@dataclass(slots=True)
class _Fold:
    """Steps that come ``turns`` times over, and for each of them what all turns have of it.

    :ivar latencies: in ns
    :ivar differ: whether request and response are not the same each time
    """

    steps: list[_Step]
    turns: int
    latencies: list[list[int]] = field(default_factory=list)
    differ: list[tuple[bool, bool]] = field(default_factory=list)


class SequenceDiagram:
    """Collects exchanges, and draws them.

    :param max_steps: steps drawn, after folding
    :param max_exchanges: exchanges taken in
    """

    def __init__(self, *, max_steps: int = MAX_STEPS, max_exchanges: int = MAX_EXCHANGES) -> None:
        self._max_steps = max_steps
        self._max_exchanges = max_exchanges
        self._steps: list[_Step] = []
        self._aliases: dict[tuple[str, str, str], str] = {}
        self._exchanges = 0
        self._left_out = 0

    def add(self, capture: Capture, exchanges: Iterable[Exchange]) -> int:
        """Take in exchanges of a capture, made with their gists; return how many."""
        count = 0
        connections: dict[int, tuple[str, str]] = {}
        for exchange in exchanges:
            count += 1
            if self._exchanges == self._max_exchanges:
                self._left_out += 1
                continue
            self._exchanges += 1
            ends = connections.get(exchange.connection)
            if ends is None:
                ends = connections[exchange.connection] = self._participants(exchange)
                self._opening(capture, exchange, ends)
            self._steps.append(_exchange_step(exchange, ends))
        for connection, ends in connections.items():
            self._closing(capture, connection, ends)
        return count

    def write(self, file: TextIO) -> None:
        """Write the diagram."""
        file.writelines(f"{line}\n" for line in self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the diagram."""
        yield "sequenceDiagram"
        for (kind, name, address), alias in self._aliases.items():
            label = _text(name) if name == address else f"{_text(name)}<br/>{_text(address)}"
            yield f"    {'actor' if kind == 'client' else 'participant'} {alias} as {label}"
        drawn = 0
        self._steps.sort(key=lambda step: step.time)
        folds = _folded(self._steps)
        for index, fold in enumerate(folds):
            if drawn + len(fold.steps) > self._max_steps:
                rest = sum(len(each.steps) * each.turns for each in folds[index:])
                yield from self._note(f"{rest:,} more steps are left out")
                break
            drawn += len(fold.steps)
            yield from _drawn(fold)
        if self._left_out:
            yield from self._note(f"{self._left_out:,} later exchanges are left out")

    def _note(self, text: str) -> Iterator[str]:
        names = list(self._aliases.values())
        yield f"    Note over {names[0]},{names[-1]}: {_text(text)}"

    # ------------------------------------------------------------ what takes part
    def _participants(self, exchange: Exchange) -> tuple[str, str]:
        host = next(iter(exchange.client_names), exchange.client.rpartition(":")[0])
        client = ("client", exchange.client_id or host, host)
        broker = ("broker", exchange.shown_broker, exchange.shown_broker)
        return self._alias(client, "C"), self._alias(broker, "B")

    def _alias(self, participant: tuple[str, str, str], letter: str) -> str:
        known = self._aliases.get(participant)
        if known is None:
            count = sum(alias[0] == letter for alias in self._aliases.values())
            known = self._aliases[participant] = f"{letter}{count + 1}"
        return known

    def _opening(self, capture: Capture, exchange: Exchange, ends: tuple[str, str]) -> None:
        connections = capture.connections
        opened = int(connections.syn_time[exchange.connection])
        if opened < 0:
            return
        delay = int(connections.handshake[exchange.connection])
        port = exchange.client.rpartition(":")[2]
        step = _Step(opened, *ends, "", f"TCP connect from port {port}", arrow="->>")
        if delay >= 0:
            step.request += f" ({_latency([delay])})"
        self._steps.append(step)

    def _closing(self, capture: Capture, connection: int, ends: tuple[str, str]) -> None:
        streams, client = capture.connections.streams, capture.client_stream(connection)
        port = capture.endpoints(connection)[0].rpartition(":")[2]
        found = [
            (int(times[client ^ side]), what, side)
            for what, times in (("closes", streams.fin_time), ("resets", streams.reset_time))
            for side in (0, 1)
            if times[client ^ side] >= 0
        ]
        if found:
            time, what, side = min(found)
            text = f"{what} the connection from port {port}"
            one, other = ends if side == 0 else ends[::-1]
            self._steps.append(_Step(time, one, other, "", text, arrow="-x" if what == "resets" else "->>"))


def _exchange_step(exchange: Exchange, ends: tuple[str, str]) -> _Step:
    version = "" if exchange.version is None else f" v{exchange.version}"
    request = " ".join(filter(None, [f"{exchange.api}{version}", exchange.gist[0]]))
    step = _Step(exchange.time, *ends, exchange.api, request, exchange.gist[1])
    step.latency, step.waited = exchange.latency, bool(exchange.wait)
    if Flag.NO_RESPONSE_EXPECTED in exchange.flag and not exchange.response_size:
        step.arrow = ""
    elif Flag.UNANSWERED in exchange.flag:
        step.arrow, step.response = "--x", "no answer"
    elif Flag.ORPHAN in exchange.flag:
        step.request, step.response = "", "answer to a request that was not captured"
    elif len(exchange.errors) > len(exchange.expected):
        step.arrow = "--x"
    return step


# ---------------------------------------------------------------- folding
def _folded(steps: list[_Step]) -> list[_Fold]:
    """Fold what repeats, the shortest pattern first."""
    keys = [(str(at),) if step.api in _NEVER_FOLDED else step.key for at, step in enumerate(steps)]
    folds: list[_Fold] = []
    at = 0
    while at < len(steps):
        length, turns = _repetition(keys, at)
        fold = _Fold(steps[at : at + length], turns)
        for offset in range(length):
            every = steps[at + offset : at + length * turns : length]
            fold.latencies.append([step.latency for step in every if step.latency is not None])
            requests, responses = {step.request for step in every}, {step.response for step in every}
            fold.differ.append((len(requests) > 1, len(responses) > 1))
        folds.append(fold)
        at += length * turns
    return folds


def _repetition(keys: list[tuple[str, ...]], at: int) -> tuple[int, int]:
    """Return the length of the pattern that begins here, and how often it comes."""
    for length in range(1, _LONGEST_LOOP + 1):
        pattern = keys[at : at + length]
        turns = 1
        while keys[at + turns * length : at + (turns + 1) * length] == pattern:
            turns += 1
        if turns >= _LEAST_TURNS:
            return length, turns
    return 1, 1


# ---------------------------------------------------------------- drawing
def _drawn(fold: _Fold) -> Iterator[str]:
    if fold.turns == 1 or len(fold.steps) == 1:
        yield from _arrows(fold, 0, fold.turns, "    ")
        return
    yield f"    loop {fold.turns} times"
    for index in range(len(fold.steps)):
        yield from _arrows(fold, index, 1, "        ")
    yield "    end"


def _arrows(fold: _Fold, index: int, turns: int, indent: str) -> Iterator[str]:
    step, latencies, differ = fold.steps[index], fold.latencies[index], fold.differ[index]
    if not step.api:
        yield f"{indent}{step.client}{step.arrow}{step.broker}: {_text(step.request)}"
        return
    times = f" ×{turns}" if turns > 1 else ""
    if step.request:
        yield f"{indent}{step.client}->>{step.broker}: {_text(step.request, more=differ[0])}{times}"
    if step.arrow:
        waited = ", waits by design" if step.waited else ""
        latency = f" ({_latency(latencies)}{waited})" if latencies else ""
        answer = _text(step.response or "answer", more=differ[1])
        yield f"{indent}{step.broker}{step.arrow}{step.client}: {answer}{latency}"


def _latency(nanoseconds: list[int]) -> str:
    """Return a latency or a range of them in ms: ``1.2 ms``, ``0.8 to 3,012 ms``."""
    low, high = _milliseconds(min(nanoseconds)), _milliseconds(max(nanoseconds))
    return f"{low} ms" if low == high else f"{low} to {high} ms"


def _milliseconds(nanoseconds: int) -> str:
    value = nanoseconds / 1_000_000
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 0.1 else f"{value:.3f}"


def _text(text: str, *, more: bool = False) -> str:
    """Return text that Mermaid takes for text, with an ellipsis if there is more to it."""
    if len(text) > _TEXT:
        text, more = text[: _TEXT - 1], True
    return text.translate(_ESCAPES) + ("…" if more else "")
