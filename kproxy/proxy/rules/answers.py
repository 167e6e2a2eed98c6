"""Error responses: the response of a broker to a request that fails with a given error.

They are made from the request and the declarations alone (:mod:`kproxy.proxy.rules.places`), so for every API in every
version. If a response has error codes on several levels, all of them are set, with two exceptions that brokers make
too:

* Fetch, ShareFetch and ShareAcknowledge report errors of the session in the body, and all others per partition. A
  client that sees an error in the body looks no further. An incremental Fetch may name no partition, so that only the
  body is left.
* ApiVersions with UNSUPPORTED_VERSION is in v0 format whatever was requested, with the versions of ApiVersions
  (KIP-511).

A response without any place for a code (all topics were requested, and they are unknown) is not an error response:
:class:`~kproxy.proxy.rules.errors.NoPlaceError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.apis import Api, api, api_name
from dissectors.error_codes import ErrorCode
from dissectors.frames import Body, decode_request, decode_response
from dissectors.headers import SIZE_BYTES, framed, response_frame
from kproxy.proxy.rules.errors import AnswerError, NoPlaceError
from kproxy.proxy.rules.places import ErrorField, error_places, rows

MESSAGE = "made by a fault rule of kproxy"
"""The error message of error responses."""

_OF_THE_SESSION = frozenset({
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH, ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    ErrorCode.INVALID_GROUP_ID, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.UNSUPPORTED_VERSION, ErrorCode.INVALID_REQUEST, ErrorCode.SASL_AUTHENTICATION_FAILED,
})  # fmt: skip
_SESSIONS = frozenset({ApiKey.FETCH, ApiKey.SHARE_FETCH, ApiKey.SHARE_ACKNOWLEDGE})


def error_response(frame: bytes, code: int, message: str = MESSAGE) -> bytes | None:
    """Return the response, with its size field, that reports a request as failed; None if it expects no response.

    :param frame: the request with its size field
    :param code: the error
    :param message: the error message, where the response has one
    :raises AnswerError: if API or version are not known, the request cannot be read, or the response has no place for
        an error
    """
    known, version, header, request = _read_request(frame)
    if known.key == ApiKey.PRODUCE and request.get("acks") == 0:
        return None
    if known.key == ApiKey.API_VERSIONS and code == ErrorCode.UNSUPPORTED_VERSION:
        return unsupported_api_versions(header["correlation_id"], header["request_api_version"])
    layout = known.response[version]
    body = layout.build(error_body(known, version, request, code, message))
    return response_frame(layout, header["correlation_id"], body)


def error_body(
    known: Api, version: int, request: Mapping[str, Any], code: int, message: str = MESSAGE
) -> dict[str, Any]:
    """Return the body of an error response.

    :raises NoPlaceError: if the request names nothing that can carry an error
    """
    filler = _ErrorFiller(code, message)
    body = filler.filled(error_places(known, version), request)
    if known.key == ApiKey.DESCRIBE_LOG_DIRS and not filler.count:
        body["results"] = [{"error_code": code}]  # before v3 the only place, without a log dir
        return body
    if not filler.count:
        raise NoPlaceError(
            f"this {known.name} v{version} names nothing that its response could carry an error for"
        )
    _at_one_level(known.key, body, code)
    if known.key == ApiKey.FETCH and version >= 7:
        body["session_id"] = request.get("session_id", 0)
    return body


def unsupported_api_versions(correlation_id: int, refused: int) -> bytes:
    """Return the answer to an ApiVersions request in a refused version: v0, with the versions below that one.

    Clients ask again in the highest of these (KIP-511): a client that is offered the refused version would ask for
    ever.
    """
    known = api(ApiKey.API_VERSIONS)
    assert known is not None
    versions = known.request.versions
    offered = {
        "api_key": ApiKey.API_VERSIONS,
        "min_version": versions.first,
        "max_version": max(min(refused - 1, versions.last), versions.first),
    }
    body = {"error_code": ErrorCode.UNSUPPORTED_VERSION, "api_keys": [offered]}
    return response_frame(known.response[0], correlation_id, known.response[0].build(body))


def with_error(frame: bytes, api_key: int, version: int, code: int) -> bytes:
    """Return a broker's response with an error in every place for one; everything else but its own errors stays.

    :param frame: with its size field
    :raises AnswerError: if it cannot be read or has no place for an error
    """
    known = api(api_key)
    if known is None:
        raise AnswerError(f"{api_name(api_key)} is not known here, so no error can be put into its answers")
    body = decode_response(frame[SIZE_BYTES:], api_key, version)
    value = _decoded(body, f"the answer to {known.name} v{version}")
    assert body.version is not None
    filler = _ErrorFiller(code)
    filler.put(error_places(known, body.version), value)
    if not filler.count:
        raise NoPlaceError(f"this answer to {known.name} v{version} names nothing that can carry an error")
    _at_one_level(api_key, value, code)
    return rebuilt(frame, body, value, response=True)


def rebuilt(frame: bytes, body: Body, value: Mapping[str, Any], *, response: bool) -> bytes:
    """Return a frame with another body and an unchanged header.

    :param body: the frame, decoded
    :raises construct.ConstructError: if `value` is not a body of that API and version
    """
    layout = body.message(response=response)
    assert layout is not None, "what has a value was read with a layout"
    return framed(frame[SIZE_BYTES : body.start] + layout.build(value))


def _read_request(frame: bytes) -> tuple[Api, int, dict[str, Any], dict[str, Any]]:
    body = decode_request(frame[SIZE_BYTES:])
    known = api(body.key)
    if known is None:
        raise AnswerError(f"{api_name(body.key)} is not known here, so no answer can be made")
    if body.asked not in known.response.versions and body.key == ApiKey.API_VERSIONS:
        return known, 0, body.header, {}
    if body.asked not in known.response.versions:
        raise AnswerError(f"{known.name} v{body.asked} is not known here, so no answer can be made")
    return known, body.asked, body.header, _decoded(body, f"the {known.name} v{body.asked}")


def _decoded(body: Body, what: str) -> dict[str, Any]:
    if body.value is None or body.problems:
        reason = body.problems[0].reason if body.problems else body.guess
        raise AnswerError(f"{what} could not be read: {reason}")
    return body.value


def _at_one_level(api_key: int, body: dict[str, Any], code: int) -> None:
    """Leave the error either in the body or in the partitions, because clients do not look at both."""
    if api_key not in _SESSIONS or "error_code" not in body:
        return
    if code in _OF_THE_SESSION:
        body["responses"] = []
    elif any(topic["partitions"] for topic in body["responses"]):
        body["error_code"] = 0
        if "error_message" in body:
            body["error_message"] = None


class _ErrorFiller:
    """Puts an error into places.

    :ivar count: number of error codes set
    """

    def __init__(self, code: int, message: str = MESSAGE) -> None:
        self._code = code
        self._message = message
        self.count = 0

    def filled(self, fields: ErrorField, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return a struct of an error response, with an element for each thing that the request names."""
        value = dict(fields.defaults)
        for about in fields.about:
            if request[about.source] is not None or about.nullable:
                value[about.name] = request[about.source]
        for inner in fields.inside:
            elements = [self.filled(inner, row) for source in inner.sources for row in rows(source, request)]
            value[inner.name] = _distinct(elements) if len(inner.sources) > 1 else elements
        self._set_codes(fields, value)
        if "acknowledge_error_code" in value and not request.get("acknowledgement_batches"):
            value["acknowledge_error_code"] = 0
            value["acknowledge_error_message"] = None
        return value

    def put(self, fields: ErrorField, value: dict[str, Any]) -> None:
        """Put the error into an existing struct."""
        self._set_codes(fields, value)
        for inner in fields.inside:
            for element in value.get(inner.name) or ():
                self.put(inner, element)

    def _set_codes(self, fields: ErrorField, value: dict[str, Any]) -> None:
        self.count += len(fields.codes)
        value.update(dict.fromkeys(fields.codes, self._code))
        value.update(dict.fromkeys(fields.messages, self._message))


def _distinct(elements: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return elements without duplicates."""
    out: list[dict[str, Any]] = []
    for element in elements:
        if element not in out:
            out.append(element)
    return out
