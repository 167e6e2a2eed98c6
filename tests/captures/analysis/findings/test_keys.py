"""A rule has the same findings if each value of its key is judged separately."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from captures.analysis.exchange_groups import COUNTED
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.keys import Key, bucket_of, buckets
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rules.metadata import TopicsAutoCreated
from captures.analysis.findings.rules.transactions import ProducerFenced
from captures.exchanges import Exchange
from captures.exchanges.columns import ExchangeColumns
from tests.captures.export.files import DATA, SAMPLE
from tests.captures.tables.kit import capture_of, exchanges_of

KEYS = [key for key in Key if key not in (Key.CLUSTER, Key.CAPTURE)]
RECORDINGS = sorted(path for folder in (DATA, DATA.parent / "findings") for path in folder.glob("*.pcap*"))


def of_key(key: Key) -> tuple[type[Rule], ...]:
    return tuple(rule for rule in RULES if rule.key is key)


def found(path: Path, exchanges: Sequence[Exchange], rules: Sequence[type[Rule]]) -> list[str]:
    names = exchanges_of(path)[1].knowledge.topic_name
    diagnosis = Diagnosis(capture_of(path), names, rules=rules, with_groups=False)
    for exchange in exchanges:
        diagnosis.add(exchange)
    return [repr(finding) for finding in diagnosis.findings()]


def dealt(path: Path, key: Key) -> list[list[Exchange]]:
    """Return the exchanges of each value of a key."""
    of: dict[str, list[Exchange]] = {}
    for exchange in exchanges_of(path)[0]:
        for value in key.values(exchange):
            of.setdefault(value, []).append(exchange)
    return list(of.values())


def differ(path: Path, rules: Sequence[type[Rule]], key: Key) -> bool:
    whole = found(path, exchanges_of(path)[0], rules)
    parts = [finding for mine in dealt(path, key) for finding in found(path, mine, rules)]
    return sorted(whole) != sorted(parts)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in KEYS if of_key(key)])
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_values_by_themselves(path: Path, key: Key) -> None:
    assert not differ(path, of_key(key), key)


@pytest.mark.slow
@pytest.mark.parametrize("key", [key for key in KEYS if of_key(key)])
def test_recordings_show_rules_of_every_key(key: Key) -> None:
    assert any(found(path, exchanges_of(path)[0], of_key(key)) for path in RECORDINGS)


@pytest.mark.slow
@pytest.mark.parametrize(("rule", "key"), [(ProducerFenced, Key.CLIENT), (TopicsAutoCreated, Key.CONNECTION)])
def test_the_recordings_show_a_rule_that_is_not(rule: type[Rule], key: Key) -> None:
    """Which of two clients fenced the other is visible only if both are seen."""
    assert any(
        differ(path, (rule,), key) for path in RECORDINGS if "errors" in path.name or "two" in path.name
    )


@pytest.mark.parametrize("key", Key)
@pytest.mark.parametrize("count", [1, 7])
def test_columns_deal_out_as_values_do(key: Key, count: int) -> None:
    exchanges, _ = exchanges_of(SAMPLE)
    capture = capture_of(SAMPLE)
    columns = ExchangeColumns(capture, capture.table.order())
    columns.prepare(COUNTED)
    got = buckets(key, columns, columns.flat("connection"), count)
    assert got.any(axis=0).all()
    of: dict[str, set[int]] = {}
    for at, exchange in enumerate(exchanges):
        values = key.values(exchange)
        assert got[:, at].sum() <= len(values)
        if len(values) == 1:
            of.setdefault(values[0], set()).update(np.flatnonzero(got[:, at]).tolist())
    assert of == {value: {bucket_of(key, value, count)} for value in of}
    assert count == 1 or len(of) < 3 or len(set.union(*of.values())) > 1


def test_rules_that_look_at_groups_are_kept_by_cluster() -> None:
    assert all(rule.key is Key.CLUSTER for rule in RULES if rule.of_groups)
