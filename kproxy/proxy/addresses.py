"""Broker addresses in responses: where they are, and how they are replaced with the proxy's.

Rewritten are Metadata, FindCoordinator and DescribeCluster, and the node endpoints of Produce, Fetch (KIP-951),
ShareFetch and ShareAcknowledge (KIP-932), in all declared versions. All other bytes stay as the broker sent them. An
undeclared version could carry addresses in unknown places: therefore ApiVersions responses offer these APIs only up to
the highest declared version.

Frames are whole here, starting with their size field. A Fetch or ShareFetch response that is too large to be held in
memory goes through :class:`~kproxy.proxy.node_endpoints.StreamedEndpoints`.

Not rewritten, because no client connects there: listeners in DescribeQuorum, leader endpoints of the quorum's own APIs,
hosts of group members and ACLs, endpoints of Streams applications.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, TypeAlias

from captures.interventions import Change
from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES, api
from dissectors.budget import Budget, LimitReached, limit
from dissectors.error_codes import ErrorCode
from dissectors.errors import DecodeError
from dissectors.headers import SIZE_BYTES, framed
from dissectors.locator import FieldLocation, FieldLocator, response_structs
from dissectors.schema import Message
from dissectors.splice import splice
from kproxy.proxy.node_endpoints import StreamedEndpoints, free_of_endpoints, streams


class Broker(NamedTuple):
    """A node as a response names it. Controllers have their own node IDs and addresses (KIP-919)."""

    role: Literal["broker", "controller"]
    node_id: int
    host: str
    port: int


Advertise: TypeAlias = Callable[[Broker], tuple[str, int]]
"""Returns the host and port that clients get in place of the broker's."""


class RewriteResult(NamedTuple):
    """A rewritten frame and the changes made.

    :ivar frame: the same object that was passed in if nothing changed
    :ivar changes: in byte order
    :ivar is_known: for ApiVersions responses: whether the broker offers only declared versions. Later releases offer
        more; tagged fields that they added to existing versions (KIP-482) are not declared either.
    """

    frame: bytes
    changes: tuple[Change, ...]
    is_known: bool = False


Rewriter: TypeAlias = Callable[[bytes, Advertise], RewriteResult]
"""Rewrites a response frame; raises DecodeError if it cannot be read, LimitReached if it has too many addresses."""

_ENDPOINTS = ("node_endpoints.node_id", "node_endpoints.host", "node_endpoints.port")

#: by API key: paths of node ID, host and port of every address, in byte order, preceded by the kind of nodes if any
_FIELDS: Mapping[int, tuple[str, ...]] = {
    ApiKey.PRODUCE: _ENDPOINTS,
    ApiKey.FETCH: _ENDPOINTS,
    ApiKey.METADATA: ("brokers.node_id", "brokers.host", "brokers.port"),
    ApiKey.FIND_COORDINATOR: (  # up to v3 and from v4 on
        *("node_id", "host", "port"),
        *("coordinators.node_id", "coordinators.host", "coordinators.port"),
    ),
    ApiKey.DESCRIBE_CLUSTER: (
        "endpoint_type",
        "brokers.broker_id",
        "brokers.host",
        "brokers.port",
    ),
    ApiKey.SHARE_FETCH: _ENDPOINTS,
    ApiKey.SHARE_ACKNOWLEDGE: _ENDPOINTS,
}
_CONTROLLERS = 2  # endpoint_type

_LONGEST_TRIED = 1 << 16
"""Bytes of the longest frame that is tried in other versions: each attempt decodes all of it."""

_MOST_KEPT = 4096  # keys and versions are the client's choice
_CORRELATION_ID = slice(SIZE_BYTES, 8)
_ERROR_CODE = struct.Struct(">h")
_ERROR_AT = 8  # in an ApiVersions response, whose header is always v0 (KIP-511)
_FALLBACK = struct.Struct(">hihhh")  # ApiVersions v0 with one entry


@lru_cache(maxsize=_MOST_KEPT)
def rewriter(api_key: int, version: int) -> Rewriter | None:
    """Return the rewriter for responses of an API version, None if there is nothing to rewrite.

    :param version: the version of the request
    """
    if api_key == ApiKey.API_VERSIONS:
        return _FallbackRewriter(api_key, version, _OfferedVersions(version))
    if api_key not in _FIELDS or unknown(api_key, version):
        return None
    locator = FieldLocator.to_fields(response_structs(_response(api_key), version), _FIELDS[api_key])
    return None if locator.is_empty else _FallbackRewriter(api_key, version, _AddressRewriter(locator))


def unknown(api_key: int, version: int) -> bool:
    """Return whether responses could carry addresses that are not rewritten because the version is not declared."""
    return api_key in _FIELDS and version not in _response(api_key).versions


def _response(api_key: int) -> Message:
    known = api(api_key)
    assert known is not None
    return known.response


class _FallbackRewriter:
    """Rewrites a frame in the requested version, or else in the version that the frame really has.

    Brokers up to 0.9 do not check versions and answer in the newest that they know; a few others answer in a later one.
    """

    def __init__(self, api_key: int, version: int, rewrite: Rewriter) -> None:
        self._api_key = api_key
        self._version = version
        self._rewrite = rewrite

    def __call__(self, frame: bytes, advertise: Advertise) -> RewriteResult:
        try:
            return self._rewrite(frame, advertise)
        except LimitReached:
            raise
        except DecodeError:
            version = self._actual_version(frame)
            if version is None:
                raise
        other = rewriter(self._api_key, version)
        return RewriteResult(frame, ()) if other is None else other(frame, advertise)

    def _actual_version(self, frame: bytes) -> int | None:
        """Return the other version in which the frame decodes to its last byte, None if there is none."""
        if len(frame) > _LONGEST_TRIED:
            return None
        from dissectors.frames import (
            decode_response,
        )  # imports all record codecs, and is seldom needed

        body = decode_response(frame[SIZE_BYTES:], self._api_key, self._version)
        return None if body.problems or body.version == self._version else body.version


class _AddressRewriter:
    """Rewrites responses with addresses."""

    def __init__(self, locator: FieldLocator) -> None:
        self._locator = locator

    def __call__(self, frame: bytes, advertise: Advertise) -> RewriteResult:
        locations = self._locator.find(frame, SIZE_BYTES, _budget(frame))
        role: Literal["broker", "controller"] = "broker"
        if locations and locations[0].path == "endpoint_type":
            role = "controller" if locations[0].value == _CONTROLLERS else "broker"
            del locations[0]
        edits: list[tuple[FieldLocation, str | int]] = []
        advertised: dict[int, tuple[str, int]] = {}
        for node_id, host, port in zip(locations[0::3], locations[1::3], locations[2::3], strict=True):
            if not host.value or port.value <= 0:
                continue  # no address: with an error, FindCoordinator has node -1 and an empty host
            address = advertised.get(node_id.value)
            if address is None:  # a node has one address: the first that the response gives
                address = advertise(Broker(role, node_id.value, host.value, port.value))
                advertised[node_id.value] = address
            new_host, new_port = address
            if new_host != host.value:
                edits.append((host, new_host))
            if new_port != port.value:
                edits.append((port, new_port))
        return _with_edits(frame, edits)


def _budget(frame: bytes) -> Budget | None:
    """Return the budget for elements; None if the frame is too small to exceed the limit at one byte each."""
    return Budget("addresses", "elements") if len(frame) > limit("addresses") else None


def _with_edits(frame: bytes, edits: list[tuple[FieldLocation, str | int]]) -> RewriteResult:
    if not edits:
        return RewriteResult(frame, ())
    changed = splice(frame, edits)
    changes = tuple(Change(location.path, location.value, new) for location, new in edits)
    return RewriteResult(framed(changed[SIZE_BYTES:]), changes)


class _OfferedVersions:
    """Lowers the versions offered by ApiVersions responses to those whose addresses can be rewritten.

    APIs without addresses, unknown APIs and vendors' own (keys from 10000 on) stay as they are. If the lowest offered
    version is already too new, the range becomes empty: clients report that the API is not supported.

    A broker answers an unknown ApiVersions version in v0 with error 35 (KIP-511); some, such as librdkafka's mock,
    answer in the requested version.
    """

    def __init__(self, version: int) -> None:
        message = _response(ApiKey.API_VERSIONS)
        self._version = version
        self._newest = message.versions.last
        self._fallback = self._locator(message, 0)
        self._asked = self._locator(message, version) if version in message.versions else None
        self._highest = {key: _response(key).versions.last for key in (*_FIELDS, ApiKey.API_VERSIONS)}
        self._declared = {key: _response(key).versions.last for key in range(len(NAMES))}

    @staticmethod
    def _locator(message: Message, version: int) -> FieldLocator:
        return FieldLocator.to_fields(
            response_structs(message, version), ["api_keys.api_key", "api_keys.max_version"]
        )

    def __call__(self, frame: bytes, _advertise: Advertise) -> RewriteResult:
        if len(frame) < _ERROR_AT + _ERROR_CODE.size:
            raise DecodeError("the bytes end before the error code", len(frame), truncated=True)
        error = _ERROR_CODE.unpack_from(frame, _ERROR_AT)[0]
        if error == ErrorCode.UNSUPPORTED_VERSION:
            try:
                return self._lowered(self._fallback, frame)
            except DecodeError:
                if self._asked is None:
                    raise
        if self._asked is not None:
            return self._lowered(self._asked, frame)
        return RewriteResult(frame, ()) if error else self._refusal(frame)

    def _lowered(self, locator: FieldLocator, frame: bytes) -> RewriteResult:
        locations = locator.find(frame, SIZE_BYTES, _budget(frame))
        highest = self._highest
        edits: list[tuple[FieldLocation, str | int]] = []
        for key, version in zip(locations[0::2], locations[1::2], strict=True):
            known = highest.get(key.value)
            if known is not None and version.value > known:
                edits.append((version, known))
        return _with_edits(frame, edits)._replace(is_known=self._is_known(locations))

    def _is_known(self, locations: Sequence[FieldLocation]) -> bool:
        """Return whether the broker offers only declared versions. A refusal offers just ApiVersions (KIP-511)."""
        declared = self._declared
        offers = [
            (key.value, version.value) for key, version in zip(locations[0::2], locations[1::2], strict=True)
        ]
        return len(offers) > 1 and all(version <= declared.get(key, -1) for key, version in offers)

    def _refusal(self, frame: bytes) -> RewriteResult:
        """Answer like a broker no newer than this proxy, so that the client asks again in a known version."""
        answer = frame[_CORRELATION_ID] + _FALLBACK.pack(
            ErrorCode.UNSUPPORTED_VERSION, 1, ApiKey.API_VERSIONS, 0, self._newest
        )
        entry = {"api_key": ApiKey.API_VERSIONS, "min_version": 0, "max_version": self._newest}
        changes = (
            Change("error_code", 0, ErrorCode.UNSUPPORTED_VERSION),
            Change("api_keys", f"in version {self._version}, which kproxy does not know", [entry]),
        )
        return RewriteResult(framed(answer), changes)


_COLLECT = 1 << 16
"""Bytes up to which a response that could also be streamed, such as a Fetch, is collected."""
_COLLECT_ALL = 64 << 20
"""Bytes up to which a response that cannot be streamed is collected."""
_LOOK_AT = 1 << 20
"""Bytes up to which a response of unknown layout is searched for addresses."""

_OFTEN = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER})
"""APIs of which nearly every response has something to rewrite."""


@dataclass(frozen=True, slots=True)
class ResponseHandling:
    """The treatment of a response.

    :ivar rewrite: rewrites a whole frame, None if its layout is not known
    :ivar stream: makes an editor that removes addresses from a frame too large to be collected, None if there is none
    :ivar limit: bytes up to which a frame is collected
    :ivar is_seldom_needed: whether most responses stay unchanged
    :ivar is_free: as :func:`~kproxy.proxy.node_endpoints.free_of_endpoints`; None if addresses can be anywhere
    """

    rewrite: Rewriter | None
    stream: Callable[[], StreamedEndpoints] | None
    limit: int
    is_seldom_needed: bool
    is_free: Callable[[bytes, int], bool] | None = None


@lru_cache(maxsize=_MOST_KEPT)
def treatment_of(api_key: int, version: int) -> ResponseHandling | None:
    """Return how responses are treated, None if they simply pass."""
    rewrite = rewriter(api_key, version)
    if rewrite is None:
        return ResponseHandling(None, None, _LOOK_AT, False) if unknown(api_key, version) else None
    stream = streams(api_key, version)
    return ResponseHandling(
        rewrite,
        stream,
        _COLLECT_ALL if stream is None else _COLLECT,
        api_key not in _OFTEN,
        free_of_endpoints(api_key, version),
    )
