"""What of a frame must not be seen: as values and as bytes.

Annotations list the values that are secret. Bytes tell more than values do: a secret is also in what it was compressed
to, in a bytes field that holds the message it is a field of, and in what could not be decoded for lack of bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from dissectors import schema
from dissectors.apis import api
from dissectors.frames import Body
from dissectors.schema import Field
from kproxy.tui.detail.nodes import Side

_SECRET_CONTENTS = frozenset({"sasl_token", "config_value", "envelope_request", "envelope_response"})


class Masks:
    """The paths of secret values, and those of what they are in.

    :param paths: of the values
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._paths = frozenset(paths)
        self._outer = frozenset(outer for path in self._paths for outer in _prefixes(path))

    def __contains__(self, path: str) -> bool:
        return path in self._paths

    def within(self, path: str) -> bool:
        """Tell whether a secret is inside a field."""
        return path in self._outer


def _prefixes(path: str) -> Iterator[str]:
    for at, character in enumerate(path):
        if character in ".[":
            yield path[:at]


def may_hold_secrets(body: Body, side: Side) -> bool:
    """Tell whether messages like this one have fields that may be secret."""
    return _has_secrets(body.key, side)


@lru_cache(maxsize=256)
def _has_secrets(key: int, side: Side) -> bool:
    known = api(key)
    if known is None:
        return False
    message = known.request if side == "request" else known.response
    return any(_is_secret(field) for field in message.fields)


def _is_secret(field: Field) -> bool:
    type_ = field.type
    if isinstance(type_, schema.Array):
        type_ = type_.element
    if isinstance(type_, schema.Struct):
        return any(_is_secret(inner) for inner in type_.fields)
    return type_.is_secret or type_.content in _SECRET_CONTENTS


def merged(ranges: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return ranges in order, with those put together that touch."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        elif start < end:
            found.append((start, end))
    return tuple(found)


def zeroed(data: bytes, ranges: Iterable[tuple[int, int]]) -> bytes:
    """Return bytes with ranges of them zeroed, as far as these exist."""
    out = bytearray(data)
    for start, end in ranges:
        out[start:end] = bytes(max(min(end, len(out)) - start, 0))
    return bytes(out)
