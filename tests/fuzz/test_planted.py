"""The targets find defects that a review found by other means: each is planted again and searched for.

Inputs are made as in a run without coverage: from the seeds, with a fixed random seed; a limit on their number keeps
this short.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from captures.analysis import offered_versions
from captures.analysis.findings.rules import versions
from captures.export.scrub import frames, scrubber
from captures.packets.tls import keylog
from captures.tables import partition_rows
from dissectors.conversation import broker
from fuzz.target import FOUND, Input, load, whole
from fuzz.targets import analyses, exchanges, framing, packets

_MOST = 100
"""Runs of sixteen inputs each."""

Plant = Callable[[pytest.MonkeyPatch], None]


def negative_versions(patch: pytest.MonkeyPatch) -> None:
    """A version below 0 is too old, and is looked up in a table that has only some APIs."""
    least = offered_versions._KAFKA_4_LEAST
    patch.setattr(versions, "too_old", lambda api, version: version < least.get(api, 0))
    patch.setattr(versions, "kafka_4_least", least.__getitem__)


def counts_for_lists(patch: pytest.MonkeyPatch) -> None:
    """The number of a topic's partitions, in topologies of KIP-1071, is mistaken for a list of them."""
    shape = partition_rows._topic_shape

    def of_names(fields: tuple[str, ...], arrays: frozenset[str]) -> Any:
        return shape(fields, frozenset(partition_rows.PARTITION_ARRAYS))

    patch.setattr(partition_rows, "_topic_shape", of_names)


def sums_beyond_64_bits(patch: pytest.MonkeyPatch) -> None:
    """Offsets of ShareFetch are summed up unchecked."""
    patch.setattr(partition_rows, "as_int64", lambda value: value)


def envelopes_inside_envelopes(patch: pytest.MonkeyPatch) -> None:
    """Every nested Envelope is decoded, however deep."""
    walk = frames._Walk
    patch.setattr(frames, "_Walk", lambda *about, **more: walk(*about, **(more | {"enveloped": False})))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plant", "analysis", "api", "error"),
    [
        (negative_versions, analyses.diagnosed, 3, KeyError),
        (counts_for_lists, analyses.tabled, 88, TypeError),
        (sums_beyond_64_bits, analyses.tabled, 78, OverflowError),
        (envelopes_inside_envelopes, analyses.packed, 58, RecursionError),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_exchanges(
    plant: Plant, analysis: Any, api: int, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    target, number = load("analyses"), analyses.ANALYSES.index(analysis)
    inputs = [data for _, data in target.seeds()]
    of_api = [data for data in inputs if any(each.key == api for each in exchanges.said_of(Input(data[1:])))]
    rng = Random(1)
    plant(monkeypatch)

    def search() -> None:
        for _ in range(_MOST):
            changed = [analyses.mutate(rng.choice(of_api), rng.choice(inputs), rng) for _ in range(16)]
            analyses.several([bytes((number,)) + data[1 : target.longest] for data in changed])

    with pytest.raises(error):
        search()


def padding_beyond_the_frame(patch: pytest.MonkeyPatch) -> None:
    """The payload of a packet is assumed to lie in its frame, as its headers claim."""

    def rewritten(self: Any, placed: Any, at: int, frame: bytearray) -> bytes:
        start, captured = placed.payload_start(at), int(placed.packets.captured[at])
        frame[start + captured :] = bytes(len(frame) - start - captured)
        return bytes(frame)

    patch.setattr(scrubber.Scrubber, "_rewritten", rewritten)


def half_bytes_in_key_logs(patch: pytest.MonkeyPatch) -> None:
    """A session ID in a key log may have any number of digits."""
    patch.setattr(
        keylog,
        "_SESSION",
        re.compile(keylog._SESSION.pattern.replace("(?:[0-9a-fA-F]{2}){1,32}", "[0-9a-f]+")),
    )


def frames_of_two_gibibytes(patch: pytest.MonkeyPatch) -> None:
    """A response may announce any size; the table of exchanges has 32 bits for it."""
    patch.setattr(broker, "LARGEST_SIZE", 2**31 - 1)


@pytest.mark.parametrize(
    ("plant", "name", "found", "error"),
    [
        (half_bytes_in_key_logs, "tls", "crash-e3a06f5f31524776d5bfc017b2f8c98a19159560", ValueError),
        (frames_of_two_gibibytes, "pcap", "crash-3a6ec448b019e6e7c55799cb8b9711438bd68b22", OverflowError),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_was_found(
    plant: Plant, name: str, found: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The inputs of fixed defects find them if they are planted again."""
    plant(monkeypatch)
    with pytest.raises(error):
        whole(load(name))((FOUND / name / found).read_bytes())


@pytest.mark.slow
def test_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scrubbing of packets whose headers announce bytes that their frames do not have."""
    target, rng = load("pcap"), Random(1)
    inputs = [data for _, data in target.seeds()]
    padding_beyond_the_frame(monkeypatch)

    def search() -> None:
        for _ in range(_MOST):
            first = rng.choice(inputs)
            kin = [data for data in inputs if target.kin(data) == target.kin(first)]
            joined, _ = framing.join_pcap([framing.pcap(first, rng.choice(kin), rng) for _ in range(16)])
            packets.scrubbed(joined)

    with pytest.raises((ValueError, IndexError)):
        search()
