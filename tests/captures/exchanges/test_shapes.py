"""Messages decoded together against each decoded alone: every layout of every API, with random changes of bytes."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

from captures.exchanges.shapes import Shape, header_facts, offset_behind
from captures.meaning.payload import payload
from dissectors import wire
from dissectors.apis import NAMES
from dissectors.message_version import MessageVersion
from dissectors.projection import Projection, tree
from dissectors.records import Record, record_set
from dissectors.records.batch import HEADER_AT
from dissectors.records.build import build_batch
from tests.dissectors.test_generated import by_key
from tests.dissectors.test_projection import paths_of
from tests.dissectors.values import Values, label

COPIES = 40
BATCH = build_batch([Record(offset, 1_000, None, b"value", ()) for offset in range(3)])


def changed(rng: Random, body: bytes) -> bytes:
    """Change, omit or repeat some bytes."""
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


def without_what_each_has(value: Any, own: set[str], found: dict[str, list[int]]) -> Any:
    """Omit what is read for each message separately: records, and its own numbers, which are collected by name."""
    if isinstance(value, list):
        return [without_what_each_has(item, own, found) for item in value]
    if not isinstance(value, dict):
        return value
    left = {}
    for name, inner in value.items():
        if name in own:
            found.setdefault(name, []).append(inner)
        elif name != "records":
            left[name] = without_what_each_has(inner, own, found)
    return left


def numbers_in(con: wire.WireType, paths: list[str]) -> dict[str, str]:
    """Return the paths of numbers whose name no other field has, by name."""
    found = {}
    for path in paths:
        here = con
        for name in path.split("."):
            inside = wire.struct_inside(here)
            members = inside[0].members if inside else ()
            here = next((member.con for member in members if member.name == name), wire.INT8)
        name = path.rpartition(".")[2]
        alone = sum(other.rpartition(".")[2] == name for other in paths_of(con)) == 1
        if alone and here in (wire.INT16, wire.INT32, wire.INT64):
            found[name] = path
    return found


def grouped(shape: Shape, bodies: list[bytes]) -> tuple[np.ndarray, list[tuple[int, int]], Any, Any]:
    """Return which bodies have a shape; index and code of their wanted bytes; tallies; and own numbers."""
    data = np.frombuffer(b"".join(bodies), np.uint8)
    ends = np.cumsum([len(body) for body in bodies])
    group = shape.fit(data, ends - [len(body) for body in bodies], ends)
    codes, _ = group.codes()
    fits = np.isin(np.arange(len(bodies)), group.chosen)
    return fits, list(zip(group.chosen.tolist(), codes.tolist(), strict=True)), group.tallies, group.own


@pytest.mark.sample(6)
@pytest.mark.parametrize("layouts", by_key(), ids=NAMES)
def test_messages_of_one_shape_with_the_same_wanted_bytes_have_the_same_values(
    layouts: list[MessageVersion],
) -> None:
    for layout in layouts:
        seed = f"{label(layout)} shapes"
        rng = Random(seed)
        paths = paths_of(layout.struct)
        wanted = rng.sample(paths, min(len(paths), 4))
        projection = Projection(layout, wanted)
        numbers = numbers_in(layout.struct, wanted)
        example = layout.build(Values(seed).draw(layout.struct))
        try:
            shape = Shape(layout.struct, projection.wanted, example, own=tree(numbers.values()))
        except ValueError:
            continue
        bodies = [example, *(changed(rng, example) for _ in range(COPIES))]
        fits, coded, _, own = grouped(shape, bodies)
        assert own.keys() <= numbers.keys()
        values: dict[int, Any] = {}
        for place, (index, code) in enumerate(coded):
            found: dict[str, list[int]] = {}
            value = without_what_each_has(projection.exactly(bodies[index]), set(own), found)
            assert value == values.setdefault(code, value), (seed, index)
            for name, column in own.items() if value is not None else ():
                assert column[place].tolist() == found[name], (seed, index, name)
        assert fits[0] or not example.isascii()


def test_each_message_has_its_own_records() -> None:
    from dissectors.apis import api

    layout = api(1).response[12]  # type: ignore[union-attr]
    beside = ("records", "high_watermark", "last_stable_offset")
    projection = Projection(layout, [f"responses.partitions.{name}" for name in beside])
    cut, older = BATCH[:-5], BATCH + BATCH[:30]
    damaged = BATCH[:-1] + bytes([BATCH[-1] ^ 1])
    at = HEADER_AT["attributes"] + 1
    compressed = BATCH[:at] + bytes([BATCH[at] ^ 1]) + BATCH[at + 1 :]
    contents = [b"", BATCH, BATCH * 3, cut, older, bytes(40), b"\x01" * 100, BATCH + damaged]
    contents += [BATCH + compressed, compressed * 2]
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
    own_ones = tree(f"responses.partitions.{name}" for name in beside[1:])
    shape = Shape(layout.struct, projection.wanted, bodies[1], own=own_ones, headers=True)
    fits, coded, tallies, own = grouped(shape, bodies)
    assert fits.all()
    assert {code for _, code in coded} == {0}
    for row, records in enumerate(contents):
        found = payload([records])
        expected = found.size, found.batches, found.records, found.uncounted, found.markers
        told = (tallies.size, tallies.batches, tallies.records, tallies.uncounted, tallies.markers)
        assert tuple(int(column[row, 0]) for column in told) == expected
        complete = record_set(records).batches
        assert int(tallies.batch_bytes[row, 0]) == sum(batch.size for batch in complete)
        codecs = {batch.traits[0] for batch in complete}
        whole = sum(batch.size for batch in complete) == len(records) and all(
            batch.magic == 2 for batch in complete
        )
        assert int(tallies.codec[row, 0]) == (codecs.pop() if whole and len(codecs) == 1 else -1)
        assert int(tallies.last[row, 0]) == (complete[0].last_offset if len(complete) == 1 else -1)
        assert int(tallies.high_watermark[row, 0]) == int(own["last_stable_offset"][row, 0]) == row
        assert int(tallies.behind[row, 0]) == offset_behind(complete)
        assert tuple(int(column[row, 0]) for column in tallies.headers) == header_facts(records)


def test_offsets_beyond_int64_wrap_around() -> None:
    (first, *_) = record_set(BATCH).batches
    far = BATCH.replace(first.base_offset.to_bytes(8, "big"), (2**63 - 1).to_bytes(8, "big"), 1)
    assert offset_behind(record_set(far).batches) == -(2**63) + 2
    assert offset_behind([]) == -1
