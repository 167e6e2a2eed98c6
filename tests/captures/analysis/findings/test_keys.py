"""A rule that is kept by client finds the same where each client is judged by itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from captures.analysis.client_identity import client_name
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import Finding
from captures.analysis.findings.rule import Key, Rule
from captures.analysis.findings.rules.producer_fenced import ProducerFenced
from captures.exchanges import Exchange
from tests.captures.export.files import DATA
from tests.captures.tables.kit import capture_of, exchanges_of

BY_CLIENT = tuple(rule for rule in RULES if rule.key is Key.CLIENT)
RECORDINGS = sorted((DATA.parent / "findings").glob("*.pcap*"))


def found(path: Path, exchanges: Iterable[Exchange], rules: Sequence[type[Rule]]) -> list[Finding]:
    names = exchanges_of(path)[1].knowledge.topic_name
    diagnosis = Diagnosis(capture_of(path), names, rules=rules, with_groups=False)
    for exchange in exchanges:
        diagnosis.add(exchange)
    return diagnosis.findings()


def by_client(path: Path, rules: Sequence[type[Rule]]) -> list[Finding]:
    clients: dict[str, list[Exchange]] = {}
    for exchange in exchanges_of(path)[0]:
        clients.setdefault(client_name(exchange), []).append(exchange)
    return [finding for mine in clients.values() for finding in found(path, mine, rules)]


def differ(path: Path, rules: Sequence[type[Rule]]) -> bool:
    whole = found(path, exchanges_of(path)[0], rules)
    return sorted(map(repr, whole)) != sorted(map(repr, by_client(path, rules)))


@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
def test_clients_by_themselves(path: Path) -> None:
    assert not differ(path, BY_CLIENT)


@pytest.mark.slow
def test_the_recordings_show_a_rule_that_is_not() -> None:
    """Which of two clients shut the other out shows only to who sees both."""
    assert any(differ(path, (ProducerFenced,)) for path in RECORDINGS if "two_producers" in path.name)


def test_rules_that_look_at_groups_are_kept_by_cluster() -> None:
    assert all(rule.key is Key.CLUSTER for rule in RULES if rule.of_groups)
