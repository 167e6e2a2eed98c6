"""Conversations as a Mermaid sequence diagram (https://mermaid.js.org/syntax/sequenceDiagram.html).

Clients and brokers are participants. A connection opens and closes; every exchange is an arrow there and an arrow back
with its latency. Repetitions are folded: one exchange "×14", several in turn as a loop. To stay readable, the diagram
ends after a number of steps and says how many it leaves out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from captures.analysis.conversation import (
    Fold,
    Kind,
    Outcome,
    Participant,
    Step,
    closing,
    exchange_step,
    folded,
    opening,
    participants,
)
from captures.exchanges import Capture, Exchange
from captures.meaning import words
from captures.time_format import milliseconds_range

MAX_STEPS = 100
MAX_EXCHANGES = 20_000

_TEXT = 90
_SPACES = str.maketrans("\n\r\t", "   ")
_ESCAPES = str.maketrans({"#": "#35;", ";": "#59;", "<": "#lt;", ">": "#gt;", "%": "#37;"})
_FAILED = frozenset({Outcome.ERROR, Outcome.UNANSWERED})


class SequenceDiagram:
    """Collects exchanges and draws them.

    :param max_steps: most steps drawn, after folding
    :param max_exchanges: most exchanges kept
    """

    def __init__(self, *, max_steps: int = MAX_STEPS, max_exchanges: int = MAX_EXCHANGES) -> None:
        self._max_steps = max_steps
        self._max_exchanges = max_exchanges
        self._steps: list[Step] = []
        self._aliases: dict[Participant, str] = {}
        self._exchanges = 0
        self._left_out = 0

    def add(self, capture: Capture, exchanges: Iterable[Exchange]) -> int:
        """Add exchanges of a capture, read with their summaries; return how many were given."""
        count = 0
        connections: dict[int, tuple[Participant, Participant]] = {}
        for exchange in exchanges:
            count += 1
            if self._exchanges == self._max_exchanges:
                self._left_out += 1
                continue
            self._exchanges += 1
            try:
                self._take(capture, exchange, connections)
            except Exception as error:
                capture.faults.note(error, "drawing it", exchange.number)
        for connection, ends in connections.items():
            self._add(closing(capture, connection, ends))
        return count

    def _take(
        self,
        capture: Capture,
        exchange: Exchange,
        connections: dict[int, tuple[Participant, Participant]],
    ) -> None:
        ends = connections.get(exchange.connection)
        if ends is None:
            ends = connections[exchange.connection] = participants(exchange)
            for end in ends:
                self._name(end)
            self._add(opening(capture, exchange.connection, ends))
        self._add(exchange_step(exchange, ends, exchange.summary))

    def _add(self, step: Step | None) -> None:
        if step is not None:
            self._steps.append(step)

    def _name(self, participant: Participant) -> None:
        if participant not in self._aliases:
            same = sum(each.is_client is participant.is_client for each in self._aliases)
            self._aliases[participant] = f"{'C' if participant.is_client else 'B'}{same + 1}"

    def write(self, file: TextIO) -> None:
        """Write the diagram."""
        file.writelines(f"{line}\n" for line in self.lines())

    def lines(self) -> Iterator[str]:
        """Yield the lines of the diagram."""
        yield "sequenceDiagram"
        for participant, alias in self._aliases.items():
            name, address = escaped(participant.name), escaped(participant.address)
            label = name if participant.name == participant.address else f"{name}<br/>{address}"
            yield f"    {'actor' if participant.is_client else 'participant'} {alias} as {label}"
        drawn = 0
        folds = folded(self._steps)
        for index, fold in enumerate(folds):
            if drawn + fold.length > self._max_steps:
                rest = sum(len(each.every) for each in folds[index:])
                yield from self._note(f"{rest:,} more steps are left out")
                break
            drawn += fold.length
            yield from self._drawn(fold)
        if self._left_out:
            yield from self._note(f"{self._left_out:,} later exchanges are left out")

    def _note(self, text: str) -> Iterator[str]:
        names = list(self._aliases.values())
        yield f"    Note over {names[0]},{names[-1]}: {escaped(text)}"

    def _drawn(self, fold: Fold) -> Iterator[str]:
        if fold.turns == 1 or fold.length == 1:
            yield from self._arrows(fold, 0, fold.turns, "    ")
            return
        yield f"    loop {fold.turns} times"
        for index in range(fold.length):
            yield from self._arrows(fold, index, 1, "        ")
        yield "    end"

    def _arrows(self, fold: Fold, index: int, turns: int, indent: str) -> Iterator[str]:
        step = fold.steps[index]
        client, broker = self._aliases[step.client], self._aliases[step.broker]
        if step.kind is not Kind.EXCHANGE:
            one, other = (broker, client) if step.by_broker else (client, broker)
            took = "" if step.latency is None else f" ({milliseconds_range([step.latency])})"
            yield f"{indent}{one}{'-x' if step.kind is Kind.RESET else '->>'}{other}: {escaped(step.request + took)}"
            return
        differ, latencies = fold.differ(index), fold.latencies(index)
        times = f" ×{turns}" if turns > 1 else ""
        if step.request:
            yield f"{indent}{client}->>{broker}: {escaped(step.request, more=differ[0])}{times}"
        if step.outcome not in (Outcome.NONE_DUE, Outcome.IN_FLIGHT):
            waited = ", waits by design" if step.waited else ""
            latency = f" ({milliseconds_range(latencies)}{waited})" if latencies else ""
            answer = escaped(step.response or "answer", more=differ[1])
            arrow = "--x" if step.outcome in _FAILED else "-->>"
            yield f"{indent}{broker}{arrow}{client}: {answer}{latency}"


def escaped(text: str, *, more: bool = False) -> str:
    """Return text that Mermaid takes literally and terminals can show, with an ellipsis if shortened or `more`."""
    if len(text) > _TEXT:
        text, more = text[: _TEXT - 1], True
    return words.line(text.translate(_SPACES)).translate(_ESCAPES) + ("…" if more else "")
