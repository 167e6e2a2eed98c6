"""The settings of a client for display: all that such a client has, in its library's notation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from captures.analysis.clients.dangers import danger_of
from captures.analysis.clients.defaults import defaults_of
from captures.analysis.clients.fields import Fields
from captures.analysis.clients.libraries import KAFKAJS, LIBRDKAFKA, Library, by_client_id
from captures.analysis.clients.notation import own_name, written
from captures.analysis.clients.settings import (
    COMMON,
    CONSUMER_KEYS,
    FETCH,
    GROUP,
    PRODUCE,
    SHARE_KEYS,
    Setting,
    Value,
    ValueSource,
    alike,
    by_key,
)
from captures.json_objects import OrNull

_NO_DEFAULT = frozenset({"group.id", "sasl.mechanism"})
"""Settings without a default: any value was set."""
_NO_TIMERS = {
    KAFKAJS: frozenset({"heartbeat.interval.ms", "enable.auto.commit", "auto.commit.interval.ms"}),
    LIBRDKAFKA: frozenset({"reconnect.backoff.ms"}),
}
"""Settings that intervals do not show: KafkaJS sends heartbeats and commits between batches, and several threads of
librdkafka connect to the same address."""


class DisplayedSetting(msgspec.Struct, frozen=True):
    """A setting for display: in the library's notation, with its default and possible consequences.

    :ivar name: the library's name of it
    :ivar text: its value in the library's notation; empty if it is not set, or not seen
    :ivar other_values: further values in the library's notation, with the number of times they were seen
    :ivar default: default in the library's notation; None if unknown
    :ivar changed: whether it differs from the default; None if unknown
    :ivar danger: possible consequences, empty if none
    """

    JSON = (
        "key=setting.key name value=setting.value text how=setting.how at_least=setting.at_least "
        "count=setting.count exchanges=setting.evidence others=setting.other_values note=setting.note default "
        "changed danger"
    )

    setting: Setting
    name: str
    text: str
    other_values: list[tuple[str, int]]
    default: str | None
    changed: bool | None
    danger: OrNull[str]


def displayed_settings(
    found: Iterable[Setting], fields: Fields, library: Library | None
) -> list[DisplayedSetting]:
    """Return the settings that a client of these roles has, seen or not, and any others seen.

    :param found: seen settings; the last one of a key counts
    """
    others = _NO_TIMERS.get(library.name, frozenset()) if library is not None else frozenset()
    known = {
        each.key: each for each in found if each.how is not ValueSource.ESTIMATED or each.key not in others
    }
    settings = [known.get(key) or Setting(key, note=missing(key, fields)) for key in _keys(fields, known)]
    return list(_displayed(settings, library))


def _keys(fields: Fields, known: dict[str, Setting]) -> list[str]:
    """Return the settings that such a client has, then other seen ones, in order."""
    roles = fields.roles
    keys = list(COMMON)
    if roles.consumes:
        keys += SHARE_KEYS if roles.group_protocol == "share" else CONSUMER_KEYS
    if roles.produces:
        keys += PRODUCE
    return [*keys, *sorted(set(known) - set(keys))]


def _displayed(settings: list[Setting], library: Library | None) -> Iterator[DisplayedSetting]:
    name = library.name if library is not None else None
    defaults = defaults_of(library)
    known = by_key(settings)
    for setting in settings:
        has_default = setting.key in defaults
        default = defaults.get(setting.key)
        changed = None if setting.how is ValueSource.NOT_SEEN else _changed(setting, defaults)
        yield DisplayedSetting(
            setting,
            own_name(name, setting.key),
            written(name, setting.key, setting.value),
            [(written(name, setting.key, value), count) for value, count in setting.other_values],
            written(name, setting.key, default) if has_default else None,
            changed,
            danger_of(setting, known),
        )


def _changed(setting: Setting, defaults: dict[str, Value]) -> bool | None:
    """Return whether a seen setting differs from the default; None if unknown."""
    if setting.key == "client.id":
        return by_client_id(str(setting.value)) is None
    if setting.key in _NO_DEFAULT:
        return True
    if setting.key not in defaults:
        return None
    return bool(setting.other_values) or not alike(setting, defaults[setting.key])


# ---------------------------------------------------------------- settings not seen
_BY_BROKER = frozenset({"session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy"})
"""Settings that brokers decide with ``group.protocol=consumer`` (KIP-848)."""

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
