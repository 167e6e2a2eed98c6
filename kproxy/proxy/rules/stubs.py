"""Responses to clients of a proxy without a broker: ``kproxy proxy --stub``.

Before a client does its work, it asks for versions, brokers, the coordinator of its group and its producer ID. These
responses are enough for that: one broker, the proxy itself, which leads the only partition of every requested topic and
coordinates every group and transaction. Further requests are recorded, not answered.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import blake2b
from typing import Any

from captures.interventions import Intervention, as_comment
from dissectors import wire
from dissectors.api_keys import CONTROLLER_ONLY, TELEMETRY, ZOOKEEPER_ONLY, ApiKey
from dissectors.apis import api, version_limits
from dissectors.domains import ERROR_CODE
from dissectors.frames import decode_request
from dissectors.headers import response_frame
from dissectors.sides import Side
from kproxy.proxy.rules.answers import unsupported_api_versions
from kproxy.proxy.verdicts import UNCHANGED, Frame, Inspector, Peers, Verdict

NODE_ID = 1
CLUSTER_ID = "kproxy-stub-without-a-broker"

_UNKNOWN_TOPIC_ID = next(code for code, name in ERROR_CODE.values.items() if name == "UNKNOWN_TOPIC_ID")
_NOT_OF_BROKERS = ZOOKEEPER_ONLY | CONTROLLER_ONLY | TELEMETRY


def stub_answer(frame: bytes, address: tuple[str, int]) -> bytes | None:
    """Return the response to a request, both with their size fields; None if the stub does not answer it.

    :param address: host and port at which clients reach the proxy
    """
    body = decode_request(frame[4:])
    known = api(body.key)
    if known is None or body.key not in _ANSWERS or "correlation_id" not in body.header:
        return None
    correlation_id = body.header["correlation_id"]
    if body.asked not in known.response.versions:
        return (
            unsupported_api_versions(correlation_id, body.asked) if body.key == ApiKey.API_VERSIONS else None
        )
    if body.value is None or body.problems:
        return None
    answer = _ANSWERS[body.key](body.asked, body.value, address)
    layout = known.response[body.asked]
    return response_frame(layout, correlation_id, layout.build(answer))


def _api_versions(_version: int, _request: Mapping[str, Any], _address: tuple[str, int]) -> dict[str, Any]:
    return {"api_keys": _offered()}


@cache
def _offered() -> list[dict[str, int]]:
    return [
        {"api_key": key, "min_version": first, "max_version": last}
        for key, (first, last) in version_limits().items()
        if key not in _NOT_OF_BROKERS
    ]


def _metadata(version: int, request: Mapping[str, Any], address: tuple[str, int]) -> dict[str, Any]:
    host, port = address
    return {
        "brokers": [{"node_id": NODE_ID, "host": host, "port": port, "rack": None}],
        "cluster_id": CLUSTER_ID,
        "controller_id": NODE_ID,
        "topics": [_topic(version, topic) for topic in request.get("topics") or ()],
        "cluster_authorized_operations": -(1 << 31),
    }


def _topic(version: int, asked: Mapping[str, Any]) -> dict[str, Any]:
    name, topic_id = asked.get("name"), asked.get("topic_id", wire.ZERO_UUID)
    untold = {"topic_authorized_operations": -(1 << 31)}
    if name is None:
        # a client that asks by ID knows the topic from a real cluster
        shown = None if version >= 12 else ""
        return {
            "error_code": _UNKNOWN_TOPIC_ID,
            "name": shown,
            "topic_id": topic_id,
            "partitions": [],
            **untold,
        }
    partition = {
        "partition_index": 0,
        "leader_id": NODE_ID,
        "leader_epoch": 0,
        "replica_nodes": [NODE_ID],
        "isr_nodes": [NODE_ID],
    }
    made = wire.uuid_text(blake2b(name.encode(), digest_size=16).digest())
    return {"error_code": 0, "name": name, "topic_id": made, "partitions": [partition], **untold}


def _find_coordinator(version: int, request: Mapping[str, Any], address: tuple[str, int]) -> dict[str, Any]:
    found = {
        "error_code": 0,
        "error_message": None,
        "node_id": NODE_ID,
        "host": address[0],
        "port": address[1],
    }
    if version < 4:
        return found
    return {"coordinators": [{"key": key, **found} for key in request["coordinator_keys"]]}


def _init_producer_id(
    _version: int, _request: Mapping[str, Any], _address: tuple[str, int]
) -> dict[str, Any]:
    # an idempotent producer sends no records before it has one (KIP-98)
    return {"error_code": 0, "producer_id": 1, "producer_epoch": 0}


_ANSWERS: dict[int, Callable[..., dict[str, Any]]] = {
    ApiKey.API_VERSIONS: _api_versions,
    ApiKey.METADATA: _metadata,
    ApiKey.FIND_COORDINATOR: _find_coordinator,
    ApiKey.INIT_PRODUCER_ID: _init_producer_id,
}


class StubInspector:
    """An inspector of every request: rules and holds decide first, then the stub answers.

    :param inspector: the rules and holds
    :param address: where clients find the proxy
    """

    active = True

    def __init__(self, inspector: Inspector, address: tuple[str, int]) -> None:
        self._inspector = inspector
        self._address = address

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        return side == "request" or self._inspector.wants(side, api_key, version, peers)

    def decide(self, frame: Frame) -> Verdict:
        """Let rules and holds decide about a frame; answer a request that they leave alone."""
        if self._inspector.wants(frame.side, frame.api_key, frame.version, frame.peers):
            verdict = self._inspector.decide(frame)
            if verdict is not UNCHANGED:
                return verdict
        if frame.side == "response":
            return UNCHANGED
        answer = stub_answer(frame.data, self._address)
        return Verdict(data=b"", answer=answer, comments=[as_comment(Intervention(not_forwarded=True))])
