"""Messages decoded together against each decoded by itself: every layout of every API, with bytes changed at random."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from captures.exchanges.shapes import Group, Shape, header_facts
from captures.meaning.payload import payload
from dissectors.apis import NAMES
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection
from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from tests.dissectors.test_generated import by_key
from tests.dissectors.test_projection import paths_of
from tests.dissectors.values import Values, label

COPIES = 40
BATCH = build_batch([Record(offset, 1_000, None, b"value", ()) for offset in range(3)])


def changed(rng: Random, body: bytes) -> bytes:
    """Change some bytes, or leave some out, or repeat some."""
    made = bytearray(body)
    for _ in range(rng.choice((0, 1, 1, 2))):
        if made:
            at = rng.randrange(len(made))
            match rng.randrange(8):
                case 0:
                    del made[at : at + rng.randrange(3)]
                case 1:
                    made[at:at] = made[at : at + rng.randrange(3)]
                case _:
                    made[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)))
    return bytes(made)


def without_what_each_has(value: Any) -> Any:
    """Leave out what is read for each message by itself: records and the high watermark beside them."""
    if isinstance(value, list):
        return [without_what_each_has(item) for item in value]
    if isinstance(value, dict):
        return {
            name: None if name in ("records", "high_watermark") else without_what_each_has(inner)
            for name, inner in value.items()
        }
    return value


def grouped(shape: Shape, bodies: list[bytes]) -> tuple[np.ndarray, list[tuple[int, int]], Any]:
    """Return which bodies have a shape, of these the index and the code of their wanted bytes, and the tallies."""
    data = np.frombuffer(b"".join(bodies), np.uint8)
    ends = np.cumsum([len(body) for body in bodies])
    fits, keys, tallies, _ = shape.fit(data, ends - [len(body) for body in bodies], ends)
    chosen = np.flatnonzero(fits)
    codes, _ = Group(shape, chosen, keys, tallies).codes()
    return fits, list(zip(chosen.tolist(), codes.tolist(), strict=True)), tallies


@pytest.mark.sample(6)
@pytest.mark.parametrize("layouts", by_key(), ids=NAMES)
def test_messages_of_one_shape_with_the_same_wanted_bytes_have_the_same_values(
    layouts: list[MessageVersion],
) -> None:
    for layout in layouts:
        seed = f"{label(layout)} shapes"
        rng = Random(seed)
        paths = paths_of(layout.struct)
        projection = Projection(layout, rng.sample(paths, min(len(paths), 4)))
        example = layout.build(Values(seed).draw(layout.struct))
        try:
            shape = Shape(layout.struct, projection.wanted, example)
        except ValueError:
            continue
        bodies = [example, *(changed(rng, example) for _ in range(COPIES))]
        fits, coded, _ = grouped(shape, bodies)
        values: dict[int, Any] = {}
        for index, code in coded:
            value = projection.exactly(bodies[index])
            if code not in values:
                values[code] = value
            assert without_what_each_has(value) == without_what_each_has(values[code]), (seed, index)
        assert fits[0] or not example.isascii()


def test_each_message_has_its_own_records() -> None:
    from dissectors.apis import api

    layout = api(1).response[12]  # type: ignore[union-attr]
    beside = ("records", "high_watermark", "last_stable_offset")
    projection = Projection(layout, [f"responses.partitions.{name}" for name in beside])
    cut, older = BATCH[:-5], BATCH + BATCH[:30]
    damaged = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
    contents = [b"", BATCH, BATCH * 3, cut, older, bytes(40), b"\x01" * 100, BATCH + damaged]
    bodies = []
    for number, records in enumerate(contents):
        partition = {
            "partition_index": 3, "error_code": 0, "high_watermark": number, "last_stable_offset": number,
            "log_start_offset": 0, "aborted_transactions": None, "preferred_read_replica": -1, "records": records,
        }  # fmt: skip
        responses = [{"topic": "orders", "partitions": [partition]}]
        bodies.append(
            layout.build({"throttle_time_ms": 0, "error_code": 0, "session_id": 0, "responses": responses})
        )
    shape = Shape(layout.struct, projection.wanted, bodies[1], headers=True)
    fits, coded, tallies = grouped(shape, bodies)
    assert fits.all()
    assert {code for _, code in coded} == {0}
    for row, records in enumerate(contents):
        found = payload([records])
        expected = found.size, found.batches, found.records, found.uncounted, found.markers
        told = (tallies.size, tallies.batches, tallies.records, tallies.uncounted, tallies.markers)
        assert tuple(int(column[row, 0]) for column in told) == expected
        complete = record_set(records).batches
        assert int(tallies.batch_bytes[row, 0]) == sum(batch.size for batch in complete)
        assert int(tallies.last[row, 0]) == (complete[0].last_offset if len(complete) == 1 else -1)
        assert int(tallies.high_watermark[row, 0]) == int(tallies.last_stable[row, 0]) == row
        assert tuple(int(column[row, 0]) for column in tallies.headers) == header_facts(records)
