"""Configurations, quotas and SCRAM users: kafka-configs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.api_keys import ApiKey
from kproxy.copy_as.request import Makers, RequestToCopy, tool, with_value
from kproxy.copy_as.shell import Command

_ENTITY_TYPES = {2: "topics", 4: "brokers", 8: "broker-loggers", 16: "client-metrics", 32: "groups"}
_QUOTA_TYPES = {"user": "users", "client-id": "clients", "ip": "ips"}
_EXACT, _DEFAULT = 0, 1
_SET, _DELETE = 0, 1

_IN_LISTS = frozenset(",[]\n")
"""Characters with a special meaning in values of ``--add-config``."""


def _entity(resource: Mapping[str, Any]) -> list[str] | None:
    kind = _ENTITY_TYPES.get(resource["resource_type"])
    if kind is None:
        return None
    name = resource["resource_name"]
    return ["--entity-type", kind, *(with_value("--entity-name", name) if name else ["--entity-default"])]


def _describe(request: RequestToCopy) -> Iterator[Command]:
    for resource in request.value["resources"]:
        entity = _entity(resource)
        if entity is not None:
            keys = resource["configuration_keys"]
            notes = [f"shows all settings; the request asked for {', '.join(keys)}"] if keys else []
            yield Command(tool(request, "kafka-configs", "--describe", *entity, "--all"), notes=notes)


def _alter(request: RequestToCopy) -> Iterator[Command]:
    yield from _altered(request, ["settings that are not named keep their values; the request reset them"])


def _alter_incrementally(request: RequestToCopy) -> Iterator[Command]:
    yield from _altered(request, [])


def _altered(request: RequestToCopy, always: list[str]) -> Iterator[Command]:
    if request.value.get("validate_only"):  # the tool has no dry run
        return
    for number, resource in enumerate(request.value["resources"]):
        entity = _entity(resource)
        if entity is None:
            continue
        notes = list(always)
        added: dict[str, str] = {}
        deleted: list[str] = []
        for index, config in enumerate(resource["configs"]):
            operation = config.get("config_operation", _SET)
            if request.is_masked(f"request.resources[{number}].configs[{index}].value"):
                notes.append(f"left out: {config['name']}, whose value is secret and masked")
            elif operation == _DELETE:
                deleted.append(config["name"])
            elif operation == _SET:
                added[config["name"]] = config["value"] or ""
            else:
                notes.append(
                    f"left out: a change of the list {config['name']}; the tool only sets whole lists"
                )
        words = tool(request, "kafka-configs", "--alter", *entity)
        if deleted:
            words += with_value("--delete-config", ",".join(deleted))
        if added or deleted or notes != always:
            yield _with_added(words if added or deleted else [], added, notes)


def _with_added(words: list[str], added: Mapping[str, str], notes: list[str]) -> Command:
    if not added:
        return Command(words, notes=notes)
    if any(not _IN_LISTS.isdisjoint(value) for value in added.values()):
        file = "".join(f"{_property(name)}={_property(value)}\n" for name, value in added.items())
        return Command(words, file_option="--add-config-file", file=file, notes=notes)
    return Command(
        [*words, *with_value("--add-config", ",".join(f"{name}={value}" for name, value in added.items()))],
        notes=notes,
    )


def _property(text: str) -> str:
    """Return text escaped for a file of Java properties."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("=", "\\=").replace(":", "\\:")


# ---------------------------------------------------------------- quotas and users
def _describe_quotas(request: RequestToCopy) -> Iterator[Command]:
    entities: list[str] = []
    for part in request.value["components"]:
        kind = _QUOTA_TYPES.get(part["entity_type"])
        if kind is None:
            return
        entities += ["--entity-type", kind]
        if part["match_type"] == _EXACT:
            entities += with_value("--entity-name", part["match"])
        elif part["match_type"] == _DEFAULT:
            entities.append("--entity-default")
    if entities:
        yield Command(tool(request, "kafka-configs", "--describe", *entities))
        return
    for kind in _QUOTA_TYPES.values():
        yield Command(tool(request, "kafka-configs", "--describe", "--entity-type", kind))


def _alter_quotas(request: RequestToCopy) -> Iterator[Command]:
    if request.value["validate_only"]:
        return
    for entry in request.value["entries"]:
        words = tool(request, "kafka-configs", "--alter")
        for part in entry["entity"]:
            kind, name = _QUOTA_TYPES.get(part["entity_type"]), part["entity_name"]
            if kind is None:
                return
            words += ["--entity-type", kind]
            words += ["--entity-default"] if name is None else with_value("--entity-name", name)
        added = [f"{op['key']}={op['value']:.15g}" for op in entry["ops"] if not op["remove"]]
        removed = [op["key"] for op in entry["ops"] if op["remove"]]
        if added:
            words += with_value("--add-config", ",".join(added))
        if removed:
            words += with_value("--delete-config", ",".join(removed))
        yield Command(words)


def _describe_scram(request: RequestToCopy) -> Iterator[Command]:
    words = tool(request, "kafka-configs", "--describe", "--entity-type", "users")
    users = request.value["users"]
    if not users:
        yield Command(words)
    for user in users or ():
        yield Command([*words, *with_value("--entity-name", user["name"])])


MAKERS: Makers = {
    ApiKey.DESCRIBE_CONFIGS: _describe,
    ApiKey.ALTER_CONFIGS: _alter,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_incrementally,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: _describe_quotas,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _describe_scram,
}
