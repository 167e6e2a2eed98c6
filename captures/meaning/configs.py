"""Summaries of configurations and quotas. Values with names that suggest a secret are omitted."""

from __future__ import annotations

from captures.meaning import words
from captures.meaning.exchange import Bodies, Body, SummaryWriter, items, ok, rows, text
from captures.meaning.topics import only_check
from captures.meaning.words import join, value_name
from dissectors.api_keys import ApiKey
from dissectors.domains import ALTER_CONFIG_OP, CONFIG_RESOURCE_TYPE
from dissectors.embedded import sensitive_config

_DEFAULT_ENTITY = "<default>"
_VALUE_LENGTH = 40


def resource(row: Body) -> str:
    """Return the owner of a configuration: ``topic orders``, ``broker 1``, ``broker default``."""
    kind = value_name(CONFIG_RESOURCE_TYPE, row.get("resource_type"))
    return f"{kind} {text(row, 'resource_name', 'default')}"


def _describe_request(x: Bodies) -> str:
    found = rows(x.request, "resources")
    keys = [key for row in found for key in items(row, "configuration_keys")]
    return join(words.phrases([resource(row) for row in found]), words.some(dict.fromkeys(keys)))


def _describe_response(x: Bodies) -> str:
    return words.counted(sum(len(rows(row, "configs")) for row in rows(x.response, "results")), "setting")


def _alter_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "resources"):
        names = words.some(setting(entry) for entry in rows(row, "configs"))
        parts.append(f"{resource(row)} only {names or 'defaults'}")
    return join(words.phrases(parts), only_check(x))


def setting(entry: Body) -> str:
    """Return a configuration and its new value: ``retention.ms=1000``; only the name if the value is secret."""
    name, value = text(entry, "name", "?"), entry.get("value")
    if value is None or sensitive_config(name):
        return name
    return f"{name}={words.clipped(value, _VALUE_LENGTH)}"


def _change_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "resources"):
        changes: dict[str, list[str]] = {}
        for entry in rows(row, "configs"):
            operation = value_name(ALTER_CONFIG_OP, entry.get("config_operation"))
            changes.setdefault(operation, []).append(setting(entry))
        texts = [f"{operation} {words.some(names)}" for operation, names in changes.items()]
        parts.append(join(resource(row), ", ".join(texts)))
    return join(words.phrases(parts), only_check(x))


def _list_request(x: Bodies) -> str:
    kinds = [value_name(CONFIG_RESOURCE_TYPE, kind) for kind in items(x.request, "resource_types")]
    return words.some(kinds) or "all resources"


def _list_response(x: Bodies) -> str:
    return words.counted(len(rows(x.response, "config_resources")), "resource")


# ---------------------------------------------------------------- quotas
def entity(row: Body) -> str:
    """Return the entity of a quota: ``user=alice client-id=<default>``."""
    return " ".join(
        f"{text(part, 'entity_type', '?')}={part.get('entity_name') or _DEFAULT_ENTITY}"
        for part in rows(row, "entity")
    )


def _quotas_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "components"):
        # 0 = this name, 1 = the default entity, 2 = any (KIP-546)
        wanted = {0: text(row, "match", "?"), 1: _DEFAULT_ENTITY, 2: "*"}.get(row.get("match_type", -1), "?")
        parts.append(f"{text(row, 'entity_type', '?')}={wanted}")
    return join(words.some(parts) or "all quotas", "strict" if x.request.get("strict") else "")


def _alter_quotas_request(x: Bodies) -> str:
    parts = []
    for row in rows(x.request, "entries"):
        changes = [
            f"remove {text(change, 'key', '?')}"
            if change.get("remove")
            else f"{text(change, 'key', '?')}={amount(change.get('value'))}"
            for change in rows(row, "ops")
        ]
        parts.append(join(entity(row), words.some(changes)))
    return join(words.phrases(parts), only_check(x))


def amount(value: object) -> str:
    """Return a quota's value, without an empty fraction."""
    return f"{value:.15g}" if isinstance(value, float) else "?"


SUMMARIES: dict[int, SummaryWriter] = {
    ApiKey.DESCRIBE_CONFIGS: SummaryWriter(_describe_request, _describe_response),
    ApiKey.ALTER_CONFIGS: SummaryWriter(_alter_request, ok),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: SummaryWriter(_change_request, ok),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: SummaryWriter(
        _quotas_request, lambda x: words.counted(len(rows(x.response, "entries")), "entity", "entities")
    ),
    ApiKey.ALTER_CLIENT_QUOTAS: SummaryWriter(_alter_quotas_request, ok),
    ApiKey.LIST_CONFIG_RESOURCES: SummaryWriter(_list_request, _list_response),
}
