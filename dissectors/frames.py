"""Decoding of whole frames into headers and bodies, whichever release wrote them.

A frame's payload follows its 4-byte size. Requests name their API and version; a response is decoded in the version
of its request, which the caller supplies. Real peers deviate, and the decoder follows them:

* A broker that does not know an ApiVersions version answers in v0 with error 35 (KIP-511). Some answer with error
  35 in the requested version (librdkafka's mock, and not correctly); clients then read it as that version.
* Brokers before 0.10 do not check versions and answer in the newest version they know (Fetch v1 in v0 format).
  Others answer in a later version than requested (nafka: ApiVersions v2 in v3 format).
* Newer clients send versions and APIs that are not declared here yet.

A body decoded in another version than announced is marked (:attr:`Body.version`, :attr:`Body.guess`), and accepted only
if every byte is accounted for. Malformed bytes never raise here: they are reported as a :class:`Problem`, and
everything decoded before it is kept.

Offsets count from the first byte of the size field.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec

from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api
from dissectors.budget import LimitReached, message_budget
from dissectors.error_codes import ErrorCode
from dissectors.errors import DecodeError
from dissectors.headers import (
    SIZE_BYTES,
    RequestHeader,
    ResponseHeader,
    request_header,
    response_header,
    response_header_version,
)
from dissectors.message_version import MessageVersion
from dissectors.records import trace_records
from dissectors.schema import Message
from dissectors.trace import Node, trace

_REQUEST_START = struct.Struct(">hhi")
_ERROR_CODE = struct.Struct(">h")

_TRAILING = "bytes after the end of the message"
_LAYOUTS = 4096  # more than exist; damaged requests announce any version of any API


class Problem(msgspec.Struct, frozen=True):
    """Something wrong with a frame.

    :ivar offset: byte offset from the first byte of the size field, -1 if it concerns the whole frame
    :ivar path: field path from the body's root, empty for the header or the whole
    :ivar reason: what is wrong, in words
    :ivar limit: name of the limit beyond which nothing is decided, empty for other problems
    """

    offset: int
    path: str
    reason: str
    limit: str = ""


@dataclass(slots=True)
class Body:
    """A decoded request or response.

    :ivar key: API key
    :ivar asked: version that the request announced
    :ivar version: version in which the body was decoded, or None if it was not
    :ivar header: the header's fields
    :ivar value: the body's fields; partial if there are problems; None if the API is unknown or no layout matches
    :ivar start: offset of the body's first byte
    :ivar raw: the payload
    :ivar guess: why the body was decoded in another version than ``asked``, empty if it was not
    :ivar problems: what was wrong
    """

    key: int
    asked: int
    version: int | None
    header: dict[str, Any]
    value: dict[str, Any] | None
    start: int
    raw: bytes
    guess: str = ""
    problems: list[Problem] = field(default_factory=list)

    @property
    def read_as(self) -> int:
        """Version in which the body was decoded; if it was not, the announced one."""
        return self.asked if self.version is None else self.version

    @property
    def beyond_limit(self) -> bool:
        """Whether the body was not decoded because a limit was reached."""
        return self.value is None and any(problem.limit for problem in self.problems)

    def message(self, *, response: bool) -> MessageVersion | None:
        """Return the construct that decoded the body."""
        known = api(self.key)
        if known is None or self.version is None:
            return None
        return (known.response if response else known.request)[self.version]


def decode_request(payload: bytes, *, complete: bool = True) -> Body:
    """Decode a request frame.

    :param payload: the frame without its size field
    :param complete: False if the capture lacks the end of the frame, so that missing bytes are expected
    """
    if len(payload) < _REQUEST_START.size:
        reason = f"{len(payload)} bytes are too few for a request header"
        return Body(-1, -1, None, {}, None, SIZE_BYTES, payload, problems=[Problem(SIZE_BYTES, "", reason)])
    key, asked, _ = _REQUEST_START.unpack_from(payload)
    header, message = _request_layouts(key, asked)
    body = Body(key, asked, None, {}, None, SIZE_BYTES, payload)
    start = _read_header(header, body)
    if start is None:
        return body
    if message is None:
        body.guess = "unknown API: only the header is decoded"
        return body
    _read_body(message, body, start, complete=complete)
    if message.version != asked and not body.beyond_limit:
        body.guess = f"version {asked} is not known here, read as {message.version}"
    return body


@lru_cache(maxsize=_LAYOUTS)
def _request_layouts(key: int, asked: int) -> tuple[MessageVersion, MessageVersion | None]:
    """Return the layouts of header and body of a request; None as the body's if the API is unknown."""
    known = api(key)
    if known is None:
        return RequestHeader[1], None
    version = known.request.nearest(asked)
    return request_header(known.request, version), known.request[version]


def decode_response(payload: bytes, key: int, asked: int, *, complete: bool = True) -> Body:
    """Decode the response to a request of API ``key`` in version ``asked``."""
    body = Body(key, asked, None, {}, None, SIZE_BYTES, payload)
    known = api(key)
    if known is None:
        body.guess = "unknown API: only the header is decoded"
        _read_header(ResponseHeader[0], body)
        return body
    version = _answered_version(known, payload, asked, complete=complete)
    read = _read_response(known.response, version, body, complete=complete)
    if not read and complete and not body.beyond_limit:
        _read_in_other_version(known.response, version, body)
    if not body.guess and body.version not in (None, asked):
        if body.version == 0 and key == ApiKey.API_VERSIONS:
            body.guess = f"version {asked} is not supported, answered in version 0"
        else:
            body.guess = f"version {asked} is not known here, read as {body.version}"
    return body


def _answered_version(known: Api, payload: bytes, asked: int, *, complete: bool) -> int:
    if known.key == ApiKey.API_VERSIONS and asked and len(payload) >= 6:
        # the first field in every version, so it reveals the fallback before anything else is read
        unsupported = _ERROR_CODE.unpack_from(payload, 4)[0] == ErrorCode.UNSUPPORTED_VERSION
        if unsupported and not (complete and _only_readable_as_asked(known.response, payload, asked)):
            return 0
    return known.response.nearest(asked)


def _only_readable_as_asked(response: Message, payload: bytes, asked: int) -> bool:
    """Return whether an ApiVersions response with error 35 is in the requested version and not in v0.

    Clients try the requested version first and v0 next (``ApiVersionsResponse.parse``). A response that is correct in
    neither is therefore decoded in the requested version if that succeeds: the throttle time of librdkafka's mock is
    read from the wrong bytes.
    """
    if asked not in response.versions or response[0].exactly(payload, 4) is not None:
        return False
    try:
        response[asked].decode(payload, 4)
    except DecodeError:
        return False
    return True


def _read_response(response: Message, version: int, body: Body, *, complete: bool) -> bool:
    """Decode header and body in one version; return whether every byte is accounted for."""
    header, message = _response_layouts(response, version)
    start = _read_header(header, body)
    if start is None:
        return False
    _read_body(message, body, start, complete=complete)
    return not body.problems


@lru_cache(maxsize=_LAYOUTS)
def _response_layouts(response: Message, version: int) -> tuple[MessageVersion, MessageVersion]:
    return response_header(response, version), response[version]


def _read_in_other_version(response: Message, version: int, body: Body) -> None:
    """Try the versions below ``version``, because brokers up to 0.9 answer in the newest they know; then those above
    it.

    Later versions are not tried for a message that only has bytes after its end: versions grow by fields at the end, so
    that any trailing zeros would match one.
    """
    versions = list(range(version - 1, response.versions.first - 1, -1))
    if not _decoded_to_its_end(body):
        versions += range(version + 1, response.versions.last + 1)
    for other in versions:
        start = 4
        if response_header_version(response, other):
            try:
                _, start = ResponseHeader[1].decode(body.raw)
            except DecodeError:
                continue
        value = response[other].exactly(body.raw, start)
        if value is not None:
            body.version, body.value, body.start = other, value, start + SIZE_BYTES
            body.guess = f"answered in the format of version {other}, not {body.asked}"
            body.problems.clear()
            return


def _decoded_to_its_end(body: Body) -> bool:
    """Return whether the last field was decoded and bytes after it are the only problem."""
    return all(problem.reason.endswith(_TRAILING) for problem in body.problems)


def _read_header(header: MessageVersion, body: Body) -> int | None:
    """Decode the header; return the position of the body in the payload, or None if the header is malformed."""
    try:
        body.header, start = header.decode(body.raw)
    except DecodeError as error:
        traced = header.trace(body.raw)
        body.header = traced.root.to_value()
        body.problems.append(Problem(error.offset + SIZE_BYTES, f"header.{error.field_path}", error.reason))
        return None
    body.start = start + SIZE_BYTES
    return start


def _read_body(con: MessageVersion, body: Body, start: int, *, complete: bool) -> None:
    body.version = con.version
    try:
        body.value, end = con.decode(body.raw, start)
    except LimitReached as error:
        body.version = None
        body.problems.append(Problem(error.offset + SIZE_BYTES, error.field_path, error.reason, error.limit))
        return
    except DecodeError as error:
        body.value = con.trace(body.raw, start).root.to_value()
        reason = error.reason if complete or not error.truncated else f"{error.reason} (not captured)"
        body.problems.append(Problem(error.offset + SIZE_BYTES, error.field_path, reason))
        return
    if end != len(body.raw):
        reason = f"{len(body.raw) - end} {_TRAILING}"
        body.problems.append(Problem(end + SIZE_BYTES, "", reason))


MAX_RECORDS = 100_000


def _expand_records(root: Node, room: int) -> None:
    """Add batches and records as children to the records fields of a traced body.

    :param room: number of records to trace in total
    """
    budget = message_budget()
    for _, node in list(root.walk()):
        if node.kind == "records" and node.value:
            aligned = node.field is None or not node.field.type.content
            traced = trace_records(node.value, budget, max_records=room, aligned=aligned)
            room = max(room - traced.traced, 0)
            for child in traced.nodes:
                child.shift(node.end - len(node.value))
            node.children = traced.nodes


def trace_body(body: Body, *, response: bool, records: bool = False, max_records: int = MAX_RECORDS) -> Node:
    """Return the frame as a tree: ``size``, ``header``, ``body``, each field with its bytes.

    The body is traced in the version in which it was decoded; the tree is partial if the body is.

    :param records: add batches and records below the records fields, which are leaves otherwise; the content of a
        compressed batch has the kind :data:`DECOMPRESSED`, and its bytes are the ``buffer`` of the enclosing node
    :param max_records: records to trace in total, each about ten nodes; batches after the last of them have headers
        only
    """
    payload = body.raw
    root = Node("response" if response else "request", 0, "frame")
    root.end = SIZE_BYTES + len(payload)
    size = root.add(Node("size", 0, "int32"))
    size.value, size.end = len(payload), SIZE_BYTES
    message = body.message(response=response)
    if message is None:
        read_with = ResponseHeader[0] if response else RequestHeader[1]
    else:
        read_with = (response_header if response else request_header)(message.message, message.version)
    header = trace(read_with.struct, payload, name="header")
    header.root.shift(SIZE_BYTES)
    root.add(header.root)
    end = SIZE_BYTES + header.end
    if message is not None and header.error is None:
        traced = message.trace(payload, header.end)
        traced.root.name = "body"
        traced.root.shift(SIZE_BYTES)
        if records:
            _expand_records(traced.root, max_records)
        root.add(traced.root)
        end = SIZE_BYTES + max(traced.end, 0)
    if end < root.end:
        rest = root.add(Node("undecoded", end, "bytes"))
        rest.value, rest.end = payload[end - SIZE_BYTES :], root.end
    return root
