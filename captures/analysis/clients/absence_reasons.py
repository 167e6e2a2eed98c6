"""Why a setting was not seen, in words."""

from __future__ import annotations

from captures.analysis.clients.fields import Fields
from captures.analysis.clients.settings import FETCH, GROUP

_BY_BROKER = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"})
"""What brokers decide where ``group.protocol=consumer`` (KIP-848)."""

_WHY = {
    "client.id": "it sends none",
    "security.protocol": "no connection of it was captured from its beginning",
    "sasl.mechanism": "no authentication was captured",
    "metadata.max.age.ms": "Metadata was not asked for in equal intervals",
    "retry.backoff.ms": "nothing failed that is tried again after it, or only once",
    "reconnect.backoff.ms": "no connection was refused more than once, or several clients share the address",
    "connections.max.idle.ms": "it closed no connection for being idle",
    "heartbeat.interval.ms": "too few heartbeats were captured, or they come irregularly",
    "enable.auto.commit": "too few commits were captured, or they come irregularly",
    "auto.commit.interval.ms": "too few commits were captured, or they come irregularly",
    "allow.auto.create.topics": "no Metadata request for topics of a mere consumer tells, of version 4 or later",
    "transaction.timeout.ms": "no InitProducerId with a transactional ID was captured",
    "transactional.id": "no Produce request that could tell was captured",
    "linger.ms": "too few batches, or their timestamps do not come from a clock like that of the capture",
    "batch.size": "too few batches",
    "enable.idempotence": "no record batch that could tell was captured",
    "client.rack": "no Fetch request that could tell was captured (version 11 or later)",
    "isolation.level": "no Fetch request that could tell was captured (version 4 or later)",
    "fetch.max.bytes": "no Fetch request that could tell was captured (version 3 or later)",
    "max.poll.interval.ms": "no JoinGroup that could tell was captured (version 1 or later)",
    "group.instance.id": "no JoinGroup that could tell was captured (version 5 or later)",
}


def missing(key: str, fields: Fields) -> str:
    """Return why a setting of a client was not seen."""
    roles = fields.roles
    if key in GROUP:
        if roles.group_protocol is None:
            return "it joined no group in this capture"
        if roles.group_protocol != "classic" and key in _BY_BROKER:
            return "brokers decide it for such groups"
    if key in _WHY:
        return _WHY[key]
    return "no Fetch request was captured" if key in FETCH else "no request that tells was captured"
