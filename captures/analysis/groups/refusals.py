"""Clients that a group did not accept, or fenced: part of its history, though no rebalance may show them."""

from __future__ import annotations

from captures.analysis.groups.calls import GroupCalls, Join, ModernHeartbeatRun
from captures.analysis.groups.model import RefusedClient
from dissectors.error_codes import ErrorCode, error_name

REFUSALS = frozenset({
    ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.GROUP_MAX_SIZE_REACHED, ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.UNSUPPORTED_ASSIGNOR,
})  # fmt: skip
"""Errors with which a coordinator keeps a client out of a group."""
MOST = 20
"""Most refused clients that are kept of a group."""
_OF_INSTANCES = (ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNRELEASED_INSTANCE_ID)


def refused_clients(calls: GroupCalls) -> list[RefusedClient]:
    """Return the first :data:`MOST` refused clients, in the order of time."""
    if not any(call.error in REFUSALS for call in calls.calls):
        return []
    found: dict[tuple[str, str, str | None, int], RefusedClient] = {}
    holders: dict[str, tuple[str, str]] = {}
    instances: dict[str, str] = {}
    for call in calls.ordered():
        instance = call.instance or instances.get(call.member)
        if instance and call.member:
            instances[call.member] = instance
        if not call.error and instance and isinstance(call, Join | ModernHeartbeatRun):
            holders[instance] = call.client, call.member
        if call.error not in REFUSALS:
            continue
        key = call.client, call.host, instance, call.error
        known = found.get(key)
        if known is None:
            if len(found) >= MOST:
                continue
            known = found[key] = RefusedClient(
                call.client, call.host, instance, call.error, error_name(call.error), call.time, call.number
            )
        known.count += call.count
        holder, member = holders.get(instance or "", ("", ""))
        if call.error in _OF_INSTANCES and member not in ("", call.member):
            known.holder = holder
    return list(found.values())
