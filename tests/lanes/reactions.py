"""Reactions of client libraries to fault rules: ``python -m tests.lanes.reactions``.

    python -m tests.lanes.reactions                            # all rules, prints the table of docs/reactions.md
    python -m tests.lanes.reactions --write                    # and stores it: docs/reactions.json
    python -m tests.lanes.reactions --clients aiokafka 'Produce drop'    # rules whose name contains these words

Each client produces and consumes through its own proxy, to one broker, while one rule after the other applies. A pause
is the longest time without an acknowledged, or without a consumed, record after the start of the rule; the errors that
the library reports to the application are counted as well. A client that has not recovered after 90 s, or 30 s after an
error, is restarted. Its requests are in the proxy's capture.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import click

from docs.tools.reactions import RESULTS, Reaction, table
from kproxy.proxy.rules.outages import MANNERS
from tests.lanes.broker import Broker
from tests.lanes.kproxy_run import Kproxy
from tests.lanes.through import CLIENTS, Command, Endurer, JavaEndurer, ProgramEndurer
from tests.lanes.tools import CannotRun, wait_for

LIBRARIES = ("java", "confluent-kafka", "kafka-python", "aiokafka")

RULES = (
    *(
        f"api == Produce => error {error}, count=3"
        for error in (
            "NOT_LEADER_OR_FOLLOWER",
            "UNKNOWN_TOPIC_OR_PARTITION",
            "REQUEST_TIMED_OUT",
            "NOT_ENOUGH_REPLICAS",
            "KAFKA_STORAGE_ERROR",
            "CORRUPT_MESSAGE",
            "MESSAGE_TOO_LARGE",
            "TOPIC_AUTHORIZATION_FAILED",
            "OUT_OF_ORDER_SEQUENCE_NUMBER",
            "INVALID_PRODUCER_EPOCH",
            "UNKNOWN_SERVER_ERROR",
        )
    ),
    *(
        f"api == Fetch => error {error}, count=3"
        for error in (
            "NOT_LEADER_OR_FOLLOWER",
            "FENCED_LEADER_EPOCH",
            "OFFSET_OUT_OF_RANGE",
            "KAFKA_STORAGE_ERROR",
            "CORRUPT_MESSAGE",
            "FETCH_SESSION_ID_NOT_FOUND",
            "TOPIC_AUTHORIZATION_FAILED",
        )
    ),
    *(
        f"api == Heartbeat => error {error}, count=1"
        for error in (
            "REBALANCE_IN_PROGRESS",
            "ILLEGAL_GENERATION",
            "UNKNOWN_MEMBER_ID",
            "NOT_COORDINATOR",
            "COORDINATOR_LOAD_IN_PROGRESS",
            "GROUP_AUTHORIZATION_FAILED",
        )
    ),
    *(
        f"api == OffsetCommit => error {error}, count=1"
        for error in ("NOT_COORDINATOR", "REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID")
    ),
    *(
        f"api == {api} => {action}, count=1"
        for api in ("Produce", "Fetch")
        for action in ("delay 2s", "drop", "reset", "truncate 8", "blackhole")
    ),
    "api == Heartbeat => delay 5s, count=1",
    *(f"broker 1 down {manner}, for=5s" for manner in MANNERS),
)
"""Rules with `count` end by themselves; a blackhole lasts until the client gives up its connection."""

_RECOVERY_S = 90.0
_RECOVERY_FROM_ERROR_S = 30.0
"""Less than after other faults: a client that gets a response does not wait for a timeout."""
_CALM_S = 1.5
"""A client has recovered after making progress for so long without a pause."""
_AFTER_S = 4.0
"""Minimum observation time after each rule: sessions and metadata have delayed effects."""
_LOST_S = 10.0
_SAMPLE_S = 0.02


class Progress:
    """The pauses of a growing counter.

    :ivar pause: the longest time without growth, in s
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._began = self._last = self._calm_since = time.monotonic()
        self._seen = count()
        self.pause = 0.0

    def look(self) -> None:
        """Sample the counter."""
        now = time.monotonic()
        self.pause = max(self.pause, now - self._last)
        if now - self._last > _CALM_S / 2:
            self._calm_since = now
        if (count := self._count()) > self._seen:
            self._seen, self._last = count, now

    @property
    def watched(self) -> float:
        """Observation time so far, in s."""
        return time.monotonic() - self._began

    @property
    def calm(self) -> bool:
        """Whether the observation was long enough, and the counter has grown steadily of late."""
        return self.watched > _AFTER_S and time.monotonic() - self._calm_since > _CALM_S

    @property
    def result(self) -> float | None:
        """The longest pause in s; None if it has not ended."""
        return None if time.monotonic() - self._last > _LOST_S else round(self.pause, 1)


class Subject:
    """A running client with its own proxy."""

    def __init__(self, name: str, command: Command, bootstrap: str, work: Path) -> None:
        self.name = name
        self._command = command
        self._work = work / name
        self._kproxy = Kproxy(bootstrap, self._work, awaited=1)
        self._kproxy.start()
        self._starts = 0
        self._client = self._started()

    def _started(self) -> Endurer:
        """Start the client, and wait until it produces and consumes."""
        self._starts += 1
        topic = f"{self.name}-{self._starts}"
        address = self._kproxy.address
        client: Endurer
        if self.name == "java":
            client = JavaEndurer(self.name, address, topic, self._work)
        else:
            client = ProgramEndurer(self.name, self._command, address, topic, self._work)
        wait_for(f"{self.name} at work", lambda: min(client.acknowledged, client.consumed) > 100)
        return client

    def react(self, rule: str) -> Reaction:
        """Apply a rule, and observe the client until it has recovered."""
        client, before = self._client, Counter(self._client.failures)
        number = self._kproxy.ask("add_rule", control=True, rule=rule)["number"]
        produced, consumed = Progress(lambda: client.acknowledged), Progress(lambda: client.consumed)
        while not (recovered := produced.calm and consumed.calm and self._state(number)["ended"]):
            if produced.watched > (_RECOVERY_FROM_ERROR_S if "=> error" in rule else _RECOVERY_S):
                break
            time.sleep(_SAMPLE_S)
            produced.look()
            consumed.look()
        hits = self._state(number)["hits"]
        self._kproxy.ask("remove_rule", control=True, number=number)
        failures = dict(Counter(client.failures) - before)
        if not recovered:
            client.kill()
            self._client = self._started()
        return Reaction(hits, produced.result, consumed.result, failures)

    def _state(self, number: int) -> dict[str, Any]:
        rules: list[dict[str, Any]] = self._kproxy.ask("rules")["rules"]
        return next(rule for rule in rules if rule["number"] == number)

    def close(self) -> None:
        self._client.kill()
        self._kproxy.kill()


def _prepared(names: tuple[str, ...]) -> dict[str, Command]:
    commands = {}
    for name in names:
        commands[name] = CLIENTS[name].prepare()
        click.echo(f"{name}: {CLIENTS[name].versions}", err=True)
    return commands


@click.command()
@click.argument("words", nargs=-1)
@click.option("--clients", default=",".join(LIBRARIES), metavar="NAME,...")
@click.option("--write", is_flag=True, help=f"Keep the results in {RESULTS.name}.")
def main(words: tuple[str, ...], clients: str, write: bool) -> None:
    """Observe the reactions of clients to all rules, or those whose text contains one of WORDS."""
    rules = [rule for rule in RULES if not words or any(word in rule for word in words)]
    work = Path(tempfile.mkdtemp(prefix="kproxy-reactions-"))
    try:
        commands = _prepared(tuple(clients.split(",")))
        with Broker(work / "broker", {"PLAINTEXT": "PLAINTEXT"}) as broker:
            bootstrap = broker.address("PLAINTEXT")

            def watched(name: str) -> dict[str, Reaction]:
                subject = Subject(name, commands[name], bootstrap, work)
                try:
                    reactions = {}
                    for rule in rules:
                        reactions[rule] = subject.react(rule)
                        click.echo(f"{name}: {rule}: {reactions[rule].text}", err=True)
                    return reactions
                finally:
                    subject.close()

            with ThreadPoolExecutor() as pool:
                found = dict(zip(commands, pool.map(watched, commands), strict=True))
    except CannotRun as why:
        raise click.ClickException(f"the lane cannot run here: {why}") from None
    by_rule = {rule: {name: found[name][rule] for name in found} for rule in rules}
    click.echo(table(by_rule))
    if write:
        kept = {
            "libraries": {name: CLIENTS[name].versions for name in found},
            "reactions": {
                rule: {name: dataclasses.asdict(each) for name, each in row.items()}
                for rule, row in by_rule.items()
            },
        }
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    click.echo(f"captures and logs are in {work}", err=True)


if __name__ == "__main__":
    sys.exit(main())
