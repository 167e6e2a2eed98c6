"""The TLS lane: every kind of client in ``docs/tls.md`` with a real broker, recorded and decrypted.

    python -m tests.lanes.tls                        # all that can run here
    python -m tests.lanes.tls kafkajs kcat           # selected clients
    python -m tests.lanes.tls --record               # and store the recordings in tests/data/captures

One broker has two listeners, one for TLS 1.2 and one for TLS 1.3, and the Java agent; each client has its own way to a
key log, or none. Each recording is read twice, with the client's key log and with the broker's; each time it has to be
readable to the last byte and contain the records that the client produced and consumed.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from captures.packets.tls import KeyLog
from tests.lanes.broker import CONSUMER, PRODUCER, Broker, java
from tests.lanes.decrypted import DecryptedCapture, decrypted, kafka_frames
from tests.lanes.recording import recorded
from tests.lanes.tools import CannotRun, cache, jar, need, run

AGENT = "name.neykov:extract-tls-secrets:4.0.0"
LISTENERS = {"TLS12": "TLSv1.2", "TLS13": "TLSv1.3"}
RECORDS = 3

_CLIENTS = Path(__file__).parent / "clients"
CAPTURES = Path(__file__).parents[1] / "data" / "captures"
#: content of each recording in that folder, as kproxy and tshark agreed when it was made
EXPECTED = CAPTURES / "tls_clients.json"


@dataclass(frozen=True)
class Errand:
    """The task of a client: produce records to its own topic, then consume them in a group.

    :ivar keylog: file for its secrets
    """

    address: str
    certificate: Path
    topic: str
    keylog: Path

    @property
    def arguments(self) -> list[str | Path]:
        """Arguments of the programs in ``clients``, without the key log."""
        return [self.address, self.certificate, self.topic, str(RECORDS)]


Go = Callable[[Errand], None]
Prepare = Callable[[], Go]


@dataclass(frozen=True)
class Client:
    """A kind of client.

    :ivar versions: versions of its components, for the report
    :ivar prepare: function that downloads and builds it; returns a function that runs an errand
    :ivar own_keys: whether it writes its own key log
    :ivar listeners: listeners that it is tested with
    """

    versions: str
    prepare: Prepare
    own_keys: bool = True
    listeners: tuple[str, ...] = tuple(LISTENERS)


# -- the clients -----------------------------------------------------------------------------------------------


def _java(security: str = "") -> Prepare:
    """Return the console tools with the agent.

    :param security: security properties of their JVMs
    """

    def prepare() -> Go:
        need("java")

        def go(errand: Errand) -> None:
            properties = client_properties(errand.keylog.with_suffix(".properties"), errand.certificate)
            overrides = errand.keylog.with_suffix(".security")
            overrides.write_text(security)
            jvm = [f"-javaagent:{jar(AGENT)}={errand.keylog}", f"-Djava.security.properties={overrides}"]
            cluster = ("--bootstrap-server", errand.address, "--topic", errand.topic)
            common = (*cluster, "--command-config", properties)
            run(java(PRODUCER, *common, jvm=jvm), stdin=records(range(RECORDS)))
            consume = ("--group", errand.topic, "--from-beginning", "--max-messages", str(RECORDS))
            run(java(CONSUMER, *common, *consume, "--timeout-ms", "20000", jvm=jvm))

        return go

    return prepare


def _python(program: str, requirement: str, *, keylog: str = "") -> Prepare:
    """Return a program in ``clients``.

    :param keylog: environment variable that names the key log; if empty, the key log is the last argument
    """

    def prepare() -> Go:
        python = cache() / "venv" / "bin" / "python"
        if not python.exists():
            run([sys.executable, "-m", "venv", cache() / "venv"])
        run([python, "-m", "pip", "install", "-q", requirement])

        def go(errand: Errand) -> None:
            last = [] if keylog else [errand.keylog]
            env = {keylog: str(errand.keylog)} if keylog else {}
            run([python, _CLIENTS / program, *errand.arguments, *last], env=env)

        return go

    return prepare


def _go(name: str) -> Prepare:
    def prepare() -> Go:
        need("go")
        program = cache() / name
        run(["go", "build", "-o", program, "."], cwd=_CLIENTS / name)

        def go(errand: Errand) -> None:
            run([program, *errand.arguments, errand.keylog])

        return go

    return prepare


def _node() -> Go:
    need("node", "npm")
    folder = cache() / "kafkajs"
    shutil.copytree(_CLIENTS / "kafkajs", folder, dirs_exist_ok=True)
    run(["npm", "install", "--silent", "--no-package-lock"], cwd=folder)

    def go(errand: Errand) -> None:
        run(["node", f"--tls-keylog={errand.keylog}", folder / "client.js", *errand.arguments])

    return go


def _kcat() -> Go:
    need("kcat", "gcc")
    preload = cache() / "sslkeylog.so"
    run(["gcc", "-shared", "-fPIC", "-o", preload, _CLIENTS / "sslkeylog.c", "-ldl"])

    def go(errand: Errand) -> None:
        env = {"LD_PRELOAD": str(preload), "SSLKEYLOGFILE": str(errand.keylog)}
        security = ("-X", "security.protocol=ssl", "-X", f"ssl.ca.location={errand.certificate}")
        kcat = ("kcat", "-b", errand.address, *security)
        run([*kcat, "-P", "-t", errand.topic], stdin=records(range(RECORDS)), env=env)
        group = ("-G", errand.topic, "-X", "auto.offset.reset=earliest", "-c", str(RECORDS), errand.topic)
        run([*kcat, *group], env=env, timeout=60)

    return go


CLIENTS = {
    "java": Client(f"console producer and consumer 4.3.0, {AGENT}", _java()),
    "java-key-update": Client(
        "the same, with new keys every 256 bytes",
        _java("jdk.tls.keyLimits=AES/GCM/NoPadding KeyUpdate 2^8\n"),
        listeners=("TLS13",),
    ),
    "aiokafka": Client(
        "aiokafka 0.14.0", _python("aiokafka_client.py", "aiokafka==0.14.0", keylog="SSLKEYLOGFILE")
    ),
    "kafka-python": Client("kafka-python 3.0.12", _python("kafka_python_client.py", "kafka-python==3.0.12")),
    "franz-go": Client("franz-go 1.22.2", _go("franz-go")),
    "sarama": Client("sarama 1.61.1", _go("sarama")),
    "kafkajs": Client("kafkajs 2.2.4", _node),
    "kcat": Client("kcat of the distribution, sslkeylog.c", _kcat),
    "confluent-kafka": Client(
        "confluent-kafka 2.16.1, the wheel",
        _python("confluent_client.py", "confluent-kafka==2.16.1", keylog="SSLKEYLOGFILE"),
        own_keys=False,
    ),
}


# -- the broker ------------------------------------------------------------------------------------------------


def certificate(folder: Path) -> tuple[Path, Path]:
    """Create a throw-away certificate for localhost; return it, and the file with its key for the broker.

    :raises CannotRun: without openssl
    """
    need("openssl")
    key, public, both = (folder / name for name in ("key.pem", "cert.pem", "broker.pem"))
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    new = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "3650",
        "-subj",
        "/CN=localhost",
    ]
    run([*new, "-addext", names, "-keyout", key, "-out", public])
    both.write_text(key.read_text() + public.read_text())
    both.chmod(0o600)
    return public, both


def tls_broker(folder: Path, identity: Path, jvm: Sequence[str] = ()) -> Broker:
    """Return a broker with a listener for each TLS version.

    :param jvm: JVM options
    :raises CannotRun: without Java or Maven
    """
    properties = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(identity)}
    for name, protocol in LISTENERS.items():
        properties[f"listener.name.{name.lower()}.ssl.enabled.protocols"] = protocol
    listeners = {"PLAINTEXT": "PLAINTEXT"} | dict.fromkeys(LISTENERS, "SSL")
    return Broker(folder, listeners, properties=properties, jvm=jvm)


def client_properties(path: Path, certificate: Path) -> Path:
    """Write a configuration file for Kafka's console tools; return its path."""
    path.write_text(
        f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={certificate}\n"
    )
    return path


def records(numbers: Iterable[int]) -> str:
    """Return the values of records, one per line."""
    return "".join(f"record {number}\n" for number in numbers)


# -- the lane --------------------------------------------------------------------------------------------------


class Lane:
    """Runs clients with one broker and reports which recordings were readable.

    :ivar faults: number of recordings that were not readable as expected
    :ivar left_out: number of kinds of clients that could not run here
    """

    def __init__(
        self, broker: Broker, work: Path, certificate: Path, broker_keys: Path, *, keep: bool
    ) -> None:
        self.faults = self.left_out = 0
        self._broker = broker
        self._work = work
        self._certificate = certificate
        self._broker_keys = broker_keys
        self._keep = keep

    def run(self, name: str) -> None:
        """Run one kind of client with each TLS version."""
        client = CLIENTS[name]
        try:
            go = client.prepare()
        except CannotRun as why:
            self.left_out += 1
            click.echo(f"{name}: cannot run here: {why}")
            return
        click.echo(f"{name}: {client.versions}")
        for listener in client.listeners:
            base = f"tls_{name.replace('-', '_')}_{listener[-2:]}"
            try:
                self._one(client, go, base, listener)
            except CannotRun as why:
                self._fault(f"{LISTENERS[listener]}: {why}")

    def _one(self, client: Client, go: Go, base: str, listener: str) -> None:
        protocol, port = LISTENERS[listener], self._broker.ports[listener]
        pcap, own, of_broker = (self._work / f"{base}{end}" for end in (".pcap", ".keylog", ".broker.keylog"))
        before = self._broker_keys.stat().st_size if self._broker_keys.exists() else 0
        with recorded(pcap, port):
            go(Errand(self._broker.address(listener), self._certificate, base, own))
        of_broker.write_bytes(self._broker_keys.read_bytes()[before:])
        found = self._judge(f"{protocol}, broker's key log", pcap, of_broker, port)
        if client.own_keys:
            found = self._judge(f"{protocol}, client's key log", pcap, own, port)
        elif own.exists() and own.stat().st_size:
            self._fault(f"{protocol}: the client wrote secrets of its own, against what docs/tls.md says")
        if self._keep and found is not None:
            shutil.copyfile(pcap, CAPTURES / pcap.name)
            shutil.copyfile(own if client.own_keys else of_broker, CAPTURES / own.name)
            keep_expected(base, client.versions, found)

    def _judge(self, what: str, pcap: Path, keylog: Path, port: int) -> DecryptedCapture | None:
        """Read a recording with a key log; return the result if it is complete."""
        if not keylog.exists():
            self._fault(f"{what}: was not written")
            return None
        found = decrypted(pcap, KeyLog(keylog))
        fault = found.fault(RECORDS)
        frames = kafka_frames(pcap, keylog, port)
        if not fault and frames is not None and frames != (found.requests, found.responses):
            fault = f"tshark finds {frames[0]} requests and {frames[1]} responses"
        counts = f"{found.connections} connections, {found.requests} requests, {found.responses} responses"
        if fault:
            self._fault(f"{what}: {counts}: {fault}")
            return None
        click.echo(f"  {what}: {counts}: all read")
        return found

    def _fault(self, text: str) -> None:
        self.faults += 1
        click.echo(f"  {text}")


def keep_expected(base: str, versions: str, found: DecryptedCapture) -> None:
    """Store the content of a recording, for the tests of the suite."""
    expected = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    expected[base] = {
        "client": versions,
        "connections": found.connections,
        "requests": found.requests,
        "responses": found.responses,
    }
    lines = [f"{json.dumps(name)}: {json.dumps(expected[name])}" for name in sorted(expected)]
    EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(list(CLIENTS)))
@click.option("--record", is_flag=True, help="Keep captures and key logs in tests/data/captures.")
def main(names: tuple[str, ...], record: bool) -> None:
    """Run the TLS lane: all clients, or the named ones.

    The exit code is 1 if a recording was not readable as expected, 2 if a client could not run here.
    """
    work = cache() / "tls"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        public, identity = certificate(work)
        broker_keys = work / "broker.keylog"
        agent = f"-javaagent:{jar(AGENT)}={broker_keys}"
        with tls_broker(work / "broker", identity, [agent]) as broker:
            lane = Lane(broker, work, public, broker_keys, keep=record)
            for name in names or CLIENTS:
                lane.run(name)
    except CannotRun as why:
        raise click.ClickException(f"the lane cannot run here: {why}") from None
    sys.exit(1 if lane.faults else 2 if lane.left_out else 0)


if __name__ == "__main__":
    main()
