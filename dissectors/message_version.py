"""One version of one message, as a construct."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, BinaryIO

from construct import Construct, Container

from dissectors import codegen, wire
from dissectors.budget import IN_FORCE, LimitReached
from dissectors.errors import DecodeError
from dissectors.trace import Trace, trace

if TYPE_CHECKING:
    from dissectors.schema import Message


class MessageVersion(Construct):  # type: ignore[misc]  # construct ships no types
    """``Message[version]``: parses with generated code, builds with the wire types, traces field by field.

    If earlier releases encoded the same version number differently, the older layouts are tried when this one
    does not match the bytes exactly.
    """

    def __init__(self, message: Message, version: int) -> None:
        super().__init__()
        self.message = message
        self.version = version
        self.flexible = version in message.flexible
        self.older = tuple(older[version] for older in message.older if version in older.versions)

    def __repr__(self) -> str:
        return f"<{self.message.name} v{self.version}>"

    @cached_property
    def struct(self) -> wire.Struct:
        """The wire type: the fields of this version."""
        return self.message.struct.bound(self.version, flexible=self.flexible)

    @cached_property
    def _decode_fast(self) -> codegen.Decoder:
        return codegen.decoder(self.struct)

    @cached_property
    def _decode_counted(self) -> codegen.Decoder:
        return codegen.CountingDecoder(codegen.decoder(self.struct, counting=True))

    def parse(self, data: bytes, **contextkw: Any) -> dict[str, Any]:
        """Decode ``data``, all of it.

        :raises LimitReached: if it holds more than the limit ``message_objects`` allows
        :raises DecodeError: if the bytes are malformed, end early, or continue after the message
        """
        # the common case saves two calls: a heartbeat is decoded in a microsecond
        if not self.older and len(data) <= IN_FORCE["message_objects"]:
            try:
                fast, end = self._decode_fast(data, 0)
            except codegen.MALFORMED as error:
                raise self._explained(data, 0, error) from None
            if end == len(data):
                return fast  # type: ignore[no-any-return]  # a decoder of a struct returns a dict
        value, end = self.decode(data)
        if end != len(data):
            raise DecodeError(f"{len(data) - end} bytes left over after {self!r}", end)
        return value

    def decode(self, buf: bytes, pos: int = 0) -> tuple[dict[str, Any], int]:
        """Decode at ``pos``; return the value and the position after it, which may lie before the end of the bytes.

        :raises LimitReached: if there is more than the limit ``message_objects`` allows
        :raises DecodeError: if the bytes are malformed or end early
        """
        if not self.older:
            return self._decode(buf, pos)
        return self._decode_any(buf, pos)

    def _decode(self, buf: bytes, pos: int) -> tuple[dict[str, Any], int]:
        try:
            few = len(buf) <= IN_FORCE["message_objects"]
            value, end = (self._decode_fast if few else self._decode_counted)(buf, pos)
        except LimitReached:
            raise
        except codegen.MALFORMED as error:
            raise self._explained(buf, pos, error) from None
        if end > len(buf):
            raise self._explained(buf, pos, None)
        return value, end

    def _decode_any(self, buf: bytes, pos: int) -> tuple[dict[str, Any], int]:
        failed = None
        try:
            value, end = self._decode(buf, pos)
        except DecodeError as error:
            value, end, failed = {}, -1, error
        if end != len(buf):
            for older in self.older:
                exact = older.exactly(buf, pos)
                if exact is not None:
                    return exact, len(buf)
        if failed is not None:
            raise failed from None
        return value, end

    def exactly(self, buf: bytes, pos: int) -> dict[str, Any] | None:
        """Return the value if this layout alone accounts for every byte from ``pos`` on, else None."""
        try:
            value, end = self._decode(buf, pos)
        except DecodeError:
            return None
        return value if end == len(buf) else None

    def _explained(self, buf: bytes, pos: int, error: Exception | None) -> DecodeError:
        """Return the error that the generated decoder met, located by a traced reading."""
        found = trace(self.struct, buf, pos).error
        if found is not None:
            return found
        return DecodeError(f"the generated decoder of {self!r} failed: {error}", pos)

    def trace(self, buf: bytes, pos: int = 0) -> Trace:
        """Read field by field; never raises for malformed bytes. Picks the layout that :meth:`decode` picks."""
        traced = trace(self.struct, buf, pos)
        if self.older and (traced.error is not None or traced.end != len(buf)):
            for older in self.older:
                other = trace(older.struct, buf, pos)
                if other.error is None and other.end == len(buf):
                    return other
        return traced

    def _parse(self, stream: BinaryIO, context: Container, path: str) -> Any:
        return wire.parse_from_stream(self.decode, stream)

    def _build(self, obj: Any, stream: BinaryIO, context: Container, path: str) -> Any:
        return self.struct._build(obj, stream, context, path)
