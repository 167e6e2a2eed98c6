"""Common properties of all rules about records, positions and transactions."""

from __future__ import annotations

import pytest

from captures.analysis.findings.all import RULES
from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.rule import Rule
from tests.captures.analysis.findings.group_kit import made
from tests.captures.analysis.findings.record_kit import batch, garbage, produce

NAMES = {
    "aborted_data_read", "commits_backwards", "compression_grows", "crc_failures", "down_conversion", "empty_fetches",
    "hanging_transactions", "no_compression", "old_message_formats", "positions_reset", "producer_fenced",
    "record_too_large", "rejected_records", "sequence_gaps", "small_batches", "stuck_position", "timestamps_far_off",
    "tiny_fetches", "topics_auto_created", "weak_acks",
}  # fmt: skip
OURS = [rule for rule in RULES if rule.name in NAMES]


def test_every_rule_is_among_all() -> None:
    assert {rule.name for rule in OURS} == NAMES


@pytest.mark.parametrize("rule", OURS, ids=lambda rule: rule.name)
def test_damaged_messages_do_not_disturb(rule: type[Rule]) -> None:
    assert rule.apis
    asked = made(rule, exchanges=[each for key in sorted(rule.apis) for each in garbage(key)])
    assert list(asked.findings()) == []
    assert isinstance(asked.blind(), str)


def test_who_writes_with_acks_0_is_told_no_errors() -> None:
    for rule in OURS:
        if rule.name in ("record_too_large", "rejected_records", "sequence_gaps"):
            assert made(rule).blind() == NO_PRODUCE
            assert made(rule, exchanges=[produce(batch(1))]).blind() == ""
            silent = [produce(batch(1)), produce(batch(1), acks=0)]
            assert made(rule, exchanges=silent).blind().endswith("acks=0: app")
