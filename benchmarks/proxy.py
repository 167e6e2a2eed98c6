"""The cost of a proxy between client and broker: ``python -m benchmarks.proxy``.

Measures kproxy without a recording, with one, and with every exchange decoded to JSON, beside no proxy, HAProxy in TCP
mode (alone and with tcpdump), Kroxylicious, socat and mitmproxy, with the loads of :mod:`benchmarks.loads`. All run at
the same time and are measured in turns. Figures are medians over the rounds; ratios and differences are computed within
a round. Aims are printed beside the figures.

    python -m benchmarks.proxy --only pingpong --only many
    python -m benchmarks.proxy --peers direct,kproxy,haproxy --rounds 2

CPU is the processor time of the proxy's processes, tcpdump included, per request, or per MB if throughput counts.
Memory is theirs at the end of a measurement, while its connections are open. Whatever a recording lacks counts as
dropped: bytes for kproxy, packets for tcpdump. If anything was dropped, the benchmark searches for the highest rate
without drops. It needs gcc, and root for tcpdump. Programs that are not installed are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any
from uuid import UUID

from benchmarks.loads import LOADS, Load, Topic, measure, server
from benchmarks.outcome import Aim, for_programs
from benchmarks.proxies import PEERS, Peer, running
from dissectors.wire import uuid_text
from tests.lanes.broker import Broker
from tests.lanes.tools import CannotRun

MIB = 1 << 20

_LISTENER = "PLAINTEXT"
_WARM_UP_S = 0.5
_SUSTAINED_STEPS = 5
_FILLED = Topic("benchmark-fetch")
_MB_TO_FETCH_S = 0.2

#: keeps the data of a load from filling the disk
_BROKER = {
    "log.segment.bytes": str(64 * MIB),
    "log.retention.bytes": str(256 * MIB),
    "log.retention.check.interval.ms": "2000",
    "log.segment.delete.delay.ms": "1000",
}


@dataclass
class Sample:
    """The measurements of one peer in one round.

    :ivar cpu_us: processor time of the proxy in microseconds per request, or per MB of a bulk load
    :ivar memory: bytes
    :ivar dropped: bytes or packets that the recording lacks
    """

    rate: float
    mb_s: float
    p50: float
    p99: float
    cpu_us: float
    memory: int
    dropped: int


@dataclass
class LoadResult:
    """A load and its samples by peer, one per round.

    :ivar sustained: the highest rate at which a recording peer dropped nothing
    """

    load: Load
    samples: dict[str, list[Sample]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    sustained: dict[str, float] = field(default_factory=dict)

    def median(self, peer: str, what: str) -> float:
        return median(getattr(sample, what) for sample in self.samples[peer])

    def throughput(self, peer: str) -> float:
        return self.median(peer, self.unit)

    @property
    def unit(self) -> str:
        return "mb_s" if self.load.bulk else "rate"

    def ratio(self, peer: str, base: str, what: str = "") -> float:
        """Throughput, or another figure, as a multiple of that of ``base``."""
        pairs = zip(self.samples[peer], self.samples[base], strict=True)
        what = what or self.unit
        return median(getattr(one, what) / getattr(other, what) for one, other in pairs)

    def added(self, peer: str, what: str) -> float:
        """Microseconds added to those without a proxy."""
        pairs = zip(self.samples[peer], self.samples["direct"], strict=True)
        return median(getattr(one, what) - getattr(other, what) for one, other in pairs)

    def has(self, *peers: str) -> bool:
        return all(self.samples.get(peer) for peer in peers)


# ---------------------------------------------------------------- measuring
class Course:
    """Loads on one target through several peers."""

    def __init__(self, peers: dict[str, Peer], folder: Path, seconds: float) -> None:
        self._peers = peers
        self._folder = folder
        self._seconds = seconds

    def run(self, loads: Sequence[Load], rounds: int, topics: dict[str, Topic]) -> list[LoadResult]:
        """Measure all peers in turns; a peer that fails with a load is skipped from then on."""
        done = [LoadResult(load) for load in loads]
        for number in range(-1, rounds):
            for each in done:
                for name in self._peers:
                    if name not in each.failed:
                        self._turn(each, name, topics.get(each.load.name, Topic()), counts=number >= 0)
            print(f"round {number + 1} of {rounds}", file=sys.stderr)
        for each in done:
            for name, peer in self._peers.items():
                # a real broker's costs are not the proxy's
                if peer.records and each.has(name) and each.load.answer is not None:
                    each.sustained[name] = self._sustained(each, name)
        return done

    def _turn(self, each: LoadResult, name: str, topic: Topic, *, counts: bool) -> None:
        try:
            sample = self._sample(
                each.load, self._peers[name], topic, self._seconds if counts else _WARM_UP_S
            )
        except CannotRun as why:
            if counts:  # a program that just started may not be ready during the warm-up
                each.failed[name] = str(why)
                each.samples.pop(name, None)
            return
        if counts:
            each.samples.setdefault(name, []).append(sample)

    def _sample(self, load: Load, peer: Peer, topic: Topic, seconds: float, rate: float = 0) -> Sample:
        cpu: list[float] = []
        memory = 0

        def begun() -> None:
            cpu.append(peer.cpu())

        def done() -> None:
            nonlocal memory
            cpu.append(peer.cpu())
            memory = peer.memory()  # slow with many processes

        peer.begin()
        try:
            got = measure(
                load, peer.port, self._folder, seconds, topic=topic, rate=rate, begun=begun, done=done
            )
        finally:
            peer.finish()
        if not got.requests:
            raise CannotRun(f"no request was answered in {seconds:g} s")
        amount = got.mb_s / got.rate * got.requests if load.bulk else got.requests
        used = (cpu[1] - cpu[0]) / amount * 1e6
        return Sample(got.rate, got.mb_s, got.p50, got.p99, used, memory, peer.dropped)

    def _sustained(self, each: LoadResult, name: str) -> float:
        """Find the highest rate at which everything is recorded, by bisection."""
        peer, load = self._peers[name], each.load
        if not any(sample.dropped for sample in each.samples[name]):
            return each.throughput(name)
        low, high = 0.0, each.median(name, "rate")
        best = 0.0
        for _ in range(_SUSTAINED_STEPS):
            rate = (low + high) / 2
            sample = self._sample(load, peer, Topic(), self._seconds, rate)
            if sample.dropped:
                high = rate
            else:
                low, best = rate, max(best, getattr(sample, each.unit))
        return best


@contextlib.contextmanager
def _broker(folder: Path) -> Iterator[tuple[int, dict[str, Topic]]]:
    """Run a real broker with a topic to produce to and one to fetch from; yield its port and the topics."""
    from kafka.admin import KafkaAdminClient, NewTopic

    with Broker(folder / "broker", {_LISTENER: "PLAINTEXT"}, properties=_BROKER) as broker:
        port = broker.ports[_LISTENER]
        admin = KafkaAdminClient(bootstrap_servers=f"127.0.0.1:{port}")
        admin.create_topics([NewTopic(Topic().name, 1, 1), NewTopic(_FILLED.name, 1, 1)])
        [described] = admin.describe_topics([_FILLED.name])
        filled = Topic(_FILLED.name, uuid_text(UUID(str(described["topic_id"])).bytes))
        admin.close()
        loads = {load.name: load for load in LOADS}
        measure(loads["broker-bulk-produce"], port, folder, _MB_TO_FETCH_S, topic=filled)
        yield port, {"broker-bulk-fetch": filled}


def measured(options: argparse.Namespace, left_out: dict[str, str]) -> Iterator[LoadResult]:
    """Run the selected measurements; report what is missing, and add it to ``left_out``."""
    wanted = [load for load in LOADS if not options.only or load.name in options.only]
    ours = [load for load in wanted if load.answer is not None]
    brokers = [load for load in wanted if load.answer is None]
    folder = Path(tempfile.mkdtemp(prefix="kproxy-loads-"))
    try:
        if ours:
            with server(folder) as port, running(options.peers, port) as (peers, missing):
                _tell(missing, left_out)
                yield from Course(peers, folder, options.seconds).run(ours, options.rounds, {})
        if brokers:
            with _broker(folder) as (port, topics), running(options.peers, port) as (peers, missing):
                _tell({} if ours else missing, left_out)
                yield from Course(peers, folder, options.seconds).run(brokers, options.rounds, topics)
    except CannotRun as why:
        print(f"not measured: {why}", file=sys.stderr)
        left_out["other loads"] = str(why)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(missing: dict[str, str], left_out: dict[str, str]) -> None:
    for name, why in missing.items():
        print(f"{PEERS[name].name} is left out: {why}", file=sys.stderr)
        left_out[PEERS[name].name] = why


# ---------------------------------------------------------------- what came out
def print_table(each: LoadResult) -> None:
    """Print a line per peer."""
    what = "MB/s" if each.load.bulk else "requests/s"
    per = "MB" if each.load.bulk else "request"
    print(f"{each.load.name}: {each.load.about}")
    print(
        f"  {'':18}{what:>12}{'of direct':>11}{'p50 us':>9}{'p99 us':>9}{'CPU us/' + per:>16}{'MiB':>9}"
        f"{'dropped':>12}"
    )
    for name in each.samples:
        print(
            f"  {PEERS[name].name:18}{each.throughput(name):12,.0f}"
            + (f"{each.ratio(name, 'direct'):11.2f}" if each.has("direct") else f"{'':11}")
            + f"{each.median(name, 'p50'):9,.0f}{each.median(name, 'p99'):9,.0f}"
            f"{each.median(name, 'cpu_us'):16,.1f}{each.median(name, 'memory') / MIB:9,.0f}"
            + (f"{each.median(name, 'dropped'):12,.0f}" if PEERS[name].records else "")
            + (f"  nothing up to {each.sustained[name]:,.0f}" if name in each.sustained else "")
        )
    for name, why in each.failed.items():
        print(f"  {PEERS[name].name:18}{why}")
    print()


def aims(all_measured: Sequence[LoadResult]) -> Iterator[Aim]:
    """Return the aims whose figures were measured."""
    for each in all_measured:
        name, bulk, real = each.load.name, each.load.bulk, each.load.answer is None
        if not real and (bulk or each.load.connections > 1):
            if each.has("kproxy", "haproxy"):
                yield Aim(
                    f"{name}: times HAProxy's throughput, capture off", each.ratio("kproxy", "haproxy"), 1
                )
            if each.has("kproxy", "mitmproxy"):
                ratio = each.ratio("kproxy", "mitmproxy")
                yield Aim(f"{name}: times mitmproxy's throughput, capture off", ratio, 10)
        if name != "pingpong" and each.sustained.keys() >= {"kproxy-w", "tcpdump"}:
            ours, theirs = (each.sustained[peer] for peer in ("kproxy-w", "tcpdump"))
            unit = "MB/s" if bulk else "requests/s"
            yield Aim(f"{name}: {unit} recorded without drops, beside HAProxy with tcpdump", ours, theirs)
        if name == "pingpong" and each.has("direct", "kproxy", "haproxy"):
            for part in ("p50", "p99"):
                ours, theirs = (each.added(peer, part) for peer in ("kproxy", "haproxy"))
                yield Aim(
                    f"{name}: us added at {part}, capture off, beside HAProxy", ours, theirs, at_most=True
                )
        if name == "broker-produce" and each.has("direct"):
            yield from _added(each)


def _added(each: LoadResult) -> Iterator[Aim]:
    for peer in ("kproxy", "kproxy-w"):
        if not each.has(peer):
            continue
        for part, target in (("p50", 50), ("p99", 200)):
            what = f"{each.load.name}: us added at {part}, {PEERS[peer].name}"
            value = each.added(peer, part)
            yield Aim(what, value, target, at_most=True)
            if each.has("kroxylicious"):
                yield Aim(
                    f"{what}, beside Kroxylicious", value, each.added("kroxylicious", part), at_most=True
                )


def figures(each: LoadResult) -> dict[str, Any]:
    """Return the results of a load: medians, kproxy's figures as ratios to each peer's, and all samples."""
    return {
        "about": each.load.about,
        "unit": "MB/s" if each.load.bulk else "requests/s",
        "peers": {PEERS[name].name: _figures_of(each, name) for name in each.samples},
        "failed": {PEERS[name].name: why for name, why in each.failed.items()},
        "samples": {
            PEERS[name].name: [asdict(sample) for sample in samples] for name, samples in each.samples.items()
        },
    }


def _figures_of(each: LoadResult, name: str) -> dict[str, Any]:
    found: dict[str, Any] = {
        "throughput": each.throughput(name),
        **{what: each.median(name, what) for what in ("p50", "p99", "cpu_us", "memory")},
    }
    if PEERS[name].records:
        found["dropped"] = each.median(name, "dropped")
        if name in each.sustained:
            found["sustained"] = each.sustained[name]
    if name != "direct" and each.has("direct"):
        found["of_direct"] = each.ratio(name, "direct")
        found["added"] = {part: each.added(name, part) for part in ("p50", "p99")}
    if name != "kproxy" and each.has("kproxy"):
        # figures of kproxy without a recording; without a proxy there is neither processor time nor memory
        shares = ("cpu_us", "memory") if name != "direct" else ()
        found["kproxy"] = {"throughput": each.ratio("kproxy", name)}
        found["kproxy"] |= {
            what: each.ratio("kproxy", name, what)
            for what in shares
            if all(getattr(sample, what) for sample in each.samples[name])
        }
    return found


def _peers(text: str) -> list[str]:
    names = text.split(",")
    for name in names:
        if name not in PEERS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(PEERS)}")
    return names


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print all samples, for programs")
    parser.add_argument("--rounds", type=int, default=4, help="rounds of each measurement (default 4)")
    parser.add_argument("--seconds", type=float, default=1.0, help="that one takes (default 1)")
    loads = [load.name for load in LOADS]
    parser.add_argument("--only", action="append", choices=loads, metavar="LOAD", help=", ".join(loads))
    parser.add_argument(
        "--peers", type=_peers, default=list(PEERS), metavar="NAME,...", help=", ".join(PEERS)
    )
    options = parser.parse_args()
    done = []
    missing: dict[str, str] = {}
    for each in measured(options, missing):
        done.append(each)
        if not options.json:
            print_table(each)
    reached = list(aims(done))
    if options.json:
        print(for_programs({each.load.name: figures(each) for each in done}, reached, missing))
    else:
        print(*reached, sep="\n")


if __name__ == "__main__":
    main()
