"""An entry of a request log as the frames that were sent: header and body, encoded again."""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from construct import ConstructError

from captures.request_log.bodies import BodyError, body_of
from captures.request_log.entries import Entry
from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api, api_name
from dissectors.error_codes import ErrorCode
from dissectors.headers import request_frame, response_frame
from dissectors.message_version import MessageVersion
from dissectors.records import left_out_records, records_size
from dissectors.wire import uvarint_bytes

_RECORDS = re.compile(re.escape(left_out_records(0)[:8]) + b".{9}", re.DOTALL)
_UNFIT = (
    ConstructError,
    ArithmeticError,
    AttributeError,
    LookupError,
    TypeError,
    ValueError,
    struct.error,
)
"""Exceptions raised for a JSON value of the wrong type, or out of range for its field."""
_REFUSED = ErrorCode.UNSUPPORTED_VERSION


class Frames(NamedTuple):
    """The frames of client and broker, with the size fields.

    :ivar response: empty if there was none
    :ivar request_left_out: bytes of the original request beyond these: records that the log omits
    :ivar response_left_out: bytes of the original response beyond these
    """

    request: bytes
    response: bytes
    request_left_out: int
    response_left_out: int


def frames_of(entry: Entry) -> Frames:
    """Encode an entry.

    :raises BodyError: if a body does not match its layout, or the API or version is unknown
    """
    header = entry.request_header
    known = api(header.request_api_key)
    if known is None:
        raise BodyError(f"unknown API {header.request_api_key}")
    version, refused = header.request_api_version, _is_refused(entry)
    try:
        request = _request(known, version, entry, refused=refused)
        response = _response(known, 0 if refused else version, entry)
    except _UNFIT as error:
        raise BodyError(f"{api_name(known.key)} v{version}: {error}") from None
    return Frames(
        request,
        response,
        *(
            _left_out(frame, compact=version in message.flexible)
            for frame, message in ((request, known.request), (response, known.response))
        ),
    )


def _is_refused(entry: Entry) -> bool:
    """Return whether a broker has rejected the version of an ApiVersions request; that response has version 0."""
    return (
        entry.request_header.request_api_key == ApiKey.API_VERSIONS
        and isinstance(entry.response, dict)
        and entry.response.get("errorCode") == _REFUSED
    )


def _request(known: Api, version: int, entry: Entry, *, refused: bool) -> bytes:
    asked = known.request.nearest(version) if refused else version
    logged = entry.request_header
    header = {
        "request_api_version": version,
        "correlation_id": logged.correlation_id,
        "client_id": logged.client_id,
    }
    layout = known.request[asked]
    # a request that the broker could not read is logged without its fields
    return request_frame(layout, header, layout.build({}) if refused else _body(layout, entry.request))


def _response(known: Api, version: int, entry: Entry) -> bytes:
    if entry.response is None or entry.response == "":
        return b""
    layout = known.response[version]
    return response_frame(layout, entry.request_header.correlation_id, _body(layout, entry.response))


def _body(layout: MessageVersion, value: Any) -> bytes:
    body: bytes = layout.build(body_of(layout.struct, value))
    return body


def _left_out(frame: bytes, *, compact: bool) -> int:
    """Return how many bytes a frame lacks because records are omitted; their length field may be shorter, too."""
    lacking = 0
    for found in _RECORDS.finditer(frame):
        size, there = records_size(found[0]), len(found[0])
        lacking += size - there
        if compact:
            lacking += len(uvarint_bytes(size + 1)) - len(uvarint_bytes(there + 1))
    return lacking
