"""Incidents, rebalances and their causes are the same in all readings: at once, live, in the UI, by Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures.analysis.groups.truth import FOLDER
from tests.captures.analysis.incidents.readings import by_columns, differences

FINDINGS = FOLDER.parent / "findings"
RECORDINGS = sorted([*FOLDER.rglob("*.pcap.zst"), *FINDINGS.glob("*.pcap.zst")])


@pytest.mark.turns(10)
@pytest.mark.slow
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name.partition(".")[0])
async def test_answers_do_not_depend_on_the_reading(path: Path, tmp_path: Path) -> None:
    assert await differences(path, tmp_path) == []


def test_recordings_have_answers_to_compare() -> None:
    answers = by_columns(FOLDER / "46_k430_quick_return.pcap.zst")
    assert answers["incidents"]
    assert any(each["because_of"] for each in answers["rebalances"])
