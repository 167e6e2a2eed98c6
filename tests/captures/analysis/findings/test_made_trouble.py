"""Trouble provoked at a real broker and recorded: the diagnosis reports it, and nothing else that is serious."""

from __future__ import annotations

import pytest

from captures.analysis.findings.all import RULES
from tests.captures.analysis.findings.made_trouble import EXPECTED, LIMITS, diagnosed, differences
from tests.captures.analysis.findings.record_kit import DATA, of_recording


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", EXPECTED)
def test_the_diagnosis_tells_what_was_done(name: str) -> None:
    found = diagnosed(DATA / "findings" / f"lane_{name}.pcap.zst")
    assert differences(found, EXPECTED[name]) == []


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", EXPECTED)
def test_filters_show_the_evidence(name: str) -> None:
    for rule in RULES:
        if rule.name in {expected.rule for expected in EXPECTED[name]}:
            limits = {
                key.partition(".")[2]: value
                for key, value in LIMITS.items()
                if key.startswith(f"{rule.name}.")
            }
            assert of_recording(f"lane_{name}", rule, **limits)


def test_every_recording_is_looked_at() -> None:
    recordings = {path.name for path in (DATA / "findings").glob("lane_*")}
    assert recordings == {f"lane_{name}.pcap.zst" for name in EXPECTED}
