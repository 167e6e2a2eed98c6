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
from dissectors.printable import printable

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
        for name, (_, one), (_, other) in paired(recorded, new, naming):
            yield from _value(f"{path}[{name}]", field, one, other, naming)
    elif recorded != new:
        yield Difference(path, field, recorded, new)


def paired(
    first: Sequence[Any], second: Sequence[Any], naming: Sequence[str]
) -> Iterator[tuple[str, tuple[int, Any], tuple[int, Any]]]:
    """Yield the corresponding elements of two lists, with their name and indexes; -1 and UNSET for a missing one.

    :param naming: fields that name structs; those that all elements have are combined, without any the index is used
    """
    every = [*first, *second]
    fields = [
        name
        for name in naming
        if all(isinstance(item, Mapping) and item.get(name, -1) not in (None, -1) for item in every)
    ]
    one, other = _named(fields, first), _named(fields, second)
    missing = -1, UNSET
    for name in dict.fromkeys((*one, *other)):
        yield name, one.get(name, missing), other.get(name, missing)


def _named(fields: Sequence[str], items: Sequence[Any]) -> dict[str, tuple[int, Any]]:
    """Return the elements of a list, with their indexes, by their names in paths."""
    found: dict[str, tuple[int, Any]] = {}
    times: Counter[str] = Counter()
    for index, item in enumerate(items):
        name = "/".join(_text(item[each]) for each in fields) if fields else str(index)
        times[name] += 1  # elements with the same name are numbered
        found[name if times[name] == 1 else f"{name}#{times[name]}"] = index, item
    return found


def _text(value: Any) -> str:
    return printable(value.decode(errors="backslashreplace")) if isinstance(value, bytes) else str(value)


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple)
