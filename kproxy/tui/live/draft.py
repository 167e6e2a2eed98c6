"""A held message while it is edited: its fields as text and back, the whole as JSON and back, and what changed.

A :class:`Draft` is the message as it would be released. Fields are set one by one, or all at once as JSON;
:meth:`Draft.check` builds it, and returns the differences or raises. Independent of Textual; decode and build in a
thread.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from captures.interventions import Change
from dissectors import wire
from dissectors.annotate import Annotations, Annotator
from dissectors.frames import decode_request
from dissectors.headers import SIZE_BYTES
from dissectors.masks import Masks
from dissectors.printable import printable
from dissectors.schema import Field
from dissectors.session_context import SessionContext
from kproxy.proxy.rules import edits
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.rules.field_texts import InvalidError, value_of
from kproxy.proxy.verdicts import Frame, Peers
from kproxy.session.published import HeldMessage
from kproxy.text.values import short

MOST_TEXT = 1 << 20
"""Most characters of JSON that can be edited; a larger message can still be edited field by field."""
MOST_LEAVES = 20_000
"""Most fields that are listed; the others can be edited as JSON."""
_MOST_BYTES = 4096
"""Most bytes of a field that can be edited as hexadecimal digits."""
_STRUCTURED = (wire.Array, wire.Struct, wire.NullableStruct)

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Leaf:
    """An editable field, or an element of an array.

    :ivar steps: names and indexes of the path
    :ivar path: the path as text: ``topics[0].partitions[1].fetch_offset``
    :ivar con: its wire type in this version
    :ivar field: its declaration
    :ivar value: its value in the draft
    :ivar fixed: why it cannot be edited here, empty if it can
    """

    steps: Steps
    path: str
    con: wire.WireType
    field: Field
    value: Any
    fixed: str = ""

    @property
    def kind(self) -> str:
        """Its type in the terms of Kafka's documentation, with ``?`` if it is nullable."""
        return f"{self.con.kind}{'?' if self.con.nullable else ''}"

    @property
    def meaning(self) -> str:
        """Its meaning, with its unit and the names of its values."""
        type_ = self.field.type
        parts = [self.field.doc, type_.unit_text]
        if type_.domain is not None:
            names = list(type_.domain.values.values())
            parts.append(", ".join(names[:8]) + (" ..." if len(names) > 8 else ""))
        return "; ".join(filter(None, parts))

    @property
    def name(self) -> str:
        """Name of its value, empty if it has none."""
        domain = self.field.type.domain
        if domain is None or isinstance(self.value, bool) or not isinstance(self.value, int):
            return ""
        return domain.name_of(self.value) or ""

    @property
    def text(self) -> str:
        """Its value as printable text that :meth:`parse` accepts; or why it is not shown."""
        return self.fixed or _text(self.con, self.value)

    def parse(self, text: str) -> Any:
        """Return the value for a text.

        :raises InvalidError: if there is none
        """
        value = value_of(self.con, self.field.type.domain, text)
        if value is not None and not isinstance(self.con, _STRUCTURED):
            try:
                self.con.build(value)
            except Exception as error:  # from construct, struct, binascii and str
                raise InvalidError(f"this is no {self.con.kind}") from error
        return value


@dataclass(frozen=True, slots=True)
class EditResult:
    """The result of building a draft.

    :ivar data: the frame, with its size field
    :ivar changes: differences from the held frame
    """

    data: bytes
    changes: tuple[Change, ...]


class Draft:
    """An edited copy of a held message.

    :param held: metadata of the message
    :param answer: answer of the control socket to ``held``
    :param show_secrets: whether secrets may be shown and edited
    :raises EditError: if the message cannot be decoded to its end
    :ivar masked: whether it contains masked secrets; then it cannot be edited as JSON
    """

    def __init__(self, held: HeldMessage, answer: Mapping[str, Any], *, show_secrets: bool = False) -> None:
        asked = answer["response_to"]
        peers = Peers(held.connection, ("", 0), ("", 0), None, held.client_id)
        self.frame = Frame(
            peers,
            answer["side"],
            b64decode(answer["frame"]),
            answer["api_key"],
            answer["version"],
            held.correlation_id,
            held.since,
        )
        body = edits.decoded(self.frame)
        message = body.message(response=self.frame.side == "response")
        assert message is not None, "what has a value was read with a layout"
        assert body.value is not None
        self._struct = message.struct
        self._value: dict[str, Any] = edits.with_batches(message.struct, body.value)
        masked = [] if show_secrets else self._secrets(None if asked is None else b64decode(asked))
        self._masks = Masks(masked)
        self.masked = bool(masked)

    def _secrets(self, asked: bytes | None) -> list[str]:
        """Return the paths of values to mask."""
        other = edits.decoded(self.frame)  # annotating modifies it
        request = None if asked is None else decode_request(asked[SIZE_BYTES:]).value
        found = Annotations()
        Annotator(SessionContext(), payload="none").annotate(other, self.frame.side, found, request=request)
        return found.masked

    # ------------------------------------------------------------ fields
    def leaves(self) -> list[Leaf]:
        """Return the first :data:`MOST_LEAVES` fields in the order of the message."""
        found = []
        for leaf in self._in_struct(self._struct, self._value, ()):
            found.append(leaf)
            if len(found) == MOST_LEAVES:
                break
        return found

    def _in_struct(self, struct: wire.Struct, value: Mapping[str, Any], steps: Steps) -> Iterator[Leaf]:
        for member in struct.all_members:
            if member.name in value:
                yield from self._in(member.con, member.field, value[member.name], (*steps, member.name))

    def _in(self, con: wire.WireType, field: Field, value: Any, steps: Steps) -> Iterator[Leaf]:
        inner = con.struct if isinstance(con, wire.NullableStruct) else con
        # JSON may have any shape until it is checked
        if isinstance(inner, wire.Struct) and isinstance(value, Mapping):
            yield from self._in_struct(inner, value, steps)
        elif _has_rows(inner) and isinstance(value, list) and value:
            for index, item in enumerate(value):
                yield from self._in(inner.element, field, item, (*steps, index))
        else:
            path = edits.path_text(steps)
            yield Leaf(steps, path, con, field, value, self._fixed(path, con, value))

    def _fixed(self, path: str, con: wire.WireType, value: Any) -> str:
        if self._masks.covers(f"{self.frame.side}.{path}"):
            return "(masked)"
        if isinstance(con, wire.Records) and value is not None:
            count = f"{len(value):,} bytes" if isinstance(value, bytes) else f"batches: {len(value):,}"
            return f"(records, {count}: to be edited as JSON)"
        if isinstance(value, bytes) and len(value) > _MOST_BYTES:
            return f"({len(value):,} bytes: to be edited as JSON)"
        return ""

    def put(self, leaf: Leaf, value: Any) -> None:
        """Set the value of a field."""
        holder: Any = self._value
        for step in leaf.steps[:-1]:
            holder = holder[step]
        holder[leaf.steps[-1]] = value

    # ------------------------------------------------------------ JSON
    @property
    def json(self) -> str:
        """The whole message as JSON, with bytes in base64 and unprintable characters escaped."""
        return _json_text(self._value, indent=2)

    def put_json(self, text: str) -> None:
        """Replace the whole message by JSON.

        :raises InvalidError: if the JSON is invalid
        """
        try:
            value = _with_tags(json.loads(text))
        except json.JSONDecodeError as error:
            raise InvalidError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
        except RecursionError:
            raise InvalidError("this is nested too deeply") from None
        if not isinstance(value, dict):
            raise InvalidError("a message is an object: { ... }")
        self._value = value

    # ------------------------------------------------------------ result
    def check(self) -> EditResult:
        """Return the frame as it would be released.

        :raises EditError: if it is not a valid message of its API and version; the message names the wrong field
        """
        try:
            return EditResult(*edits.with_body(self.frame, self._value))
        except (OverflowError, RecursionError) as error:
            raise EditError(f"this cannot be built: {error}") from error


def differences_text(change: Change) -> tuple[str, str, str]:
    """Return path, old and new value of a change as text."""
    return change.path or "all", short(change.sent), short(change.got)


def _has_rows(con: wire.WireType) -> bool:
    """Return whether `con` is an array of structs; arrays of plain values are edited as one value."""
    return isinstance(con, wire.Array) and isinstance(con.element, wire.Struct | wire.NullableStruct)


def _text(con: wire.WireType, value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    if isinstance(value, str):
        plain = value == value.strip() == printable(value) and value not in ("", "null") and value[0] != '"'
        return value if plain else _json_text(value)
    return str(value) if isinstance(value, int | float) else _json_text(value)


def _json_text(value: Any, indent: int | None = None) -> str:
    """Return printable JSON, with bytes in base64."""
    made = json.dumps(value, indent=indent, ensure_ascii=False, default=lambda data: b64encode(data).decode())
    return made if made.isascii() else "".join(map(_escaped, made))


def _escaped(character: str) -> str:
    """Return a character of JSON, escaped if it is not printable."""
    if character == "\n" or printable(character) == character:
        return character
    code = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{code[at : at + 4]}" for at in range(0, len(code), 4))


def _with_tags(value: Any) -> Any:
    """Return a value with its unknown tags by number and as bytes, as building a message needs them."""
    if isinstance(value, list):
        return [_with_tags(item) for item in value]
    if not isinstance(value, dict):
        return value
    made = {name: _with_tags(item) for name, item in value.items()}
    tags = value.get(wire.UNKNOWN_TAGS)
    if isinstance(tags, dict):
        try:
            made[wire.UNKNOWN_TAGS] = {int(tag): b64decode(data, validate=True) for tag, data in tags.items()}
        except (ValueError, TypeError):
            raise InvalidError(f"{wire.UNKNOWN_TAGS} are numbers, with bytes in base64") from None
    return made


__all__ = ["Draft", "EditError", "EditResult", "InvalidError", "Leaf", "differences_text"]
