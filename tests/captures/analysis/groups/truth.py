"""The rebalances that happened in the recordings of ``tests/data/groups``, derived from the notes beside them.

``truth/NAME.json`` has what was done to whom and when, the listener events of clients, and, for recordings of Kafka 3.9
and 4.x, the lines of the coordinator's own log. :func:`rebalances` derives a list of :class:`ExpectedRebalance` from it
and never reads the recording: from the log (:mod:`.by_log`, :mod:`.by_epochs`) or, for brokers that logged nothing,
from the events (:mod:`.by_events`). Anything in neither is in :data:`EXCEPTIONS`, each with its reason.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from captures.analysis.groups.model import TopicPartition
from captures.analysis.groups.vocabulary import TimeoutCause, Trigger

FOLDER = Path(__file__).resolve().parents[3] / "data" / "groups"
SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class TruthEvent:
    """A cause of a rebalance.

    :ivar who: names of the candidate clients, one of which caused or suffered it; empty for none
    :ivar member: member ID, if the log has it
    :ivar why: for a session timeout, what was done to the member; None if nothing was, or for other causes
    :ivar told: whether a message on the wire names it; otherwise nobody can be sure
    """

    trigger: Trigger
    who: frozenset[str] = frozenset()
    member: str = ""
    why: TimeoutCause | None = None
    told: bool = True


@dataclass(slots=True, kw_only=True)
class ExpectedRebalance:
    """A rebalance that happened.

    :ivar generation: the resulting generation or epoch; None if unknown, or if it did not end
    :ivar causes: its causes, the one that opened it first
    :ivar openers: number of causes that may be reported as the one that opened it
    :ivar perhaps: additional causes that may be reported
    :ivar earliest: earliest beginning, in seconds since the epoch
    :ivar latest: latest beginning, likewise
    :ivar size: members after it; None if unknown
    :ivar assigned: name of a client -> its partitions afterwards by its listener, for clients that reported any
    """

    generation: int | None
    causes: list[TruthEvent]
    earliest: float
    latest: float
    openers: int = 1
    perhaps: list[TruthEvent] = field(default_factory=list)
    size: int | None = None
    emptied: bool = False
    running: bool = False
    assigned: dict[str, frozenset[TopicPartition]] = field(default_factory=dict)

    def __str__(self) -> str:
        others = "".join(f" + {each.trigger} {'/'.join(sorted(each.who))}" for each in self.causes[1:])
        first = self.causes[0]
        state = " emptied" if self.emptied else " running" if self.running else ""
        return (
            f"{self.generation}: {self.earliest:.3f}..{self.latest:.3f} {first.trigger} "
            f"{'/'.join(sorted(first.who))}{others}{state} size {self.size}"
        )


@dataclass(slots=True)
class Truth:
    """The notes beside a recording."""

    name: str
    group: str
    events: list[dict[str, Any]]
    log: list[tuple[float, str]]
    session_timeout: float
    static: bool
    cooperative: bool
    topic: str
    other_logs: dict[str, list[tuple[float, str]]] = field(default_factory=dict)

    def instance(self, who: str) -> str:
        """Return the instance ID of a client, or else its name: a static member is known by the former."""
        return next((name for name, each, _ in self._instances() if each == who), who)

    def called(self, client: str, instance: str | None) -> str:
        """Return what :meth:`instance` returns, for a member as named on the wire."""
        known = {each for each, _, _ in self._instances()}
        return instance if instance in known else client.partition("-StreamThread")[0]

    def of_instance(self, instance: str, time: float, *, place: int = 0) -> str:
        """Return the client that had an instance ID at a time; the ID itself if no client had it.

        :param place: 1 for the previous one
        """
        given = [
            each for name, each, since in reversed(self._instances()) if name == instance and since <= time
        ]
        return given[place] if place < len(given) else instance

    def memberships(self, who: str, time: float) -> bool:
        """Return whether the process of a client runs at a time, and has not been asked to end."""
        done = [event["what"] for event in self.events if event["t"] <= time and event.get("who") == who]
        spawned = [place for place, what in enumerate(done) if what == "spawn"]
        return bool(spawned) and not set(done[spawned[-1] :]) & {"SIGKILL", "clean close", "process ended"}

    def _instances(self) -> list[tuple[str, str, float]]:
        return [
            (setting.partition("=")[2], event["who"], event["t"])
            for event in self.events
            for setting in event.get("config", ())
            if setting.startswith("group.instance.id=")
        ]

    def process_names(self) -> dict[str, str]:
        """Return the name under which something was done to a process -> the client's own name."""
        started = {event["who"] for event in self.events if event["what"].split()[0] in ("start", "starting")}
        names = {name: name for name in started}
        for event in self.events:
            name = event.get("who", "")
            if name and name not in started and (short := name.rstrip("0123456789")) in started:
                names[name] = short
        return names


@cache
def read(name: str, folder: Path = FOLDER) -> Truth:
    """Return the notes beside the recording ``NAME.pcap.zst``."""
    raw = json.loads((folder / "truth" / f"{name}.json").read_text(encoding="utf-8"))
    return Truth(
        name=name,
        group=raw["group"],
        events=sorted(raw["events"], key=lambda event: event["t"]),
        log=_lines(raw.get("broker_log", [])),
        session_timeout=raw.get("session_timeout_ms", 6000) / 1000,
        static=bool(raw.get("static_members")),
        cooperative="Cooperative" in raw.get("assignor", ""),
        topic=raw.get("topic", ""),
        other_logs={group: _lines(log) for group, log in raw.get("other_logs", {}).items()},
    )


def _lines(log: list[dict[str, Any]]) -> list[tuple[float, str]]:
    return [(line["t"], line["line"]) for line in log]


def silenced(truth: Truth, who: frozenset[str], since: float, until: float) -> TimeoutCause | None:
    """Return what silenced a client between two times; None if nothing did."""
    names = truth.process_names()
    latest = None
    for event in truth.events:
        if not since <= event["t"] <= until:
            continue
        if names.get(event.get("who", "")) in who:
            if event["what"] == "SIGKILL":
                latest = TimeoutCause.PROCESS_DIED
            elif event["what"] == "process ended" and latest is not TimeoutCause.PROCESS_DIED:
                latest = TimeoutCause.CLOSED_IN_ORDER
            elif event["what"] == "SIGSTOP":
                latest = TimeoutCause.PROCESS_PAUSED
            elif event["what"] in ("host gone", "network gone"):
                latest = TimeoutCause.UNREACHABLE
            elif event["what"] == "host suspended":
                latest = TimeoutCause.HOST_SUSPENDED
            elif event["what"] in ("SIGCONT", "network back", "host resumed"):
                latest = None
        elif event["who"].startswith(("node", "broker ")) and event["what"] in ("SIGTERM", "SIGKILL"):
            latest = latest or TimeoutCause.BROKER_GONE
    return latest


def is_slow(truth: Truth, who: frozenset[str], time: float) -> bool:
    """Return whether the application of a client was busy at a time, and did not poll."""
    slow = False
    for event in truth.events:
        if event["t"] <= time and event.get("who") in who:
            slow = {"slow-begin": True, "slow-end": False}.get(event["what"], slow)
    return slow


# ---------------------------------------------------------------- listener events
def places(said: str) -> frozenset[TopicPartition]:
    """Return the partitions in a listener event, in the format of any client."""
    if said.startswith("{"):
        told = json.loads(said).get("memberAssignment", {})
        return frozenset(
            TopicPartition(topic, number) for topic, numbers in told.items() for number in numbers
        )
    if said.startswith("map["):
        found = re.findall(r"([\w.-]+):\[([\d ]*)\]", said)
        return frozenset(
            TopicPartition(topic, int(number)) for topic, numbers in found for number in numbers.split()
        )
    listed = said.partition("]")[0]
    if "(" in listed:
        return frozenset(
            TopicPartition(topic, int(number))
            for topic, number in re.findall(r"\('([^']+)', (\d+)\)", listed)
        )
    return frozenset(
        TopicPartition(topic, int(number))
        for topic, number in re.findall(r"([\w.-]+)-(\d+)(?=[',]|$)", listed)
    )


@dataclass(frozen=True, slots=True)
class Said:
    """A listener event: a client's new partitions, and all that it has now.

    :ivar gave_up: partitions given up since its last event
    """

    time: float
    who: str
    has: frozenset[TopicPartition]
    gave_up: frozenset[TopicPartition]


def said(truth: Truth) -> list[Said]:
    """Return the listener events in order of time."""
    has: dict[str, frozenset[TopicPartition]] = {}
    gave_up: dict[str, frozenset[TopicPartition]] = {}
    found = []
    for time, who, what, rest in _told_by_clients(truth):
        before = has.get(who, frozenset())
        if what in ("start", "rebalancing"):
            has[who], gave_up[who] = frozenset(), frozenset()
        elif what in ("revoked", "lost"):
            has[who] = before - places(rest)
            gave_up[who] = gave_up.get(who, frozenset()) | (before & places(rest))
        elif what == "assigned":
            has[who] = before | places(rest)
            found.append(Said(time, who, has[who], gave_up.get(who, frozenset())))
            gave_up[who] = frozenset()
    return found


def _told_by_clients(truth: Truth) -> list[tuple[float, str, str, str]]:
    told = []
    for event in truth.events:
        what, rest = event["what"], str(event.get("data", ""))
        if what == "log":
            what, _, rest = event["line"].partition(" ")
        told.append((event["t"], event.get("who", ""), what, rest))
    return told
