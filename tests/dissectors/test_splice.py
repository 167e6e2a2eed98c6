"""Replaced values: the decoder gives the new ones and leaves all others unchanged, and restoring the old ones gives the
old bytes.
"""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
from construct import ConstructError

from dissectors import apis, wire
from dissectors.locator import FieldLocation, FieldLocator
from dissectors.message_version import MessageVersion
from dissectors.schema import Array, Int32, Message, String, Struct
from dissectors.splice import replaced, splice
from tests.dissectors.test_generated import by_key
from tests.dissectors.test_locator import leaves_of
from tests.dissectors.values import Values, label

ROUNDS = 3


def decoded(layout: MessageVersion, data: bytes) -> dict[str, Any]:
    """The value in this layout, whether or not an older one also fits."""
    value = layout.exactly(data, 0)
    assert value is not None
    return value


def put(value: Any, path: str, new: Any) -> None:
    """Put a new value into a decoded message: ``topics[2].name``."""
    *way, last = [int(part) if part.isdigit() else part for part in re.findall(r"\w+", path)]
    for part in way:
        value = value[part]
    value[last] = new


@pytest.mark.sample(3)
@pytest.mark.parametrize("layouts", by_key(), ids=apis.NAMES)
def test_any_values_of_any_message(layouts: list[MessageVersion]) -> None:
    for layout in layouts:
        fields = leaves_of(layout.struct)
        for number in range(ROUNDS):
            seed = f"{label(layout)} splice {number}"
            rng, values = Random(seed), Values(f"{seed} new")
            data = layout.build(Values(seed).draw(layout.struct))
            locator = FieldLocator.to_fields([layout.struct], rng.sample(fields, min(len(fields), 3)))
            locations = [location for location in locator.find(data) if rng.random() < 0.7]
            rng.shuffle(locations)
            edits: list[tuple[FieldLocation, Any]] = [
                (location, values.draw(location.con)) for location in locations
            ]
            expected = decoded(layout, data)
            for location, new in edits:
                put(expected, location.path, new)
            changed = splice(data, edits)
            assert changed == layout.build(expected), seed
            old = {location.path: location.value for location in locations}
            back = [
                (location, old[location.path]) for location in locator.find(changed) if location.path in old
            ]
            assert splice(changed, back) == data, seed


INNER = Struct("name" / String * "n").tag(1)
NESTED = Message(
    "Nested", None, "data", "0", "0+",
    "outer" / Struct("inner" / INNER * "i", "list" / Array("host" / String * "h") * "l").tag(3) * "o",
    "last" / Int32 * "l",
)[0]  # fmt: skip


def test_sizes_of_all_tagged_fields_around_follow() -> None:
    value = {"outer": {"list": [{"host": "h"}], "inner": {"name": "n"}}, "last": 1, "_tags": {9: b"kept"}}
    data = NESTED.build(value)
    locator = FieldLocator.to_fields([NESTED.struct], ["outer.inner.name", "outer.list.host", "last"])
    by_path = {location.path: location for location in locator.find(data)}
    assert sorted(by_path) == ["last", "outer.inner.name", "outer.list[0].host"]
    for length in (0, 1, 120, 124, 125, 126, 127, 128, 129, 300, 16380, 16384):
        new = {"outer": {"list": [{"host": "x" * length}], "inner": {"name": "y" * length}}}
        edits = [(by_path["outer.inner.name"], "y" * length), (by_path["outer.list[0].host"], "x" * length)]
        assert splice(data, edits) == NESTED.build({**value, **new})


def test_lengths_that_take_more_bytes_than_they_need_stay_elsewhere() -> None:
    known = apis.api(12)
    assert known is not None
    heartbeat = known.request[4]
    # kio 0.6.5: group g1, generation 7, member m, no instance; the group's length, the count of tags and the null
    # written in two bytes, one unknown tag with its number in three, and two bytes behind the message
    data = bytes.fromhex("8300673100000007026d800081008980008100aaffff")
    (location,) = FieldLocator.to_fields([heartbeat.struct], ["member_id"]).find(data)
    assert splice(data, [(location, "member")]) == data.replace(b"\x02m", b"\x07member")
    assert splice(data, []) == data


def test_values_that_do_not_fit() -> None:
    known = apis.api(12)
    assert known is not None
    data = b"\x03g1\x00\x00\x00\x07\x02m\x00\x00"
    generation, member = FieldLocator.to_fields(
        [known.request[4].struct], ["generation_id", "member_id"]
    ).find(data)
    for edit in ((generation, 1 << 31), (generation, "7"), (member, None), (member, 7)):
        with pytest.raises(ConstructError):
            splice(data, [edit])
    classic = wire.String(compact=False, nullable=False)
    with pytest.raises(ConstructError):
        splice(b"\x00\x00", [(FieldLocation("x", (), 0, 2, "", classic, None), "x" * 32768)])


def test_ranges() -> None:
    assert replaced(b"0123456789", [(8, 10, b""), (0, 1, b"abc"), (4, 4, b"-")]) == b"abc123-4567"
