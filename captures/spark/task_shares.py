"""How the work that needs all exchanges of a capture is divided among tasks: by subject, and by key."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from captures.analysis.findings.keys import Key, bucket_of
from captures.analysis.findings.rule import Rule
from captures.tables.whole_rows import BY_CONNECTION, OF_GROUPS
from dissectors.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Iterator

_RECORDS = frozenset({ApiKey.PRODUCE, ApiKey.FETCH})
"""Produce and Fetch: the most frequent exchanges, and the most expensive to analyze."""
_WORTH_SHARING = 3
"""Processors from which tasks by key are faster, although together they take half as much processor time again."""
_MOST = 100
"""Most tasks among which exchanges are dealt by a key."""


class Share(NamedTuple):
    """The work of one task, on the exchanges that it is dealt.

    :ivar tables: names of tables
    :ivar rules: rules for the table of findings
    :ivar key: key by which exchanges are dealt to the tasks with these tables and rules
    :ivar bucket: index of the task among these
    :ivar of: number of these tasks
    :ivar collects: whether it collects the traffic of groups for the share with the group histories
    """

    tables: tuple[str, ...]
    rules: tuple[type[Rule], ...]
    key: Key = Key.CLUSTER
    bucket: int = 0
    of: int = 1
    collects: bool = False

    @property
    def follows_groups(self) -> bool:
        """Whether it makes the histories of groups, which depend on the times of all responses: it gets all headers."""
        return bool(OF_GROUPS.intersection(self.tables)) or any(rule.of_groups for rule in self.rules)

    def takes(self, value: str) -> bool:
        """Return whether it is dealt the exchanges with a value of its key."""
        return self.of == 1 or bucket_of(self.key, value, self.of) == self.bucket

    def has(self, connection: int) -> bool:
        """Return whether it makes the rows of a connection."""
        return self.key is not Key.CONNECTION or self.takes(str(connection))


def shares_of(tables: Sequence[str], rules: Sequence[type[Rule]], processors: int) -> list[Share]:
    """Divide tables, and the rules of the diagnosis, among tasks.

    With few processors there are two: one for the rules about records, one for everything else.

    :param tables: names of tables that need all exchanges
    :param processors: 0 if one task has to do everything
    """
    wanted = tuple(rules) if "findings" in tables else ()
    if not processors:
        return [Share(tuple(tables), wanted)]
    shares = _divided if processors >= _WORTH_SHARING else _halved
    return [
        share for share in shares(tables, wanted, min(processors, _MOST)) if share.tables or share.collects
    ]


def _halved(tables: Sequence[str], rules: Sequence[type[Rule]], _: int) -> Iterator[Share]:
    records = tuple(filter(_about_records, rules))
    others = tuple(rule for rule in rules if rule not in records)
    yield Share((*(name for name in tables if name != "findings"), *_findings(others)), others)
    yield Share(_findings(records), records)


def _divided(tables: Sequence[str], rules: Sequence[type[Rule]], count: int) -> Iterator[Share]:
    """Yield shares, including some without work."""
    groups = tuple(rule for rule in rules if rule.of_groups)
    together = tuple(rule for rule in rules if rule.key in (Key.CLUSTER, Key.CAPTURE) and rule not in groups)
    records = tuple(filter(_about_records, together))
    others = tuple(rule for rule in together if rule not in records)
    of_groups = tuple(name for name in tables if name in OF_GROUPS)
    by_connection = tuple(name for name in tables if name in BY_CONNECTION)
    of_others = tuple(name for name in tables if name not in (*of_groups, *by_connection, "findings"))
    yield Share((*of_groups, *_findings(groups)), groups)
    for bucket in range(count) if of_groups or groups else ():
        yield Share((), (), Key.GROUP, bucket, count, collects=True)
    for rule in records:  # one task for all of them would be the longest
        yield Share(("findings",), (rule,))
    yield Share((*of_others, *_findings(others)), others)
    for key in (Key.CONNECTION, Key.CLIENT, Key.BROKER, Key.GROUP):
        of_key = tuple(rule for rule in rules if rule.key is key)
        made = (*(by_connection if key is Key.CONNECTION else ()), *_findings(of_key))
        for bucket in range(count):
            yield Share(made, of_key, key, bucket, count)


def _about_records(rule: type[Rule]) -> bool:
    return not rule.of_groups and bool(rule.apis and rule.apis & _RECORDS)


def _findings(rules: Sequence[type[Rule]]) -> tuple[str, ...]:
    return ("findings",) if rules else ()
