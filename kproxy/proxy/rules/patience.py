"""How long a frame may be held before its client gives up on it.

A client waits for an answer from when it sent the request, so that is what counts for a response too. How long is its
own setting and not in the protocol (``request.timeout.ms``, 30 s in the Java client), unless the request shows it:

* ``timeout_ms`` of Produce and of requests to change topics is what the client allows the broker for its work, which is
  its own timeout or less;
* a JoinGroup is waited for until the rebalance timeout is over (``JoinGroupRequest``: Java allows 5 s more, librdkafka
  3 s), in version 0 the session timeout;
* who has a Fetch wait for ``max_wait_ms`` waits longer than that.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dissectors.frames import decode_request
from kproxy.proxy.verdicts import Frame

JOIN_GROUP = 11
SHARE = 0.8
"""How much of a client's timeout may be used up by holding."""
_MS = 1_000_000
_SIZE_BYTES = 4


def held_until(frame: Frame, request_timeout: int) -> int:
    """Return the time, in ns since the epoch, at which a frame has to go on.

    :param request_timeout: ns that clients wait for an answer
    """
    asked = frame if frame.side == "request" else frame.request
    if asked is None:
        return frame.time + int(SHARE * request_timeout)
    body = decode_request(asked.data[_SIZE_BYTES:])
    return asked.time + int(SHARE * _patience(frame.api_key, body.value or {}, request_timeout))


def _patience(api_key: int, request: Mapping[str, Any], request_timeout: int) -> int:
    if api_key == JOIN_GROUP:
        said: int = request.get("rebalance_timeout_ms", -1)
        barrier: int = said if said > 0 else request.get("session_timeout_ms", 0)
        return max(request_timeout, barrier * _MS)
    allowed = request.get("timeout_ms", 0)
    if isinstance(allowed, int) and allowed > 0:
        return min(allowed * _MS, request_timeout)
    waits: int = request.get("max_wait_ms", 0)
    # holding up to max_wait_ms is safe, whatever the client's timeout is
    return max(request_timeout, int(waits * _MS / SHARE))
