"""What really happened in the recordings of ``tests/data/questions``, from the notes beside them.

``truth/NAME.json`` has what clients did, from their own clocks and callbacks (:mod:`tests.lanes.questions`); this
module never reads a recording. Times are microseconds since the epoch, on the clock that also stamped the packets.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

#: the lane checks its own recordings before it keeps them
ELSEWHERE = "KPROXY_QUESTIONS"
FOLDER = Path(os.environ.get(ELSEWHERE) or Path(__file__).resolve().parents[2] / "data" / "questions")
JOURNEYS = "45_k430_journeys"
RETRIES = "45_k430_retries"
TRANSACTIONS = "45_k430_transactions"
CRASH = "45_k430_crash"
SETTINGS = "45_k430_settings"
OLD = "45_k430_old"
REPLICAS = "45_k430_replicas"


class Place(NamedTuple):
    """The place of a record."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Worker:
    """A client.

    :ivar settings: in the notation of its library
    """

    name: str
    library: str
    role: str
    settings: dict[str, str]

    @property
    def group(self) -> str | None:
        """Its group."""
        return self.settings.get("group.id") or self.settings.get("group_id")


@dataclass(frozen=True, slots=True)
class Transaction:
    """A transaction of a producer.

    :ivar number: its number within the producer, from 1
    :ivar end: ``commit`` or ``abort``
    :ivar told: when the producer was told to end it
    :ivar done: when it had ended
    """

    worker: str
    number: int
    end: str
    told: int
    done: int


@dataclass(frozen=True, slots=True)
class WrittenRecord:
    """A record that an application sent, and that was acknowledged.

    :ivar sent: just before the call of the library
    :ivar delivered: when the delivery report came
    :ivar place: from the delivery report
    :ivar transaction: its number; None outside of transactions
    """

    key: str
    worker: str
    sent: int
    delivered: int
    place: Place
    transaction: int | None


@dataclass(frozen=True, slots=True)
class ReceivedRecord:
    """A record that an application received."""

    key: str
    worker: str
    group: str
    time: int
    place: Place


@dataclass(frozen=True, slots=True)
class Commit:
    """A successful commit.

    :ivar begun: when it was requested; None for automatic ones
    :ivar done: when it was known to have succeeded
    :ivar offsets: partition -> offset
    :ivar transaction: number of its transaction
    """

    worker: str
    group: str
    begun: int | None
    done: int
    offsets: dict[int, int]
    transaction: int | None


@dataclass(frozen=True)
class Truth:
    """The notes beside a recording."""

    name: str
    topic: str
    workers: dict[str, Worker]
    events: list[dict[str, Any]]

    @property
    def path(self) -> str:
        """The recording."""
        return str(FOLDER / f"{self.name}.pcap.zst")

    @property
    def groups(self) -> set[str]:
        """All groups that consumed."""
        return {worker.group for worker in self.workers.values() if worker.group is not None}

    @property
    def groups_of_all(self) -> set[str]:
        """Groups whose members also read records of aborted transactions."""
        careful = {
            each.group
            for each in self.workers.values()
            if each.settings.get("isolation.level") == "read_committed"
        }
        return {group for group in self.groups if group not in careful}

    def moments(self, who: str, what: str) -> list[int]:
        """Return the times at which something happened to a client."""
        return [each["t"] for each in self.events if (each["who"], each["what"]) == (who, what)]

    @cached_property
    def written(self) -> dict[str, WrittenRecord]:
        """All acknowledged records, by key."""
        sent = {each["id"]: each for each in self.events if each["what"] == "sent"}
        found = {}
        for each in self.events:
            if each["what"] == "delivered":
                begun = sent[each["id"]]
                copy = "-copy" if self.workers[each["who"]].role == "copy" else ""
                place = Place(f"{self.topic}{copy}", each["partition"], each["offset"])
                found[each["id"]] = WrittenRecord(
                    each["id"], each["who"], begun["t"], each["t"], place, begun.get("transaction")
                )
        return found

    @cached_property
    def received(self) -> dict[str, dict[Place, list[ReceivedRecord]]]:
        """The records that members of each group received, in order of time."""
        found: dict[str, dict[Place, list[ReceivedRecord]]] = defaultdict(lambda: defaultdict(list))
        for each in self.events:
            if each["what"] == "received":
                group = self.workers[each["who"]].group or ""
                place = Place(self.topic, each["partition"], each["offset"])
                found[group][place].append(ReceivedRecord(each["id"], each["who"], group, each["t"], place))
        return found

    @cached_property
    def commits(self) -> dict[str, list[Commit]]:
        """The successful commits of each group, in order of time; each once."""
        begun: dict[str, dict[str, Any]] = {}
        found: dict[str, list[Commit]] = defaultdict(list)
        for each in self.events:
            who = each["who"]
            if each["what"] == "committing":
                begun[who] = each
            elif each["what"] == "refused":
                begun.pop(who, None)
            elif each["what"] == "committed" and each["offsets"]:
                if who in begun and not each.get("ordered"):
                    continue  # the interceptor also sees explicit ones
                asked = begun.pop(who)["t"] if each.get("ordered") else None
                group = self.workers[who].group or ""
                offsets = dict(each["offsets"])
                found[group].append(Commit(who, group, asked, each["t"], offsets, each.get("transaction")))
        return found

    @cached_property
    def transactions(self) -> dict[tuple[str, int], Transaction]:
        """All transactions, by worker and number."""
        found = {}
        for worker in self.workers:
            for transaction in self._transactions(worker):
                found[worker, transaction.number] = transaction
        return found

    def _transactions(self, worker: str) -> Iterator[Transaction]:
        told: list[int] = []
        number = 0
        for each in self.events:
            if each["who"] != worker or each["what"] not in ("told", "done"):
                continue
            word = each["order"].partition(" ")[0]
            if word not in ("commit", "abort") or self.workers[worker].role == "consume":
                continue
            if each["what"] == "told":
                told.append(each["t"])
            else:
                number += 1
                yield Transaction(worker, number, word, told.pop(0), each["t"])

    def committed(self, record: WrittenRecord) -> bool:
        """Return whether a record is not part of an aborted transaction."""
        if record.transaction is None:
            return True
        return self.transactions[record.worker, record.transaction].end == "commit"

    @cached_property
    def stored(self) -> dict[str, set[Place]]:
        """Where each record is, from delivery reports and consumers: two places if it was stored twice."""
        found: dict[str, set[Place]] = defaultdict(set)
        for record in self.written.values():
            found[record.key].add(record.place)
        for places in self.received.values():
            for place, each in places.items():
                found[each[0].key].add(place)
        return found


@cache
def truth(name: str) -> Truth:
    """Return the notes beside the recording ``NAME.pcap.zst``."""
    raw = json.loads((FOLDER / "truth" / f"{name}.json").read_text(encoding="utf-8"))
    workers = {
        each["name"]: Worker(each["name"], each["library"], each["role"], each["settings"])
        for each in raw["workers"]
    }
    return Truth(name, raw["topic"], workers, sorted(raw["events"], key=lambda each: each["t"]))
