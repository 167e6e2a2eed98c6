"""Protobuf, decoded by Google's own library: the only module that imports it.

Schemas are ``.proto`` text, compiled by grpcio-tools, or a compiled ``FileDescriptorSet``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from contextlib import redirect_stderr
from functools import cache
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import Any

from captures.payloads.payload import Format, PayloadError, SchemaError
from dissectors.errors import DecodeError
from dissectors.records.cursor import read_varint

_INSTALL = "Protobuf needs more packages: pip install 'kproxy[schema]'"
_NAMED = 20
_WELL_KNOWN = ("any", "descriptor", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers")


class ProtobufDecoder:
    """Decodes messages of one type, or of the types that message indexes select.

    :param files: serialized ``FileDescriptorProto``, dependencies first
    :param name: where they come from
    :param message: full name of the type; empty if there is only one, or messages begin with an index
    :raises SchemaError: if the files are invalid, the type is not among them, or protobuf is not installed
    """

    format: Format = "protobuf"

    def __init__(self, files: Iterable[bytes], name: str, message: str = "") -> None:
        try:
            from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
        except ImportError:
            raise SchemaError(_INSTALL) from None
        self._json_format, self._factory = json_format, message_factory
        pool = descriptor_pool.DescriptorPool()
        last = None
        try:
            for each in (*_well_known(), *files):
                last = descriptor_pb2.FileDescriptorProto.FromString(each)
                pool.Add(last)
            assert last is not None, "there are the well-known types at least"
            self._file = pool.FindFileByName(last.name)
        except Exception as error:
            raise SchemaError(f"{name} is not a Protobuf schema: {error}") from error
        self._names = list(self._file.message_types_by_name)
        self._type = self._chosen(pool, name, message)
        self.name = f"{name}: {self._type.full_name}" if self._type is not None else name

    def _chosen(self, pool: Any, name: str, message: str) -> Any:
        if not message:
            return self._file.message_types_by_name[self._names[0]] if len(self._names) == 1 else None
        package = self._file.package
        for full in (message, f"{package}.{message}"):
            try:
                return pool.FindMessageTypeByName(full)
            except KeyError:
                continue
        there = ", ".join(self._names[:_NAMED])
        raise SchemaError(f"{name} has no message {message!r}; there is {there}")

    def decode(self, data: bytes) -> Any:
        """Return a message as JSON values, with the field names of the schema.

        :raises PayloadError: if the bytes do not match, or the type is unknown
        """
        if self._type is None:
            raise PayloadError(
                f"{self.name} has several messages: name one, as in FILE:MESSAGE ({', '.join(self._names[:_NAMED])})"
            )
        return self._decoded(self._type, data)

    def decode_indexed(self, data: bytes) -> Any:
        """Decode a message that begins with the index of its type, as Confluent's serializer writes it.

        The index is a path: the number of steps, then the steps, each the position of a type among its siblings, as
        zig-zag varints; a single 0 is the first type (``MessageIndexes.java``).

        :raises PayloadError: if the bytes do not match
        """
        try:
            count, pos = read_varint(data, 0)
            if not 0 <= count <= len(data):
                raise DecodeError(f"{count} steps")
            steps = []
            for _ in range(count):
                step, pos = read_varint(data, pos)
                steps.append(step)
        except DecodeError as error:
            raise PayloadError(f"does not begin with a message index: {error.reason}") from None
        inside, found = list(self._file.message_types_by_name.values()), None
        for step in steps or [0]:
            if not 0 <= step < len(inside):
                raise PayloadError(f"does not fit {self.name}: it has no message at {steps}")
            found = inside[step]
            inside = list(found.nested_types)
        return self._decoded(self._type or found, data[pos:])

    def _decoded(self, kind: Any, data: bytes) -> Any:
        message = self._factory.GetMessageClass(kind)()
        try:
            message.ParseFromString(data)
            return self._json_format.MessageToDict(message, preserving_proto_field_name=True)
        except Exception as error:
            raise PayloadError(f"does not fit {kind.full_name}: {error}") from None


def files_of(path: Path) -> list[bytes]:
    """Return the descriptors of a ``.proto`` file, or of a compiled one, for :class:`ProtobufDecoder`.

    :raises SchemaError: if it cannot be compiled or parsed
    :raises OSError: if it cannot be opened
    """
    data = path.read_bytes()
    if path.suffix != ".proto":
        return _set_of(data, str(path))
    return _compiled(path.parent, path.name, str(path))


def compiled(text: str, name: str, imports: Mapping[str, str]) -> list[bytes]:
    """Return the descriptors of ``.proto`` text.

    :param name: where it comes from, for errors
    :param imports: text of the imported files, by the names in the import statements
    :raises SchemaError: if it cannot be compiled
    """
    with tempfile.TemporaryDirectory(prefix="kproxy-") as folder:
        root = Path(folder)
        for called, source in {**imports, "schema.proto": text}.items():
            place = (root / called).resolve()
            if not place.is_relative_to(root.resolve()):
                raise SchemaError(f"{name} imports {called!r}, which is outside of its folder")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(source)
        return _compiled(root, "schema.proto", name)


def _compiled(folder: Path, file: str, name: str) -> list[bytes]:
    try:
        import grpc_tools
        from grpc_tools import protoc
    except ImportError:
        raise SchemaError(
            f"{name}: .proto files are compiled by grpcio-tools: pip install 'kproxy[schema]', or compile it with "
            f"protoc --include_imports --descriptor_set_out={Path(file).stem}.pb and name that file"
        ) from None
    included = Path(grpc_tools.__file__).parent / "_proto"
    with tempfile.TemporaryDirectory(prefix="kproxy-") as out:
        target = Path(out) / "schema.pb"
        arguments = ["protoc", f"-I{folder}", f"-I{included}", "--include_imports"]
        output = StringIO()
        with redirect_stderr(output):
            failed = protoc.main([*arguments, f"--descriptor_set_out={target}", file])
        if failed:
            raise SchemaError(
                f"{name} cannot be compiled: {output.getvalue().strip() or 'protoc says why above'}"
            )
        return _set_of(target.read_bytes(), name)


def _set_of(data: bytes, name: str) -> list[bytes]:
    try:
        from google.protobuf import descriptor_pb2
    except ImportError:
        raise SchemaError(_INSTALL) from None
    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(data).file
    except Exception as error:
        raise SchemaError(f"{name} is not a compiled Protobuf schema (FileDescriptorSet): {error}") from error
    if not files:
        raise SchemaError(f"{name} has no schema in it")
    known = {str(file.name) for file in _well_known_files()}
    return [each.SerializeToString() for each in files if each.name not in known]


@cache
def _well_known() -> tuple[bytes, ...]:
    return tuple(file.serialized_pb for file in _well_known_files())


def _well_known_files() -> tuple[Any, ...]:
    return tuple(import_module(f"google.protobuf.{name}_pb2").DESCRIPTOR for name in _WELL_KNOWN)
