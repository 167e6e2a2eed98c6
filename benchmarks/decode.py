"""Speed of decoding messages and records beside kio, kafka-python and construct: ``python -m benchmarks.decode``.

All decoders of a message are timed in turns within one run, so that their ratios are valid on a busy machine too.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from random import Random
from typing import Any

from benchmarks.messages import Sample, samples
from benchmarks.outcome import Aim, for_programs
from benchmarks.peers import PEERS
from benchmarks.timing import geometric_mean, interleaved
from dissectors.records import Record
from dissectors.records.build import build_batch
from tests.batches import batches

OURS = "kproxy"
TRACED = "kproxy traced"
RECORDS = 10_000
RECORD_BYTES = 100

_MODULES = {"kio": "kio", "kafka-python": "kafka"}
#: minimum of a peer's time over ours, as set when decoding was built
_RATIOS = {"kafka-python": 2.0, "kio": 0.5, "construct": 40.0}
_RATES = {"pure Python": 1e6}
_TRACED_US = 10_000


def missing_peers() -> dict[str, str]:
    """Return the decoders that cannot run here, with the reason."""
    return {
        peer: f"{peer} is not installed" for peer, module in _MODULES.items() if find_spec(module) is None
    }


def measure_messages(rounds: int, peers: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Time all decoders and our traced decoder on every message: microseconds per message, and ratios to ours."""
    figures = {}
    for sample in samples():
        check(sample)
        actions = {name: partial(PEERS[name](sample), sample.data) for name in peers}
        actions[TRACED] = partial(sample.layout.trace, sample.data)
        timings = interleaved(actions, rounds)
        figures[sample.name] = {
            "bytes": len(sample.data),
            "us": {name: timings.us(name) for name in actions},
            "times_ours": {name: timings.ratio(name, OURS) for name in actions},
        }
    return figures


def check(sample: Sample) -> None:
    """Check that the timed code is correct: generated decoder, traced decoder and builder agree."""
    value = sample.layout.parse(sample.data)
    assert sample.layout.trace(sample.data).root.to_value() == value
    assert sample.layout.build(value) == sample.data


def measure_records(rounds: int) -> dict[str, float]:
    """Time the reading of one uncompressed batch, in records per second."""
    rng = Random(0)
    records = [
        Record(offset, 1_700_000_000_000 + offset, b"key-%06d" % offset, rng.randbytes(RECORD_BYTES), ())
        for offset in range(RECORDS)
    ]
    data = build_batch(records)
    actions = {"pure Python": lambda: batches(data)[0].records()}
    assert batches(data)[0].records() == records
    timings = interleaved(actions, rounds)
    return {name: RECORDS / timings.us(name) * 1e6 for name in actions}


def ratios(messages: dict[str, dict[str, Any]]) -> dict[str, float]:
    """Return each peer's time as a multiple of ours, as geometric means over the messages."""
    figures = [figure["times_ours"] for figure in messages.values()]
    peers = [peer for peer in PEERS if peer != OURS and peer in figures[0]]
    return {peer: geometric_mean([figure[peer] for figure in figures]) for peer in peers}


def aims(figures: dict[str, Any]) -> Iterator[Aim]:
    """Return the aims."""
    for peer, ratio in figures["ratios"].items():
        yield Aim(f"geometric mean of {peer}'s time over kproxy's", ratio, _RATIOS[peer])
    for name, rate in figures["records_per_second"].items():
        yield Aim(f"million records a second, {name}", rate / 1e6, _RATES[name] / 1e6)
    slowest = max(figure["us"][TRACED] for figure in figures["messages"].values())
    yield Aim("us for the largest message, traced", slowest, _TRACED_US, at_most=True)


def print_tables(figures: dict[str, Any]) -> None:
    names = list(next(iter(figures["messages"].values()))["us"])
    print("Microseconds a message (times kproxy's), medians\n")
    print(f"{'':14}{'bytes':>8}" + "".join(f"{name:>20}" for name in names))
    for message, figure in figures["messages"].items():
        cells = "".join(f"{figure['us'][name]:>12.2f} {figure['times_ours'][name]:>6.2f}x" for name in names)
        print(f"{message:14}{figure['bytes']:>8}{cells}")
    print("\nGeometric mean of a peer's time over kproxy's")
    for peer, ratio in figures["ratios"].items():
        print(f"  {peer:14}{ratio:>8.2f}x")
    print(f"\n{RECORDS} records of {RECORD_BYTES} bytes in one plain batch, million records a second")
    for name, rate in figures["records_per_second"].items():
        print(f"  {name:14}{rate / 1e6:>8.2f}")
    print(*aims(figures), sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print figures for programs")
    parser.add_argument("--rounds", type=int, default=41, help="rounds of each measurement (default 41)")
    options = parser.parse_args()
    missing = missing_peers()
    messages = measure_messages(options.rounds, [peer for peer in PEERS if peer not in missing])
    figures = {
        "messages": messages,
        "ratios": ratios(messages),
        "records_per_second": measure_records(options.rounds),
    }
    if options.json:
        print(for_programs(figures, aims(figures), missing))
    else:
        print_tables(figures)


if __name__ == "__main__":
    main()
