"""The lane of the terminal UI: a real client and a real broker, with ``kproxy proxy`` and its UI in a terminal between
them.

    python -m tests.lanes.ui

A consumer and a producer of kafka-python use the proxy while its UI runs in a terminal. The UI must show them; key
presses hold a message, release it, and request the exit, and the clients must not notice anything. The exit code is 1
if a check failed.
"""

from __future__ import annotations

import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer

from tests.kproxy.cli.terminal import Terminal
from tests.lanes.broker import Broker
from tests.lanes.tools import CannotRun, free_ports

RECORDS = 20
_TOPIC = "shown-in-the-ui"
_HELD = "api == FindCoordinator"


def clients(port: int) -> int:
    """Produce and consume through the proxy; return the number of consumed records."""
    address = f"127.0.0.1:{port}"
    producer = KafkaProducer(bootstrap_servers=address, client_id="lane-producer")
    for number in range(RECORDS):
        producer.send(_TOPIC, b"record %d" % number)
    producer.flush()
    producer.close()
    consumer = KafkaConsumer(
        _TOPIC,
        bootstrap_servers=address,
        client_id="lane-consumer",
        group_id="lane-group",
        auto_offset_reset="earliest",
        consumer_timeout_ms=8_000,
    )
    count = sum(1 for _ in consumer)
    consumer.close()
    return count


def lane(work: Path) -> None:
    """Run the lane; failures are assertion errors."""
    (port,) = free_ports(1)
    with Broker(work / "broker", {"PLAINTEXT": "PLAINTEXT"}) as broker:
        arguments = ["proxy", "-b", broker.address("PLAINTEXT"), "--listen", f"127.0.0.1:{port}"]
        with Terminal(arguments, work, size=(160, 45)) as terminal, ThreadPoolExecutor() as threads:
            terminal.until("0 exchanges")
            terminal.type("i")
            terminal.until("Hold messages that match")
            terminal.type(f"{_HELD}\r")
            terminal.until("Holding requests")
            came_back = threads.submit(clients, port)
            terminal.until("1 held")
            terminal.type("IA")
            for text in ("InitProducerId", "Produce v", "JoinGroup v", "lane-group", "following"):
                terminal.until(text)
            for view, text in {
                "2": "lane-consumer",
                "4": _TOPIC,
                "5": "lane-group",
                "9": "forwarding",
            }.items():
                terminal.type(view)
                terminal.until(text)
            while not came_back.done():
                terminal.look()
            assert came_back.result() == RECORDS, f"{came_back.result()} of {RECORDS} records came back"
            terminal.type("Q")
            assert terminal.end() == 0, "the exit code"


def main() -> None:
    """Run the lane."""
    with tempfile.TemporaryDirectory(prefix="kproxy-lane-") as folder:
        try:
            lane(Path(folder))
        except CannotRun as why:
            sys.exit(f"cannot run here: {why}")
        except AssertionError as wrong:
            sys.exit(f"wrong: {wrong}")
    sys.stdout.write("the UI showed what went through it\n")


if __name__ == "__main__":
    main()
