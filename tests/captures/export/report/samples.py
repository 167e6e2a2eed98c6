"""A folder with every kind of problem, with known numbers."""

from __future__ import annotations

from pathlib import Path

from tests.captures.export.report.kit import SECOND, Row, at, exchange, failed, write

MILLISECOND = 1_000_000


def exchanges() -> list[Row]:
    """300 Produce of 2 ms in 100 seconds, 100 Fetch that only waited, 50 of 40 ms, 10 errors from 60 s on."""
    rows = [
        exchange(
            number,
            number / 3,
            latency_ns=2 * MILLISECOND,
            request_size=1000,
            response_size=100,
            records=10,
            client_id="shop",
            topics=["orders"],
        )
        for number in range(1, 301)
    ]
    fetch = {"api": "Fetch", "client_id": "billing", "client": "10.0.0.8:41000", "connection": 2}
    waited = {"latency_ns": 500 * MILLISECOND, "designed_wait_ns": 500 * MILLISECOND, "flags": ["waited"]}
    rows += [exchange(300 + number, number, **fetch, **waited) for number in range(1, 101)]
    rows += [
        exchange(400 + number, 2 * number, **fetch, latency_ns=40 * MILLISECOND, response_size=5000)
        for number in range(1, 51)
    ]
    rows += [
        failed(
            450 + number, 60 + number, "NOT_LEADER_OR_FOLLOWER", client_id="shop", latency_ns=3 * MILLISECOND
        )
        for number in range(1, 9)
    ]
    rows.append(failed(459, 70, "REBALANCE_IN_PROGRESS", api="Heartbeat", client_id="billing", connection=2))
    rows.append(
        exchange(
            460,
            71,
            "JoinGroup",
            client_id="billing",
            errors=["MEMBER_ID_REQUIRED"],
            expected_errors=["MEMBER_ID_REQUIRED"],
            flags=["expected_error"],
        )
    )
    rows.append(
        exchange(461, 100, "Metadata", latency_ns=None, response_size=0, answered=False, flags=["unanswered"])
    )
    return rows


def partitions() -> list[Row]:
    """Bytes of two topics: 3 partitions of orders produced and fetched, audit fetched by a follower."""
    orders = {"topic": "orders", "bytes": 900, "records": 10}
    rows: list[Row] = [
        {"number": n, "time_ns": at(n / 3), "connection": 1, "api": "Produce", "partition": n % 3, **orders}
        for n in range(1, 301)
    ]
    fetched = {"topic": "orders", "partition": 0, "bytes": 4800, "records": 50}
    rows += [
        {"number": 400 + n, "time_ns": at(2 * n), "connection": 2, "api": "Fetch", **fetched}
        for n in range(1, 51)
    ]
    rows.append(
        {"number": 440, "time_ns": at(80), "connection": 3, "api": "Fetch", "topic": "audit", "partition": 7,
         "bytes": 12_000, "records": 5, "replica_id": 2}
    )  # fmt: skip
    rows.append(
        {
            "number": 461,
            "time_ns": at(100),
            "connection": 1,
            "api": "Metadata",
            "topic": "orders",
            "partition": 0,
        }
    )
    return rows


def rebalances() -> list[Row]:
    """Three rebalances of one group, of 0.5, 4 and 12 s, and one of another that goes on."""

    def story(
        seconds: float, took: float | None, trigger: str, group: str = "billing", **more: object
    ) -> Row:
        duration = None if took is None else round(took * SECOND)
        return {
            "time_ns": at(seconds),
            "group": group,
            "kind": "classic",
            "duration_ns": duration,
            "running": took is None,
            "trigger": trigger,
            "certainty": "observed",
            "sentence": f"{trigger} in {group}.",
            "evidence": [459],
            "generation": 3,
            "client_id": "billing",
            **more,
        }

    return [
        story(5, 0.5, "member_joined"),
        story(40, 4, "member_left"),
        story(
            60,
            12,
            "session_timeout",
            stopped=[
                {"topic": "orders", "partition": n, "duration_ns": SECOND, "ended": True, "evidence": [1]}
                for n in (0, 2)
            ],
            commit_failures=[
                {"exchange": 459, "member": "m", "error_code": 27, "error": "REBALANCE_IN_PROGRESS"}
            ],
        ),
        story(90, None, "unknown", "reports"),
    ]


def versions() -> list[Row]:
    """A Java client and librdkafka, the versions they use, and those the broker offers."""

    def used(
        client: str, library: str, release: str, api: str, version: int | None, count: int, **more: object
    ) -> Row:
        return {
            "time_ns": at(0),
            "client": client,
            "library": library,
            "release": release,
            "broker": "10.0.0.1:9092",
            "api": api,
            "version": version,
            "exchanges": count,
            "offered_min": 0,
            "offered_max": 13,
            **more,
        }

    return [
        used("shop", "apache-kafka-java", "3.9.0", "Produce", 9, 308),
        used("billing", "librdkafka", "2.3.0", "Fetch", 11, 150, offered_min=4, offered_max=17),
        used(
            "billing", "librdkafka", "2.3.0", "Produce", 2, 1, warnings=["Kafka 4 does not know this version"]
        ),
        {"time_ns": at(0), "broker": "10.0.0.1:9092", "api": "Produce", "offered_min": 0, "offered_max": 13},
    ]


def findings() -> list[Row]:
    """One finding per severity, in ascending order."""

    def finding(severity: str, rule: str, sentence: str, seconds: float, **more: object) -> Row:
        return {
            "time_ns": at(seconds),
            "last_ns": at(seconds + 5),
            "rule": rule,
            "severity": severity,
            "certainty": "observed",
            "subject": "group billing",
            "sentence": sentence,
            "advice": "Look at the client.",
            "count": 3,
            "evidence": [459, 460],
            **more,
        }

    return [
        finding("info", "acks_all", "All writes wait for replicas.", 1),
        finding("low", "small_batches", "Batches are tiny.", 2),
        finding(
            "high", "blocked_rebalance", "A rebalance of reports does not end.", 90, certainty="inferred"
        ),
        finding("medium", "session_timeouts", "A member timed out.", 60, filter="group == billing"),
    ]


def connections() -> list[Row]:
    """Three connections, two closed and one reset."""
    return [
        {"connection": number, "time_ns": at(seconds), "last_ns": at(100), "client": f"10.0.0.{number}:4000",
         "broker": "10.0.0.1:9092", "ended": ended}
        for number, seconds, ended in ((1, 0, "open"), (2, 1, "closed by client"), (3, 75, "reset by broker"))
    ]  # fmt: skip


def tcp_health() -> list[Row]:
    """Their directions: one client retransmitted 2048 bytes, and 500 bytes of one broker were not captured."""
    rows: list[Row] = []
    for number in (1, 2, 3):
        for direction in ("client", "broker"):
            ends = (f"10.0.0.{number + 6}:4000", "10.0.0.1:9092")
            sender, receiver = ends if direction == "client" else ends[::-1]
            rows.append(
                {"connection": number, "time_ns": at(0), "direction": direction, "sender": sender, "receiver": receiver,
                 "packets": 100, "bytes": 10_000, "rtt_ns": number * 100_000}
            )  # fmt: skip
    rows[0] |= {"retransmitted": 2048}
    rows[5] |= {"lost": 500, "reset_ns": at(99)}
    return rows


def whole(folder: Path) -> Path:
    """Write all its tables."""
    return write(
        folder,
        exchanges=exchanges(),
        topic_partitions=partitions(),
        rebalances=rebalances(),
        client_versions=versions(),
        findings=findings(),
        connections=connections(),
        tcp_health=tcp_health(),
    )
