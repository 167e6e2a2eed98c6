"""The lane of the attached agent: which connections become readable when it attaches to a running broker.

    python -m tests.lanes.tls_attach             # with TLS 1.2 and 1.3
    python -m tests.lanes.tls_attach --record    # and store the recordings in tests/data/captures

A consumer connects before, a producer after the attachment: the consumer's connection stays opaque, the producer's is
decrypted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from captures.packets.tls import KeyLog
from tests.lanes.broker import CONSUMER, PRODUCER, Broker, java
from tests.lanes.decrypted import DecryptedCapture, decrypted
from tests.lanes.recording import recorded
from tests.lanes.tls import AGENT, CAPTURES, LISTENERS, certificate, client_properties, records, tls_broker
from tests.lanes.tools import CannotRun, cache, jar, run, wait_for


def fault(found: DecryptedCapture) -> str:
    """Return the error: records from before must not be decrypted, those from after must be."""
    if (found.produced, found.consumed) != (["record 1", "record 2"], []):
        return f"produced {found.produced}, consumed {found.consumed}"
    if not all("in the key log for client random" in reason for reason in found.opaque):
        return f"opaque for another reason: {found.opaque}"
    return (
        "" if 0 < len(found.opaque) < found.connections else f"{len(found.opaque)} connections stayed opaque"
    )


@contextmanager
def consuming(options: tuple[str | Path, ...], output: Path) -> Iterator[None]:
    """Run a consumer; the block begins after its first record, and ends after its third."""
    with output.open("wb") as file:
        command = list(map(str, java(CONSUMER, *options, "--from-beginning")))
        consumer = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        try:
            wait_for("the first record", lambda: "record 0" in output.read_text())
            yield
            wait_for("the last record", lambda: "record 2" in output.read_text())
        finally:
            consumer.terminate()
            consumer.wait()


def attach(broker: Broker, listener: str, work: Path, certificate: Path) -> tuple[Path, Path]:
    """Record a consumer and a producer before the agent attaches to the broker, and a producer after it.

    :returns: the capture and the key log
    """
    topic = f"tls_attach_{listener[-2:]}"
    pcap, keylog = work / f"{topic}.pcap", work / f"{topic}.keylog"
    properties = client_properties(work / "client.properties", certificate)
    cluster = ("--bootstrap-server", broker.address(listener), "--topic", topic)
    options = (*cluster, "--command-config", properties)
    with recorded(pcap, broker.ports[listener]):
        run(java(PRODUCER, *options), stdin=records([0]))
        with consuming(options, work / f"{topic}.consumed"):
            run(["java", "-jar", jar(AGENT), str(broker.pid), keylog])
            run(java(PRODUCER, *options), stdin=records([1, 2]))
    return pcap, keylog


@click.command()
@click.option("--record", is_flag=True, help="Keep captures and key logs in tests/data/captures.")
def main(record: bool) -> None:
    """Run the lane of the attached agent."""
    work = cache() / "tls_attach"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    faults = 0
    try:
        public, identity = certificate(work)
        with tls_broker(work / "broker", identity) as broker:
            for listener, protocol in LISTENERS.items():
                pcap, keylog = attach(broker, listener, work, public)
                found = decrypted(pcap, KeyLog(keylog))
                wrong = fault(found)
                faults += bool(wrong)
                opaque = f"{len(found.opaque)} of {found.connections} connections opaque"
                click.echo(f"{protocol}: {opaque}: {wrong or 'as expected'}")
                if record and not wrong:
                    shutil.copyfile(pcap, CAPTURES / pcap.name)
                    shutil.copyfile(keylog, CAPTURES / keylog.name)
    except CannotRun as why:
        raise click.ClickException(f"the lane cannot run here: {why}") from None
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
