"""An entry of a request log as the frames that were sent: header and body, encoded again."""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple

from construct import ConstructError

from captures.request_log.bodies import BodyError, body_of
from captures.request_log.entries import Entry
from captures.request_log.text_bodies import produced, text_body_of
from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api, api_name
from dissectors.error_codes import ErrorCode
from dissectors.headers import request_frame, response_frame
from dissectors.left_out import MARK, SIZE, original_size
from dissectors.message_version import MessageVersion
from dissectors.wire import uvarint_bytes

_RECORDS = re.compile(re.escape(MARK) + b".{%d}" % (SIZE - len(MARK)), re.DOTALL)
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
    version, refused = header.request_api_version, _is_refused(known, entry)
    try:
        request = _request(known, version, entry, refused=refused)
        response = _response(known, 0 if refused else version, entry)
    except _UNFIT as error:
        reason = " ".join(str(error).split())  # those of construct have two lines
        raise BodyError(f"{api_name(known.key)} v{version}: {reason}") from None
    return Frames(
        request,
        response,
        *(
            _left_out(frame, compact=version in message.flexible)
            for frame, message in ((request, known.request), (response, known.response))
        ),
    )


def _is_refused(known: Api, entry: Entry) -> bool:
    """Return whether a broker has rejected the version of an ApiVersions request; that response has version 0."""
    if known.key != ApiKey.API_VERSIONS:
        return False
    if isinstance(entry.response, dict):
        return entry.response.get("errorCode") == _REFUSED
    return entry.request == "{}" and entry.request_header.request_api_version in known.request.flexible


def _request(known: Api, version: int, entry: Entry, *, refused: bool) -> bytes:
    asked = known.request.nearest(version) if refused else version
    logged = entry.request_header
    header = {
        "request_api_version": version,
        "correlation_id": logged.correlation_id,
        "client_id": logged.client_id,
    }
    layout = known.request[asked]
    body: dict[str, Any] = {}
    if refused:
        pass  # a request that the broker could not read is logged without its fields
    elif known.key == ApiKey.PRODUCE and isinstance(entry.request, str):
        response = _values(known.response[version], entry.response) if entry.response else {}
        body = produced(entry.request, response)
    else:
        body = _values(layout, entry.request)
    return request_frame(layout, header, layout.build(body))


def _response(known: Api, version: int, entry: Entry) -> bytes:
    if entry.response is None or entry.response == "":
        return b""
    layout = known.response[version]
    body = layout.build(_values(layout, entry.response))
    return response_frame(layout, entry.request_header.correlation_id, body)


def _values(layout: MessageVersion, body: Any) -> dict[str, Any]:
    return (text_body_of if isinstance(body, str) else body_of)(layout.struct, body)


def _left_out(frame: bytes, *, compact: bool) -> int:
    """Return how many bytes a frame lacks because records are omitted; their length field may be shorter, too."""
    lacking = 0
    for found in _RECORDS.finditer(frame):
        size, there = original_size(found[0]), len(found[0])
        lacking += size - there
        if compact:
            lacking += len(uvarint_bytes(size + 1)) - len(uvarint_bytes(there + 1))
    return lacking
