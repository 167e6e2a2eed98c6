"""Request and response headers, the header version of each message, and frames built with them.

``clients/src/main/resources/common/message/RequestHeader.json`` and ``ResponseHeader.json``; the rules for the
header version are those of ``generator/.../ApiMessageTypeGenerator.java``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dissectors.api_keys import ApiKey
from dissectors.schema import Int16, Int32, Message, String

if TYPE_CHECKING:
    from dissectors.message_version import MessageVersion

SIZE_BYTES = 4
"""Bytes of the size field before each frame; the size does not include them."""

_LENGTH = struct.Struct(">h")
_SIZE = struct.Struct(">i")

# The client ID keeps its classic length in header v2 ("flexibleVersions": "none" in RequestHeader.json), so that
# a broker can read it before it knows whether the request is flexible (KIP-511).
RequestHeader = Message(
    "RequestHeader", None, "header", "0-2", "2+",
    "request_api_key" / Int16 * "which API",
    "request_api_version" / Int16 * "version of the request",
    "correlation_id" / Int32 * "chosen by the client, repeated in the response",
    "client_id" / String.null("1+").classic() @ "1+" * "name the client was configured with",
)  # fmt: skip

ResponseHeader = Message(
    "ResponseHeader", None, "header", "0-1", "1+",
    "correlation_id" / Int32 * "that of the request",
)  # fmt: skip


def request_header_version(request: Message, version: int) -> int:
    """Return the header version of a request: 2 if flexible, 0 only for ControlledShutdown v0, else 1."""
    if version in request.flexible:
        return 2
    return 0 if (request.key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0) else 1


def response_header_version(response: Message, version: int) -> int:
    """Return the header version of a response: 1 if flexible, but always 0 for ApiVersions (KIP-511)."""
    return int(version in response.flexible and response.key != ApiKey.API_VERSIONS)


def request_header(request: Message, version: int) -> MessageVersion:
    """Return the layout of the header of a request."""
    return RequestHeader[request_header_version(request, version)]


def response_header(response: Message, version: int) -> MessageVersion:
    """Return the layout of the header of a response."""
    return ResponseHeader[response_header_version(response, version)]


def request_body_start(frame: bytes, version: int) -> int | None:
    """Return the position of a request's body, None if the header is malformed or has tags.

    :param frame: the frame without its size field
    :param version: header version
    """
    if not version:
        return 8
    try:
        (length,) = _LENGTH.unpack_from(frame, 8)
        end: int = 10 + max(length, 0)
        frame[10:end].decode()
        if version == 1:
            return end
        return None if frame[end] else end + 1
    except (IndexError, struct.error, UnicodeDecodeError):
        return None


def response_body_start(frame: bytes, version: int) -> int | None:
    """Return the position of a response's body, None if the header is malformed or has tags."""
    if not version:
        return 4
    return 5 if frame[4:5] == b"\0" else None


def framed(payload: bytes) -> bytes:
    """Return a frame: `payload` after its size."""
    return _SIZE.pack(len(payload)) + payload


def request_frame(layout: MessageVersion, header: Mapping[str, Any], body: bytes) -> bytes:
    """Return a request as it is sent.

    :param header: header fields; API key and version default to those of `layout`
    """
    message = layout.message
    named = {"request_api_key": message.key, "request_api_version": layout.version, **header}
    return framed(request_header(message, layout.version).build(named) + body)


def response_frame(layout: MessageVersion, correlation_id: int, body: bytes) -> bytes:
    """Return a response as it is sent."""
    header = response_header(layout.message, layout.version)
    return framed(header.build({"correlation_id": correlation_id}) + body)
