"""Common parts of the Python programs in this folder: arguments, output, and exit.

Each program, in whatever language, runs in one of two modes and prints JSON, one object per line:

``PROGRAM errand BOOTSTRAP TOPIC COUNT``
    creates the topic, describes the cluster and the topic's configuration, produces COUNT records, as many in a
    committed transaction and as many in an aborted one, consumes the committed ones in a group (named like the
    topic) of two members, lists and describes groups, deletes the topic. Prints ``{"brokers": [[node ID, host,
    port], ...], "members": of the group, "consumed": [values]}``. Operations that a library lacks are left out:
    ``CLIENTS`` in ``tests/lanes/through.py`` names them, with reasons.

``PROGRAM endure BOOTSTRAP TOPIC``
    produces a record every 20 ms (acks=all, idempotent) and consumes them in a group, through all failures, and
    prints ``{"acknowledged": count, "consumed": count of distinct ones, "failures": {error: count}}`` ten times per
    second: failures are records that the producer gave up and errors that the consumer raised, by the library's
    names. At the end of standard input it stops producing; it exits when it has consumed every acknowledged record,
    or after a minute, and finally prints the numbers of the ``"missed"`` ones.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

KINDS = ("plain", "committed", "aborted")
PAUSE_S = 0.02

_REPORT_S = 0.1
_PATIENCE_S = 60


def values(kind: str, count: int) -> list[str]:
    return [f"{kind} {number}" for number in range(count)]


def committed(count: int) -> set[str]:
    """Return the values that a consumer must see."""
    return {*values("plain", count), *values("committed", count)}


def say(**facts: Any) -> None:
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


class Group:
    """Two members of a group that keep polling until the group has been described: a rebalance needs both.

    :ivar seen: values that either has consumed
    """

    SIZE = 2

    def __init__(self, wanted: set[str]) -> None:
        self.seen: set[str] = set()
        self.left = False
        self._wanted = wanted
        self._assigned: set[int] = set()
        self._deadline = time.monotonic() + _PATIENCE_S

    def note(self, member: object, assigned: bool, values: Iterable[bytes]) -> None:
        """Record the assignment of a member and its consumed values."""
        if assigned:
            self._assigned.add(id(member))
        self.seen |= {value.decode() for value in values}

    @property
    def waiting(self) -> bool:
        """Whether a value, or the first assignment of a member, is still missing."""
        complete = len(self._assigned) == self.SIZE and self._wanted <= self.seen
        return not complete and time.monotonic() < self._deadline


class Endurance:
    """Counts and reports acknowledged and consumed records, and determines when to stop."""

    def __init__(self) -> None:
        self.acknowledged: set[int] = set()
        self.consumed: set[int] = set()
        self.failures: Counter[str] = Counter()
        self._asked_to_stop: float | None = None
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._report, daemon=True).start()

    def _listen(self) -> None:
        sys.stdin.read()
        self._asked_to_stop = time.monotonic()

    def _report(self) -> None:
        while True:
            time.sleep(_REPORT_S)
            failures = dict(self.failures.copy())
            say(acknowledged=len(self.acknowledged), consumed=len(self.consumed), failures=failures)

    def fail(self, error: object) -> None:
        """Count an error that the library reported to the application."""
        self.failures[error if isinstance(error, str) else type(error).__name__] += 1

    @property
    def producing(self) -> bool:
        return self._asked_to_stop is None

    @property
    def missed(self) -> set[int]:
        return self.acknowledged.copy() - self.consumed.copy()

    @property
    def consuming(self) -> bool:
        if self._asked_to_stop is None:
            return True
        return bool(self.missed) and time.monotonic() < self._asked_to_stop + _PATIENCE_S

    def close(self) -> None:
        say(missed=sorted(self.missed))
