"""Random values of wire types, and the list of every layout: the input of the decoder's property tests.

Values are exactly those of the decoder: numbers in arrays as tuples, other arrays as lists, absent tagged fields
absent, unknown tags under ``_tags``. All randomness comes from a named seed, so failures are reproducible.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

from dissectors import apis, wire
from dissectors.message_version import MessageVersion

TEXTS = (
    "",
    "a",
    "orders",
    "größe",
    "日本語",
    "🦓",
    "consumer-1-" + "x" * 100,
    "x" * 126,
    "x" * 127,
    "y" * 300,
)
LIMITS = {
    "b": (8, True),
    "h": (16, True),
    "H": (16, False),
    "i": (32, True),
    "I": (32, False),
    "q": (64, True),
}
FLOATS = (0.0, -0.5, 1e300, -1e-300, float("inf"), float("-inf"))


def limits(code: str) -> tuple[int, int]:
    """The lowest and highest value of a struct code."""
    bits, signed = LIMITS[code]
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)


class Values:
    """Draws values for wire types; ``depth`` keeps deep messages small."""

    def __init__(self, seed: str, *, unknown_tags: bool = True, tags: float = 0.5) -> None:
        self.rng = Random(seed)
        self.unknown_tags = unknown_tags
        self.tags = tags

    def draw(self, con: wire.WireType, depth: int = 0) -> Any:
        if isinstance(con, wire.NullableStruct):
            return None if self.rng.random() < 0.3 else self.draw(con.struct, depth)
        if con.nullable and self.rng.random() < 0.2:
            return None
        match con:
            case wire.FixedWidth():
                return self.number(con)
            case wire.Uuid():
                return wire.uuid_text(self.rng.choice((bytes(16), self.rng.randbytes(16))))
            case wire.String():
                return self.rng.choice(TEXTS)
            case wire.Bytes():
                return self.rng.randbytes(self.rng.choice((0, 1, 20, 126, 127, 128, 400)))
            case wire.Array():
                return self.array(con, depth + 1)
            case wire.Struct():
                return self.struct(con, depth)
        raise AssertionError(f"no values for {con!r}")

    def number(self, con: wire.FixedWidth) -> Any:
        if con.code == "?":
            return self.rng.random() < 0.5
        if con.code == "d":
            return self.rng.choice((*FLOATS, self.rng.uniform(-1e6, 1e6)))
        low, high = limits(con.code)
        return self.rng.choice((low, high, 0, max(low, -1), self.rng.randint(low, high)))

    def array(self, con: wire.Array, depth: int) -> Any:
        if isinstance(con.element, wire.FixedWidth):
            count = self.rng.choice((0, 1, 3, 126, 127, 200))
            return tuple(self.number(con.element) for _ in range(count))
        count = self.rng.choice(((0, 1, 3, 5), (0, 1, 1, 2, 4), (0, 1, 4))[min(depth, 3) - 1])
        items = [self.draw(con.element, depth) for _ in range(count)]
        if count > 3 and self.rng.random() < 0.6:
            items = [items[0], *(self.like(con.element, items[0]) for _ in range(count - 1))]
        return items

    def like(self, con: wire.WireType, value: Any) -> Any:
        """Another value of the same byte shape: the same lengths and tags, other numbers and letters."""
        match con:
            case wire.Struct():
                members = {member.name: member.con for member in con.members}
                return {
                    name: self.like(members[name], item) if name in members else item
                    for name, item in value.items()
                }
            case wire.FixedWidth():
                return self.number(con)
            case wire.Array() if value is not None:
                return type(value)(self.like(con.element, item) for item in value)
            case wire.String() if value is not None and value.isascii():
                return "".join(self.rng.choice("abcxyz-.09") for _ in value)
        return value

    def struct(self, con: wire.Struct, depth: int) -> dict[str, Any]:
        value = {member.name: self.draw(member.con, depth) for member in con.members}
        if con.tagged is not None:
            for member in con.tagged.values():
                if self.rng.random() < self.tags:
                    value[member.name] = self.draw(member.con, depth + 1)
            if self.unknown_tags and self.rng.random() < 0.15:
                numbers = {self.rng.choice((5, 127, 128, 9999)) for _ in range(2)} - set(con.tagged)
                value[wire.UNKNOWN_TAGS] = {
                    number: self.rng.randbytes(self.rng.choice((0, 3, 200))) for number in sorted(numbers)
                }
        return value


@cache
def every_layout() -> tuple[MessageVersion, ...]:
    """Every message in every version, with the layouts that earlier releases used for the same numbers."""

    def layouts() -> Iterator[MessageVersion]:
        for key in range(len(apis.NAMES)):
            known = apis.api(key)
            assert known is not None
            for message in (known.request, known.response):
                for version in message.versions:
                    yield message[version]
                    yield from message[version].older

    return tuple(layouts())


def label(layout: MessageVersion) -> str:
    """A unique name of a layout."""
    message = layout.message
    known = apis.api(message.key if message.key is not None else -1)
    newest = known is not None and message in (known.request, known.response)
    return f"{message.name} v{layout.version}" + ("" if newest else " older")
