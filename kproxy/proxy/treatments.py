"""How the responses of an API version are treated on their way to the client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from dissectors.api_keys import ApiKey
from kproxy.proxy import addresses

if TYPE_CHECKING:
    from kproxy.proxy.addresses import Rewriter, StreamedEndpoints

_COLLECT = 1 << 16
"""Bytes up to which a response that could also be streamed, such as a Fetch, is collected."""
_COLLECT_ALL = 64 << 20
"""Bytes up to which a response that cannot be streamed is collected."""
_LOOK_AT = 1 << 20
"""Bytes up to which a response of unknown layout is searched for addresses."""

_MOST_KEPT = 4096  # keys and versions are the client's choice

_OFTEN = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER})
"""APIs of which nearly every response has something to rewrite."""


@dataclass(frozen=True, slots=True)
class Treatment:
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
def treatment_of(api_key: int, version: int) -> Treatment | None:
    """Return how responses are treated, None if they simply pass."""
    rewrite = addresses.rewriter(api_key, version)
    if rewrite is None:
        unknown = addresses.unknown(api_key, version)
        return Treatment(None, None, _LOOK_AT, False) if unknown else None
    streamed = addresses.streams(api_key, version) is not None
    return Treatment(
        rewrite,
        (lambda: _stream(api_key, version)) if streamed else None,
        _COLLECT if streamed else _COLLECT_ALL,
        api_key not in _OFTEN,
        addresses.free_of_endpoints(api_key, version),
    )


def _stream(api_key: int, version: int) -> StreamedEndpoints:
    stream = addresses.streams(api_key, version)
    assert stream is not None
    return stream
