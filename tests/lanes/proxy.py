"""The proxy lane: real clients, through ``kproxy proxy``, to three real brokers, with failures.

    python -m tests.lanes.proxy                    # all
    python -m tests.lanes.proxy errands faults     # selected parts
    python -m tests.lanes.proxy --clients kafkajs,java

It runs in its own network namespace, where the kernel counts connections to the brokers: in every part, all have to
come from the proxy. Brokers advertise addresses that every client here can reach, so that a client that learns one can
use it. The docstrings of :class:`Lane` describe the parts. The exit code is 1 if a check failed, 2 if a kind of client
could not run here.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import psutil

from captures.exchanges import ExchangeReader, open_capture
from dissectors.api_keys import ApiKey
from kproxy.proxy.control import CommandError
from kproxy.proxy.rules.outages import MANNERS
from tests.lanes.broker import CLUSTER_ID, CONSUMER, PRODUCER, Broker, java
from tests.lanes.cluster import NODES, Cluster
from tests.lanes.confined import ConnectionCounter, enter
from tests.lanes.crowd import at_once, one_by_one
from tests.lanes.kproxy_run import Kproxy
from tests.lanes.through import CLIENTS, Command, Endurer, JavaEndurer, ProgramEndurer, errand
from tests.lanes.tools import CannotRun, Wrong, listens, run, wait_for

RECORDS = 30
CROWD = 1000
CHURN = 50_000

_PARTITIONS = 3
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_STEP = 20  # records to be seen after each fault
_RECOVERY_S = 120
_SETTLED = 5_000  # connections before the first measurement of memory
_MOST_GROWTH = 8 << 20
_JAVA = "java"
_MIB = 1 << 20
_SESSION_S = 4
_SESSIONS = 3
_OLDER = "3.9.1"
_OTHER_CLUSTER_ID = "AkU3OEVBNTcwNTJENDM2QA"
_LOGIN = "org.apache.kafka.common.security"
_JAAS = {
    "PLAIN": f"{_LOGIN}.plain.PlainLoginModule required",
    "SCRAM-SHA-256": f"{_LOGIN}.scram.ScramLoginModule required",
    "OAUTHBEARER": f"{_LOGIN}.oauthbearer.OAuthBearerLoginModule required",
}
_BROKERS_JAAS = {
    "PLAIN": 'user_alice="secret"',
    "SCRAM-SHA-256": "",
    "OAUTHBEARER": 'unsecuredLoginStringClaim_sub="broker"',
}
_CLIENTS_JAAS = {
    **dict.fromkeys(("PLAIN", "SCRAM-SHA-256"), 'username="alice" password="{password}"'),
    "OAUTHBEARER": 'unsecuredLoginStringClaim_sub="alice"',
}

_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
_VERSIONS = "org.apache.kafka.tools.BrokerApiVersionsCommand"


class Lane:
    """The parts of the lane, each of which prints its results.

    :ivar faults: number of failed checks
    """

    def __init__(self, cluster: Cluster, kproxy: Kproxy, confined: ConnectionCounter, work: Path) -> None:
        self.faults = 0
        self._cluster = cluster
        self._kproxy = kproxy
        self._confined = confined
        self._work = work
        self._inside = 0

    @contextmanager
    def _part(self, what: str) -> Iterator[None]:
        """Print the result of a check, which also fails if a connection bypassed the proxy meanwhile."""
        began = time.monotonic()
        wrong = ""
        try:
            yield
        except (Wrong, CannotRun, CommandError, OSError, psutil.Error) as why:
            wrong = str(why)
        outside = self._confined.others
        if outside > self._inside:
            culprits = "; ".join(self._confined.culprits) or "too short to be seen"
            wrong += f" {outside - self._inside} connections went past the proxy: {culprits}"
            self._inside = outside
        self.faults += bool(wrong)
        took = f"{time.monotonic() - began:.0f} s"
        click.echo(f"  {what}: {'FAILED: ' + wrong.strip() if wrong else 'passed'} ({took})")

    # -- errands -----------------------------------------------------------------------------------------------
    def errands(self, commands: dict[str, Command]) -> None:
        """Each client performs all its operations, and learns of no brokers but the proxy's."""
        for name, command in commands.items():
            with self._part(f"{name}: sent on its errand"):
                errand(name, command, self._kproxy.address, self._kproxy.ports, RECORDS)
        if _JAVA in commands:
            self._tools()

    def _tools(self) -> None:
        """Run Kafka's own command line tools."""
        cluster = ("--bootstrap-server", self._kproxy.address)
        topic = (*cluster, "--topic", "tools")
        self._cluster.create_topic("tools", _PARTITIONS)
        with self._part("console producer and consumer"):
            lines = [f"line {number}" for number in range(RECORDS)]
            run(java(PRODUCER, *topic), stdin="".join(f"{line}\n" for line in lines))
            group = ("--group", "tools", "--from-beginning", "--max-messages", str(RECORDS))
            seen = run(java(CONSUMER, *topic, *group, "--timeout-ms", "20000"))
            if not set(lines) <= set(seen.splitlines()):
                raise Wrong(f"consumed {seen[-500:]}")
        with self._part("producer performance, in transactions"):
            settings = ("--num-records", "2000", "--record-size", "200", "--throughput", "-1")
            transactional = ("--transactional-id", "tools", "--transaction-duration-ms", "200")
            said = run(java(_PERFORMANCE, *topic, *settings, *transactional))
            if "2000 records sent" not in said:
                raise Wrong(said[-500:])
        with self._part("consumer groups, API versions of all brokers"):
            if "tools" not in run(java(_GROUPS, *cluster, "--describe", "--group", "tools")):
                raise Wrong("the group is not there")
            said = run(java(_VERSIONS, *cluster))
            if said.count("Produce(0)") != len(NODES):
                raise Wrong(said[-500:])

    # -- rules -------------------------------------------------------------------------------------------------
    def rules(self, _: dict[str, Command]) -> None:
        """Brokers and consumers receive the fields that rules set, in records too. When a rule that takes a broker down
        ends, the broker is back, and a waiting producer continues."""
        through = ("--bootstrap-server", self._kproxy.address)
        past = ("--bootstrap-server", self._cluster.internal)
        self._cluster.create_topic("edited", 1)
        with (
            self._part("values of records set, with every codec"),
            self._ruled(
                "topic == edited => set request.topic_data.partition_data.records.records.value=set, name=edited"
            ),
        ):
            for codec in _CODECS:
                topic = ("--topic", "edited", "--compression-codec", codec)
                run(java(PRODUCER, *through, *topic), stdin="a\nb\n")
        with self._part("what brokers have is what was set"):
            count = 2 * len(_CODECS)
            limits = ("--from-beginning", "--max-messages", str(count), "--timeout-ms", "20000")
            seen = run(java(CONSUMER, *past, "--topic", "edited", *limits)).splitlines()
            if seen.count("set") != count:
                raise Wrong(f"consumed {seen}")
        self._cluster.move_leaders(["edited"], 1, (1, 2, 3))
        for manner in MANNERS:
            with self._part(f"a broker down, {manner}, and back"):
                with self._ruled(f"broker 1 down {manner}, for=5s, name=away"):
                    run(java(PRODUCER, *through, "--topic", "edited"), stdin="c\n")

    @contextmanager
    def _ruled(self, rule: str) -> Iterator[None]:
        """Apply a rule during the block; it may end earlier."""
        name = rule.rpartition("name=")[2]
        self._kproxy.ask("add_rule", control=True, rule=rule)
        try:
            yield
        finally:
            self._kproxy.ask("remove_rule", control=True, number=name)

    # -- faults ------------------------------------------------------------------------------------------------
    def failures(self, commands: dict[str, Command]) -> None:
        """All clients produce and consume while brokers, clients and the proxy fail: all recover, and no acknowledged
        record is lost."""
        commands = {name: command for name, command in commands.items() if CLIENTS[name].endures}
        enduring = [self._endurer(name, command) for name, command in commands.items()]
        try:
            with self._part("all clients at work"):
                wait_for_progress(enduring)
            for what, go in self._events(enduring, commands).items():
                with self._part(what):
                    go()
                    wait_for_progress(enduring)
            for each in enduring:
                with self._part(f"{each.name}: complete in the end"):
                    missed = each.finish()
                    if missed:
                        raise Wrong(f"{len(missed)} of {each.acknowledged} records are missing: {missed[:5]}")
        finally:
            for each in enduring:
                each.kill()

    def _endurer(self, name: str, command: Command) -> Endurer:
        topic = f"endure-{name}"
        self._cluster.create_topic(topic, _PARTITIONS)
        if name == _JAVA:
            return JavaEndurer(name, self._kproxy.address, topic, self._work)
        return ProgramEndurer(name, command, self._kproxy.address, topic, self._work)

    def _events(
        self, enduring: Sequence[Endurer], commands: dict[str, Command]
    ) -> dict[str, Callable[[], None]]:
        def all_leaders(*replicas: int) -> Callable[[], None]:
            def move() -> None:
                topics = [each.topic for each in enduring]
                self._cluster.move_leaders(topics, _PARTITIONS, replicas)

            return move

        def stopped() -> None:
            self._cluster.nodes[2].stop()
            wait_for_progress(enduring)
            self._cluster.restart(2)

        def killed() -> None:
            self._cluster.nodes[3].kill()
            wait_for_progress(enduring)
            self._cluster.restart(3)

        def proxy_killed() -> None:
            self._kproxy.kill()
            self._kproxy.start()

        def proxy_restarted() -> None:
            self._kproxy.stop()
            self._kproxy.start()

        return {
            "all leaders moved to broker 2": all_leaders(2, 3, 1),
            "broker 2 stopped, and started again": stopped,
            "all leaders moved to broker 3": all_leaders(3, 1, 2),
            "broker 3 killed, and started again": killed,
            "a client killed": lambda: self._client_killed(commands),
            "kproxy killed, and started again": proxy_killed,
            "kproxy stopped, and started again": proxy_restarted,
        }

    def _client_killed(self, commands: dict[str, Command]) -> None:
        """Kill a client; its connections to brokers are closed as well."""
        name = next((each for each in commands if each != _JAVA), None)
        if name is None:
            return
        victim = self._endurer(name, commands[name])
        assert isinstance(victim, ProgramEndurer)
        wait_for_progress([victim])
        ends = [each.laddr.port for each in psutil.Process(victim.pid).net_connections("tcp") if each.raddr]
        victim.kill()
        wait_for("the end of its connections", lambda: not self._open_from(ends), timeout=10)

    def _open_from(self, ports: Sequence[int]) -> list[str]:
        open_ones = [each["client"] for each in self._kproxy.ask("connections")]
        return [client for client in open_ones if int(client.rpartition(":")[2]) in ports]

    # -- authentication ----------------------------------------------------------------------------------------
    def authentication(self, commands: dict[str, Command]) -> None:
        """Clients without SASL produce and consume through a proxy that authenticates them, with each mechanism. Their
        connections outlive several sessions (KIP-368), and no SASL request is recorded. A wrong password is reported
        with the broker's message."""
        listener = "listener.name.sasl."
        properties = {f"{listener}connections.max.reauth.ms": str(1000 * _SESSION_S)}
        properties[f"{listener}sasl.enabled.mechanisms"] = ",".join(_JAAS)
        for mechanism, jaas in _JAAS.items():
            properties[f"{listener}{mechanism.lower()}.sasl.jaas.config"] = (
                f"{jaas} {_BROKERS_JAAS[mechanism]};"
            )
        listeners = {"PLAINTEXT": "PLAINTEXT", "SASL": "SASL_PLAINTEXT"}
        with Broker(self._work / "sasl", listeners, properties=properties) as broker:
            user = ("--alter", "--entity-type", "users", "--entity-name", "alice")
            scram = ("--add-config", "SCRAM-SHA-256=[password=secret]")
            run(
                java(
                    "kafka.admin.ConfigCommand",
                    "--bootstrap-server",
                    broker.address("PLAINTEXT"),
                    *user,
                    *scram,
                )
            )
            for mechanism in _JAAS:
                for name in (each for each in commands if CLIENTS[each].endures):
                    with self._part(f"{name}: authenticated by {mechanism}, again every {_SESSION_S} s"):
                        self._authenticated(broker, mechanism, name, commands[name])
            with self._part("a wrong password is reported"):
                kproxy = self._authenticating(broker, "PLAIN", "wrong", awaited=-1)
                try:
                    wait_for("the report", lambda: "Invalid username or password" in kproxy.log)
                finally:
                    kproxy.kill()

    def _authenticating(self, broker: Broker, mechanism: str, password: str, awaited: int = 1) -> Kproxy:
        """Start a proxy that authenticates clients."""
        folder = self._work / f"{mechanism}-{password}-{time.monotonic_ns()}"
        folder.mkdir()
        config = folder / "client.properties"
        jaas = f"{_JAAS[mechanism]} {_CLIENTS_JAAS[mechanism].format(password=password)};"
        security = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in security.items()))
        kproxy = Kproxy(broker.address("SASL"), folder, awaited=awaited)
        recorded = ("-q", "-w", str(kproxy.capture))
        kproxy.start([*recorded, "--command-config", str(config), "--authenticate"])
        return kproxy

    def _authenticated(self, broker: Broker, mechanism: str, name: str, command: Command) -> None:
        """Have a client produce and consume over several sessions.

        :raises Wrong: if connections ended with their sessions, records are missing, or SASL was recorded
        """
        kproxy = self._authenticating(broker, mechanism, "secret")
        topic = f"{mechanism.lower()}-{name}"
        client = (
            JavaEndurer(name, kproxy.address, topic, self._work)
            if name == _JAVA
            else ProgramEndurer(name, command, kproxy.address, topic, self._work)
        )
        try:
            wait_for_progress([client])
            before = {each["client"] for each in kproxy.ask("connections")}
            time.sleep(_SESSIONS * _SESSION_S)
            wait_for_progress([client])
            ended = before - {each["client"] for each in kproxy.ask("connections")}
            missed = client.finish()
            if ended or missed or client.failures:
                raise Wrong(
                    f"{len(ended)} connections ended, {len(missed)} records missed, {client.failures}"
                )
            kproxy.stop()
        finally:
            client.kill()
            kproxy.kill()
        capture = open_capture(str(kproxy.capture))
        capture.read()
        recorded = {exchange.api_key for exchange in ExchangeReader(capture)}
        if recorded & {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE} or ApiKey.PRODUCE not in recorded:
            raise Wrong(f"recorded APIs {sorted(recorded)}")

    # -- several clusters --------------------------------------------------------------------------------------
    def clusters(self, commands: dict[str, Command]) -> None:
        """Clients of two clusters with different releases, behind one proxy, use the same topic and group: nothing is
        mixed up, in the recording either. While the broker of one cluster is down, clients of the other continue."""
        plain, ids = {"PLAINTEXT": "PLAINTEXT"}, {"east": CLUSTER_ID, "west": _OTHER_CLUSTER_ID}
        with (
            Broker(self._work / "east", plain) as east,
            Broker(self._work / "west", plain, version=_OLDER, cluster_id=ids["west"]) as west,
        ):
            kproxy = Kproxy(f"east={east.address('PLAINTEXT')}", self._work / "two", awaited=1)
            second = ["-b", f"west={west.address('PLAINTEXT')}", "-b", "south=localhost:1"]
            kproxy.start([*second, "-q", "-w", str(kproxy.capture)])
            addresses = {
                name: each["listen"] for name, each in kproxy.ask("status")["clusters"].items() if name in ids
            }
            try:
                for name in (each for each in commands if CLIENTS[each].endures):
                    with self._part(f"{name}: in two clusters"):
                        self._in_both(kproxy, addresses, name, commands[name])
                kproxy.stop()
            finally:
                kproxy.kill()
        with self._part("what was recorded is not mixed"):
            capture = open_capture(str(kproxy.capture))
            capture.read()
            reader = ExchangeReader(capture)
            recorded = {(each.upstream.cluster, each.broker.rpartition(":")[2]) for each in reader}
            if recorded != {("east", str(east.ports["PLAINTEXT"])), ("west", str(west.ports["PLAINTEXT"]))}:
                raise Wrong(f"recorded {recorded}")
            told = run([sys.executable, "-m", "kproxy", "groups", "--json", kproxy.capture])
            found = [json.loads(line) for line in told.splitlines()]
            groups = {(each["group"], each["cluster_id"]) for each in found}
            names = {group for group, _ in groups}
            if not names or groups != {(group, cluster) for group in names for cluster in ids.values()}:
                raise Wrong(f"groups {groups}")

    def _in_both(self, kproxy: Kproxy, addresses: dict[str, str], name: str, command: Command) -> None:
        """Have a client produce and consume in each cluster.

        :raises Wrong: if one stops when the other's broker is down, or misses records
        """
        clients: dict[str, Endurer] = {}
        try:
            for cluster, address in addresses.items():
                folder = self._work / f"two-{name}-{cluster}"
                folder.mkdir()
                clients[cluster] = (
                    JavaEndurer(f"{name} of {cluster}", address, f"two-{name}", folder)
                    if name == _JAVA
                    else ProgramEndurer(f"{name} of {cluster}", command, address, f"two-{name}", folder)
                )
            wait_for_progress(list(clients.values()))
            rule = kproxy.ask("add_rule", control=True, rule="broker west/1 down silent, for=1m")["number"]
            wait_for_progress([clients["east"]])
            kproxy.ask("remove_rule", control=True, number=rule)
            wait_for_progress(list(clients.values()))
            for client in clients.values():
                missed = client.finish()
                if missed:
                    raise Wrong(f"{client.name}: {len(missed)} records missed")
        finally:
            for client in clients.values():
                client.kill()

    # -- crowds ------------------------------------------------------------------------------------------------
    def crowd(self, _: dict[str, Command]) -> None:
        """1,000 simultaneous connections to all brokers; all requests are answered."""
        with self._part(f"{CROWD:,} connections at once"):

            def look() -> None:
                open_now = self._kproxy.ask("status")["connections"]["open"]
                click.echo(f"    {open_now:,} open, {self._kproxy.plane.memory_info().rss / _MIB:.0f} MiB")
                if open_now < CROWD:
                    raise Wrong(f"{open_now:,} are open")

            at_once(self._kproxy.ports[2:], CROWD, 20, look)
            wait_for("the end of all", lambda: self._kproxy.ask("status")["connections"]["open"] < CROWD)

    def churn(self, _: dict[str, Command]) -> None:
        """50,000 connections, one after the other, closed in every possible way: no resources leak."""
        with self._part(f"{CHURN:,} connections, one by one"):
            one_by_one(self._kproxy.ports[2:], _SETTLED)
            before = self._footprint()
            one_by_one(self._kproxy.ports[2:], CHURN - _SETTLED)
            after = self._footprint()
            for what, (first, last, most) in {
                "memory": (before[0], after[0], _MOST_GROWTH),
                "descriptors": (before[1], after[1], 8),
                "requests in flight": (before[2], after[2], 0),
                "connections": (before[3], after[3], 0),
            }.items():
                click.echo(f"    {what}: {first:,} after {_SETTLED:,}, {last:,} after {CHURN:,}")
                if last - first > most:
                    raise Wrong(f"{what} grew from {first:,} to {last:,}")

    def _footprint(self) -> tuple[int, int, int, int]:
        """Return memory, descriptors, requests in flight and open connections, once closed ones are cleaned up.

        Only private memory counts: the queue to the recorder is shared, and its pages are touched gradually.
        """

        def gone() -> bool:
            return not self._kproxy.ask("status")["connections"]["open"]

        wait_for("the end of all connections", gone, timeout=30)
        status, plane = self._kproxy.ask("status"), self._kproxy.plane
        open_now = status["connections"]["open"]
        return plane.memory_full_info().uss, plane.num_fds(), status["requests_in_flight"], open_now

    # -- the recording -------------------------------------------------------------------------------------------
    def recorded(self) -> None:
        """The recordings of all runs, killed ones included, are one readable capture."""
        with self._part("what was recorded"):
            status = self._kproxy.ask("status")
            if status["escaped_addresses"]:
                raise Wrong(f"{status['escaped_addresses']} addresses of brokers went to clients")
            self._kproxy.stop()
            capture = open_capture(str(self._kproxy.capture))
            capture.read()
            exchanges = problems = 0
            for exchange in ExchangeReader(capture):
                exchanges += 1
                if exchange.response is not None:  # a killed client may leave an incomplete request
                    problems += bool(exchange.request.problems or exchange.response.problems)
            size = self._kproxy.capture.stat().st_size
            click.echo(f"    {exchanges:,} exchanges in {size / _MIB:,.0f} MiB")
            if problems or (status["bytes"]["from_clients"] and not exchanges):
                raise Wrong(f"{problems} of {exchanges} exchanges cannot be decoded")

    def watched(self) -> None:
        """Check that the counter notices connections that bypass the proxy."""
        with self._part("no connection went past the proxy, and one would have been seen"):
            if not self._confined.by_proxy:
                raise Wrong("those of the proxy were not counted")
            click.echo(f"    {self._confined.by_proxy:,} connections to brokers, all by kproxy")
            node = NODES[0]
            wait_for("an escape", lambda: listens(self._cluster.ports[node]))
            if self._confined.others != self._inside + 1:
                raise Wrong("a connection past the proxy was not counted")
            self._inside = self._confined.others


def wait_for_progress(enduring: Sequence[Endurer]) -> None:
    """Wait until each client has produced and consumed new records.

    :raises Wrong: if that takes too long
    """
    before = {each.name: (each.acknowledged, each.consumed) for each in enduring}

    def stuck() -> list[str]:
        return [
            f"{each.name} ({each.acknowledged - before[each.name][0]} taken, "
            f"{each.consumed - before[each.name][1]} consumed)"
            for each in enduring
            if each.acknowledged < before[each.name][0] + _STEP
            or each.consumed < before[each.name][1] + _STEP
        ]

    try:
        wait_for("recovery", lambda: not stuck(), timeout=_RECOVERY_S)
    except CannotRun as late:
        raise Wrong(f"{late}: {', '.join(stuck())}") from None


PARTS = {
    "errands": Lane.errands,
    "rules": Lane.rules,
    "faults": Lane.failures,
    "crowd": Lane.crowd,
    "churn": Lane.churn,
    "authentication": Lane.authentication,
    "clusters": Lane.clusters,
}


def _clients(names: str) -> tuple[dict[str, Command], int]:
    """Download and build clients; return their commands, and the number of those that cannot run."""
    commands, left_out = {}, 0
    for name in names.split(",") if names else CLIENTS:
        if name not in CLIENTS:
            raise click.UsageError(f"{name} is none of {', '.join(CLIENTS)}")
        try:
            commands[name] = CLIENTS[name].prepare()
        except CannotRun as why:
            left_out += 1
            click.echo(f"{name}: cannot run here: {why}")
        else:
            click.echo(f"{name}: {CLIENTS[name].versions}")
    return commands, left_out


@click.command()
@click.argument("parts", nargs=-1, type=click.Choice(list(PARTS)))
@click.option("--clients", default="", metavar="NAME,...", help=", ".join(CLIENTS))
def main(parts: tuple[str, ...], clients: str) -> None:
    """Run the proxy lane: all parts, or the named ones."""
    work = Path(tempfile.mkdtemp(prefix="kproxy-lane-"))
    commands, left_out = _clients(clients)
    try:
        enter()
        with Cluster(work / "cluster") as cluster, ConnectionCounter(cluster.ports.values()) as confined:
            kproxy = Kproxy(cluster.bootstrap, work / "kproxy")
            kproxy.start()
            lane = Lane(cluster, kproxy, confined, work)
            try:
                for part in parts or PARTS:
                    click.echo(part)
                    PARTS[part](lane, commands)
                click.echo("in the end")
                lane.recorded()
                lane.watched()
            finally:
                kproxy.kill()
    except CannotRun as why:
        raise click.ClickException(f"the lane cannot run here: {why}") from None
    if lane.faults:
        click.echo(f"logs and what was recorded are in {work}")
    else:
        shutil.rmtree(work)
    sys.exit(1 if lane.faults else 2 if left_out else 0)


if __name__ == "__main__":
    main()
