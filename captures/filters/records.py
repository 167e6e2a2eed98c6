"""Filters of exchanges applied to single records: which records of a matching exchange may be the ones meant.

``topic == orders and value contains 4711`` lets an exchange pass in which some record has the value, with all its
records. Fields of a record are tested for it alone, and all others are left open: a record is excluded
only if it cannot match, whatever they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from captures.filters import binding, nodes
from captures.filters.fields import Field
from captures.filters.filter import Filter
from captures.meaning.topic_partitions import TopicPartition
from dissectors.records import Record


class _PlacedRecord(NamedTuple):
    tp: TopicPartition
    record: Record


_VALUES: Mapping[str, Callable[[_PlacedRecord], Iterable[Any]]] = {
    "topic": lambda each: (each.tp.topic,),
    "partition": lambda each: (each.tp.partition,),
    "topic_partition": lambda each: (str(each.tp),),
    "key": lambda each: _present(each.record.key),
    "value": lambda each: _present(each.record.value),
    "header": lambda each: (name for name, _ in each.record.headers),
    "header.value": lambda each: _present(*(value for _, value in each.record.headers)),
}
"""Values of a single record, by filter field."""


class RecordFilter:
    """Applies a filter to records.

    :param wanted: the filter that the records' exchanges match
    """

    def __init__(self, wanted: Filter) -> None:
        self._bound = wanted.bound
        leaves = list(nodes.leaves(self._bound))
        self.decides = any(map(_values_of, leaves))
        """Whether it tests any field of single records."""
        self.complete = all(isinstance(leaf, nodes.MatchAll) or _values_of(leaf) for leaf in leaves)
        """Whether it tests nothing else, so that records without an exchange match or not."""

    def may_fit(self, tp: TopicPartition, record: Record) -> bool:
        """Return whether a record of a matching exchange may be one that is meant."""
        return not self.decides or _matches(self._bound, _PlacedRecord(tp, record)) is not False


def _matches(bound: binding.Bound, each: _PlacedRecord) -> bool | None:
    """Return whether a record matches; None if that depends on its exchange."""
    match bound:
        case binding.Test(_, predicate):
            values = _values_of(bound)
            return None if values is None else any(map(predicate.holds, values(each)))
        case nodes.MatchAll():
            return True
        case nodes.Not(item):
            found = _matches(item, each)
            return None if found is None else not found
        case nodes.And(items):
            return _joined((_matches(item, each) for item in items), deciding=False)
        case nodes.Or(items):
            return _joined((_matches(item, each) for item in items), deciding=True)
    return None


def _values_of(leaf: binding.Bound) -> Callable[[_PlacedRecord], Iterable[Any]] | None:
    """Return the values of a record that a condition tests; None if it tests something else."""
    if isinstance(leaf, binding.Test) and isinstance(leaf.field, Field):
        return _VALUES.get(leaf.field.name)
    return None


def _joined(found: Iterator[bool | None], *, deciding: bool) -> bool | None:
    """Combine answers of which a single `deciding` one decides."""
    unknown = False
    for each in found:
        if each is deciding:
            return deciding
        unknown |= each is None
    return None if unknown else not deciding


def _present(*values: bytes | None) -> Iterator[bytes]:
    return (value for value in values if value is not None)
