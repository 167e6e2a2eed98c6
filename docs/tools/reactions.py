"""The page about the reactions of client libraries to fault rules. Made from ``reactions.json``.

``python -m tests.lanes.reactions --write`` writes that file: ``libraries``, their versions by name, and
``reactions``: rule -> library -> reaction.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "reactions.json"
PAGE = "reactions.md"

_INTRO = """# What clients do when a fault strikes

Producers and consumers of {libraries},
each through `kproxy proxy` to one real broker. One rule after the other ([faults.md](faults.md)) strikes each of them;
`python -m tests.lanes.reactions --write` repeats it and updates this page. The producer is idempotent (acks=all) and
sends a record every 20 ms; the consumer reads them in a group. Settings are the defaults of the libraries,
but for `auto.offset.reset=earliest`, a session timeout of 6 s, heartbeats every second and read_committed
(kafka-python, aiokafka), and a delivery timeout of 5 min (librdkafka, kafka-python).

*goes on*: records flow again within a second, and the application notices nothing. *after 2.0 s*: the longest time in
which no record was acknowledged, or none consumed. An error by its name in the library: the application got it, for a
record or while polling, and went on. *no more*: nothing for 90 s, or 30 s after an error, and the rule had ended: the
application has to make a new one. For Java these are Kafka's VerifiableProducer, and
VerifiableConsumer, which ends at an error. *sends none*: no such request came meanwhile. A consumer that only waits for
the producer is not listed. A client that recovers goes on to the next rule, so an effect that comes minutes later would
be shown beside a later one."""

_NOTICED_S = 1.0
"""Shorter pauses happen without any fault."""
_ALWAYS = 50
"""An error that an application gets so often does not end."""


@dataclass(frozen=True)
class Reaction:
    """The reaction of a library's producer and consumer after a rule takes effect.

    :ivar hits: number of frames that the rule matched
    :ivar produce: the longest time in s without an acknowledged record; None if producing stopped for good
    :ivar consume: the longest time in s without a consumed record; None if consuming stopped for good
    :ivar failures: errors that the library reported to the application -> how often
    """

    hits: int
    produce: float | None
    consume: float | None
    failures: Mapping[str, int]

    @property
    def text(self) -> str:
        """The reaction as a cell of the table."""
        if not self.hits:
            return "sends none"
        pauses = [_pause("produces", self.produce)]
        if self.produce is not None and (self.consume is None or self.consume > self.produce + _NOTICED_S):
            pauses.append(_pause("consumes", self.consume))  # otherwise it only waited for the producer
        errors = ", ".join(
            f"`{name}` {f'{count}×' if count < _ALWAYS else 'each time'}"
            for name, count in sorted(self.failures.items())
        )
        return "; ".join(filter(None, [*pauses, errors])) or "goes on"


def _pause(does: str, pause: float | None) -> str:
    if pause is None:
        return f"**{does} no more**"
    return f"{does} after {pause:.1f} s" if pause >= _NOTICED_S else ""


def page() -> str:
    """Return the page: a row per rule, a column per library."""
    kept = json.loads(RESULTS.read_text())
    versions: dict[str, str] = kept["libraries"]
    reactions = {
        rule: {name: Reaction(**each) for name, each in row.items()}
        for rule, row in kept["reactions"].items()
    }
    return f"{_INTRO.format(libraries=', '.join(versions.values()))}\n\n{table(reactions)}\n"


def table(reactions: Mapping[str, Mapping[str, Reaction]]) -> str:
    """Return the table of reactions by rule and library."""
    libraries = list(next(iter(reactions.values())))
    head = [f"| rule | {' | '.join(libraries)} |", "|---" * (1 + len(libraries)) + "|"]
    rows = (
        f"| `{rule}` | {' | '.join(each.text for each in row.values())} |" for rule, row in reactions.items()
    )
    return "\n".join([*head, *rows])
