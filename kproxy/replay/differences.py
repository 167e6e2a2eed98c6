"""Two decoded values compared by path.

Values come from the dissectors: dicts, lists, numbers, strings, bytes, None. Structs in lists are matched by the fields
that name them (topic, partition, group, node ...), whatever their order; other lists are compared by position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import UNSET, UnsetType

from dissectors.entities import PARTITION_FIELDS, TOPIC_FIELDS

NAMES: Final = (
    *TOPIC_FIELDS,
    "topic_id",
    "group_id",
    *PARTITION_FIELDS,
    "node_id",
    "broker_id",
    "member_id",
    "transactional_id",
    "producer_id",
    "resource_type",
    "resource_name",
    "api_key",
    "key",
    "log_dir",
    "user",
    "path",
)
"""Fields that name structs in the lists of Kafka's messages."""


class Difference(NamedTuple):
    """A place at which two values differ.

    :ivar path: ``topics[orders].partitions[0].leader_id``: elements by name, else by position
    :ivar field: the same without elements: ``topics.partitions.leader_id``
    :ivar recorded: value of the first, :data:`msgspec.UNSET` if it has none
    :ivar new: value of the second
    """

    path: str
    field: str
    recorded: Any | UnsetType
    new: Any | UnsetType


def differences(recorded: Any, new: Any, naming: Sequence[str] = NAMES) -> Iterator[Difference]:
    """Yield every place at which two values differ.

    :param naming: fields that name structs in lists; those that all elements have are combined
    """
    yield from _value("", "", recorded, new, naming)


def _value(path: str, field: str, recorded: Any, new: Any, naming: Sequence[str]) -> Iterator[Difference]:
    if isinstance(recorded, Mapping) and isinstance(new, Mapping):
        for name in dict.fromkeys((*recorded, *new)):
            where, inner = f"{path}.{name}" if path else name, f"{field}.{name}" if field else name
            yield from _value(where, inner, recorded.get(name, UNSET), new.get(name, UNSET), naming)
    elif _is_list(recorded) and _is_list(new):
        fields = _naming_fields([*recorded, *new], naming)
        first, second = _named(fields, recorded), _named(fields, new)
        for name in dict.fromkeys((*first, *second)):
            where = f"{path}[{name}]"
            yield from _value(where, field, first.get(name, UNSET), second.get(name, UNSET), naming)
    elif recorded != new:
        yield Difference(path, field, recorded, new)


def _naming_fields(items: Sequence[Any], naming: Sequence[str]) -> list[str]:
    """Return the fields that name the elements of two lists; none if they have no names."""
    if not all(isinstance(item, Mapping) for item in items):
        return []
    return [name for name in naming if all(item.get(name) is not None for item in items)]


def _named(fields: Sequence[str], items: Sequence[Any]) -> dict[str, Any]:
    """Return the elements of a list by their names in paths."""
    found: dict[str, Any] = {}
    times: Counter[str] = Counter()
    for index, item in enumerate(items):
        name = "/".join(str(item[each]) for each in fields) if fields else str(index)
        times[name] += 1  # elements with the same name are numbered
        found[name if times[name] == 1 else f"{name}#{times[name]}"] = item
    return found


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
