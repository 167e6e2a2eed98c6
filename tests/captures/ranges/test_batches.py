"""Files read in batches give the same as one reading of all, although earlier batches are gone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture
from captures.json_objects import to_json
from captures.packets.tls import KeyLog
from captures.ranges.batches import BatchState, stitch_and_number_batch
from captures.ranges.edges import pack, unpack
from captures.ranges.jobs import Input, read_exchanges, read_part
from captures.ranges.plan import make_plan
from captures.ranges.whole_connections import WholeConnection
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.packets.kit import pcap
from tests.captures.ranges.made import traffic
from tests.captures.spark.kit import cut

pytestmark = pytest.mark.slow

TLS = DATA / "24_k430_tls13_franz.pcap"
KEYLOG = (DATA / "24_k430_tls13_franz.keylog").read_bytes()


class Batches:
    """Reads files, each of which is a batch and is gone when the next one is read.

    :ivar exchanges: as in ``read --json``, except for what later batches reveal
    :ivar standing: state that is passed to the next batch
    :ivar connections: by id
    """

    def __init__(self, size: int = 30_000, keylog: bytes = b"") -> None:
        self._size = size
        self._keylog = keylog
        self.standing = BatchState()
        self.exchanges: list[dict[str, Any]] = []
        self.connections: dict[int, WholeConnection] = {}

    def read(self, *files: Path) -> list[dict[str, Any]]:
        """Read a batch; return its exchanges."""
        given = Input(make_plan([str(path) for path in files], self._size), self._keylog)
        told = {part.number: list(read_part(given, part)) for part in given.plan.ranges}
        before: BatchState = unpack(pack(self.standing))  # as it goes from one process to another
        (given, _, _, numbered), self.standing = stitch_and_number_batch(given, told, before)
        self.connections |= numbered.connections
        found = [
            plain(exchange)
            for context in numbered.contexts
            for exchange in read_exchanges(given, unpack(pack(context)), numbered.facts).exchanges(
                annotate=False
            )
        ]
        self.exchanges += found
        for path in files:
            path.unlink()
        return found


def plain(exchange: Exchange) -> dict[str, Any]:
    told: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(to_json(exchange)))
    for name in ("summary", "topic", "topics"):  # names may become known later
        told.pop(name, None)
    return told


def one_reading(path: Path, keylog: bytes = b"") -> list[dict[str, Any]]:
    secrets = KeyLog()
    secrets.add(keylog)
    capture = open_capture(str(path), keylog=secrets)
    capture.read()
    reader = ExchangeReader(capture, annotate=False)
    reader.learn(len(reader))
    return [plain(each) for each in ExchangeReader(capture, annotate=False, knowledge=reader.knowledge)]


def counted(exchanges: Sequence[dict[str, Any]]) -> Counter[bytes]:
    """Count exchanges without their numbers, which are per batch."""
    return Counter(msgspec.json.encode({**each, "number": 0}, order="deterministic") for each in exchanges)


def compare(found: Batches, expected: list[dict[str, Any]]) -> None:
    """Check that batches have told all exchanges, each once, but those of which it is not known that nobody answers.

    :raises AssertionError: if they have not
    """
    one, other = counted(expected), counted(found.exchanges)
    assert not other - one
    assert all(b"UNANSWERED" in each.upper() for each in one - other)
    assert [each["number"] for each in found.exchanges] == list(range(1, len(found.exchanges) + 1))


@pytest.mark.parametrize("count", [1, 2, 7, 40])
def test_a_recorded_rebalance(count: int, tmp_path: Path) -> None:
    batches = Batches()
    for path in cut(SAMPLE, count, tmp_path):
        batches.read(path)
    compare(batches, one_reading(SAMPLE))
    assert len(batches.exchanges) > 390
    assert batches.standing.counts.packets == 1518
    assert batches.standing.counts.exchanges == len(batches.exchanges)
    assert len(pack(batches.standing)) < 20_000


def test_several_files_a_batch(tmp_path: Path) -> None:
    batches = Batches(15_000)
    files = cut(SAMPLE, 9, tmp_path)
    batches.read(*reversed(files[:4]))
    batches.read(*files[4:8])
    batches.read(files[8])
    compare(batches, one_reading(SAMPLE))


def test_within_a_batch_numbers_are_in_the_order_of_first_bytes(tmp_path: Path) -> None:
    batches = Batches(8_000)
    expected = {
        msgspec.json.encode({**each, "number": 0}, order="deterministic"): each["number"]
        for each in one_reading(SAMPLE)
    }
    for path in cut(SAMPLE, 3, tmp_path):
        found = [
            expected[msgspec.json.encode({**each, "number": 0}, order="deterministic")]
            for each in batches.read(path)
        ]
        assert found == sorted(found)


@pytest.mark.parametrize("count", [2, 5])
def test_tls(count: int, tmp_path: Path) -> None:
    batches = Batches(9_000, KEYLOG)
    for path in cut(TLS, count, tmp_path):
        batches.read(path)
    compare(batches, one_reading(TLS, KEYLOG))
    assert len(batches.exchanges) > 10


def test_secrets_that_come_late_are_in_time_for_what_was_not_read_yet(tmp_path: Path) -> None:
    files = cut(TLS, 3, tmp_path)
    without, batches = Batches(9_000), Batches(9_000, KEYLOG)
    told = without.read(files[0])
    batches.standing = without.standing
    for path in files[1:]:
        batches.read(path)
    found = counted(told) + counted(batches.exchanges)
    assert not found - counted(one_reading(TLS, KEYLOG))


@pytest.mark.parametrize("seed", [*range(6), 24])  # 24: a port is used again while its connection is carried
def test_made_traffic(seed: int, tmp_path: Path) -> None:
    found, expected = both(seed, 0, tmp_path)
    compare(found, expected)


@pytest.mark.parametrize("seed", range(4))
def test_in_trouble_nothing_is_told_twice(seed: int, tmp_path: Path) -> None:
    """Exchanges reported at the end of a batch may turn out to be wrong, but are not retracted or reported again."""
    found, expected = both(seed, 0.05, tmp_path)
    one, other = requests(expected), requests(found.exchanges)
    assert not other - one
    assert len(found.exchanges) > len(expected) // 2


def both(seed: int, trouble: float, folder: Path) -> tuple[Batches, list[dict[str, Any]]]:
    """Made traffic, read in batches and in one go."""
    rng = Random(seed)
    path = folder / "made.pcap"
    path.write_bytes(pcap(traffic(rng, trouble=trouble)))
    expected = one_reading(path)
    batches = Batches(rng.choice((3_000, 1 << 20)))
    for each in cut(path, rng.choice((2, 3, 9)), folder / "cut"):
        batches.read(each)
    return batches, expected


def requests(exchanges: Sequence[dict[str, Any]]) -> Counter[Any]:
    """Count requests by their ends, whoever asks whom, and their first byte."""
    return Counter(
        (frozenset((each["client"], each["broker"])), each["time"], each["correlation_id"])
        for each in exchanges
    )
