"""The commands of the control socket (docs/ctl.md)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kproxy.addresses import address_text
from kproxy.proxy.control import Command, by_name

if TYPE_CHECKING:
    from kproxy.proxy.brokers import UpstreamAddress
    from kproxy.proxy.cluster import Cluster
    from kproxy.proxy.plane import Plane
    from kproxy.proxy.session import Session


def commands(plane: Plane) -> dict[str, Command]:
    """Return the commands of a data plane that change nothing, except those for rules and holds."""

    def status() -> dict[str, Any]:
        """Return counts, listeners, and bytes recorded and dropped."""
        return _status(plane)

    def connections() -> list[dict[str, Any]]:
        """Return the open connections."""
        return [_connection(plane, session) for session in plane.sessions]

    def brokers() -> list[dict[str, Any]]:
        """Return the brokers, where clients find them, and whether they can be reached."""
        return [_broker(each, upstream) for each in plane.clusters for upstream in each.brokers]

    return by_name(status, connections, brokers)


def changing_commands(plane: Plane) -> dict[str, Command]:
    """Return the commands that change something in a data plane, except those for rules and holds."""

    def forwarding(on: bool) -> dict[str, Any]:
        """Switch forwarding on or off. While it is off, requests are recorded and not forwarded."""
        plane.set_forwarding(on)
        return {"forwarding": plane.forwarding}

    def keep() -> dict[str, Any]:
        """Let the flight recorder save the traffic around this moment."""
        plane.reports.event("keep")
        return {}

    def detach() -> dict[str, Any]:
        """Keep running after the process that started the proxy ends."""
        plane.detached = True
        return {}

    def drain(seconds: float | None = None) -> dict[str, Any]:
        """End the proxy after requests in flight are answered, or after some seconds."""
        plane.end(seconds)
        return {"connections": len(plane.sessions)}

    return by_name(forwarding, keep, detach, drain)


def _broker(cluster: Cluster, upstream: UpstreamAddress) -> dict[str, Any]:
    mapped, why = cluster.mapped_to(upstream), cluster.reachability.of(upstream)
    return {
        "cluster": cluster.name or None,
        "role": upstream.role,
        "node_id": upstream.node_id,
        "address": address_text(upstream.host, upstream.port),
        "dialled": None if mapped is None else address_text(*mapped),
        "at": address_text(*cluster.brokers.address_of(upstream)),
        "reachable": None if why is None else not why,
        "why": why or "",
    }


def _status(plane: Plane) -> dict[str, Any]:
    settings, counts = plane.settings, plane.counts
    return {
        "pid": os.getpid(),
        "mode": settings.mode,
        "forwarding": plane.forwarding,
        "started_ns": plane.started,
        "listeners": [address_text(*address) for each in plane.listeners for address in each.addresses],
        "connections": {
            "open": len(plane.sessions),
            "total": counts.connections,
            "refused": counts.refused,
            "unreachable": counts.unreachable,
        },
        "requests_in_flight": sum(len(session.in_flight) for session in plane.sessions),
        "bytes": {
            "from_clients": counts.from_clients + sum(each.requests.received for each in plane.sessions),
            "from_brokers": counts.from_brokers + sum(each.responses.received for each in plane.sessions),
        },
        "brokers": sum(len(each.brokers) for each in plane.clusters),
        "refused_brokers": sum(each.brokers.refusals for each in plane.clusters),
        "clusters": {each.name: _cluster(each) for each in plane.clusters if each.name},
        "rewritten_responses": counts.rewritten,
        "escaped_addresses": counts.escaped,
        "uninspected_frames": counts.uninspected + plane.inspection.undecided,
        "recording": plane.recordings.status(),
        "rules": plane.inspection.applications,
    }


def _cluster(cluster: Cluster) -> dict[str, Any]:
    return {
        "bootstrap": [address_text(*each) for each in cluster.settings.bootstrap],
        "listen": address_text(*cluster.listeners[0].addresses[0]),
        "brokers": len(cluster.brokers),
        "connections": len(cluster.sessions),
    }


def _connection(plane: Plane, session: Session) -> dict[str, Any]:
    peers = session.peers
    return {
        "connection": peers.connection,
        "client": address_text(*peers.client),
        "client_id": peers.client_id,
        "cluster": peers.cluster or None,
        "broker": address_text(*peers.broker),
        "node_id": peers.node_id,
        "age_ns": round(session.age * 1e9),
        "idle_ns": round(session.idle_seconds() * 1e9),
        "requests_in_flight": len(session.in_flight),
        "from_client": session.requests.received,
        "from_broker": session.responses.received,
        "held": len(session.holds),
        "tcp": plane.network(session),
    }
