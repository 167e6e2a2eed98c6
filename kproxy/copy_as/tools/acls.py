"""Access control lists: kafka-acls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.domains import ACL_OPERATION, PATTERN_TYPE
from kproxy.copy_as.request import Makers, RequestToCopy, tool, with_value
from kproxy.copy_as.shell import Command

_ANY, _LITERAL = 1, 3
_DENY, _ALLOW = 2, 3
_CLUSTER = 4
_RESOURCES = {
    2: "--topic",
    3: "--group",
    5: "--transactional-id",
    6: "--delegation-token",
    7: "--user-principal",
}


def _resource(kind: int, name: str | None) -> list[str] | None:
    if kind == _CLUSTER:
        return ["--cluster"]
    option = _RESOURCES.get(kind)
    return None if option is None or name is None else with_value(option, name)


def _pattern(kind: int) -> list[str]:
    name = PATTERN_TYPE.name_of(kind)
    return [] if kind == _LITERAL or name is None else ["--resource-pattern-type", name.lower()]


def _operation(kind: int) -> str:
    """Return ``DescribeConfigs`` for ``DESCRIBE_CONFIGS``, as the tool writes it."""
    return "".join(word.capitalize() for word in (ACL_OPERATION.name_of(kind) or "").split("_"))


def _describe(request: RequestToCopy) -> Iterator[Command]:
    value = request.value
    words = tool(request, "kafka-acls", "--list")
    notes = []
    resource = _resource(value["resource_type_filter"], value["resource_name_filter"])
    if resource is not None:
        words += [*resource, *_pattern(value.get("pattern_type_filter", _LITERAL))]
    elif value["resource_type_filter"] != _ANY or value["resource_name_filter"] is not None:
        notes.append("lists the ACLs of all resources; the request asked for some")
    if value["principal_filter"] is not None:
        words += with_value("--principal", value["principal_filter"])
    if value["host_filter"] is not None or value["operation"] != _ANY or value["permission_type"] != _ANY:
        notes.append("of all hosts, operations and permissions; the request asked for some")
    yield Command(words, notes=notes)


def _create(request: RequestToCopy) -> Iterator[Command]:
    for acl in request.value["creations"]:
        resource = _resource(acl["resource_type"], acl["resource_name"])
        if resource is None or acl["permission_type"] not in (_DENY, _ALLOW):
            continue
        words = tool(request, "kafka-acls", "--add", *_principal_options(acl, acl["principal"], acl["host"]))
        yield Command([*words, *resource, *_pattern(acl.get("resource_pattern_type", _LITERAL))])


def _principal_options(acl: Mapping[str, Any], principal: str, host: str) -> list[str]:
    how = "allow" if acl["permission_type"] == _ALLOW else "deny"
    words = [*with_value(f"--{how}-principal", principal), *with_value(f"--{how}-host", host)]
    return [*words, "--operation", _operation(acl["operation"])]


def _delete(request: RequestToCopy) -> Iterator[Command]:
    for each in request.value["filters"]:
        resource = _resource(each["resource_type_filter"], each["resource_name_filter"])
        if resource is None:
            yield Command(
                (), notes=["left out: a filter of more than one resource, which the tool cannot delete by"]
            )
            continue
        principal, host = each["principal_filter"], each["host_filter"]
        words = [*tool(request, "kafka-acls", "--remove", "--force"), *resource]
        words += _pattern(each.get("pattern_type_filter", _LITERAL))
        if (principal, host, each["operation"], each["permission_type"]) == (None, None, _ANY, _ANY):
            yield Command(words)
        elif (
            None not in (principal, host)
            and each["permission_type"] in (_DENY, _ALLOW)
            and each["operation"] != _ANY
        ):
            yield Command([*words, *_principal_options(each, principal, host)])
        else:
            yield Command(
                (), notes=["left out: a filter with some fields open, which the tool cannot express"]
            )


MAKERS: Makers = {ApiKey.DESCRIBE_ACLS: _describe, ApiKey.CREATE_ACLS: _create, ApiKey.DELETE_ACLS: _delete}
