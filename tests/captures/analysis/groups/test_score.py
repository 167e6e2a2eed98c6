"""The published accuracy table matches the recordings."""

from __future__ import annotations

import pytest

from tests.captures.analysis.groups.score import on_page, scores, table

pytestmark = pytest.mark.slow


def test_the_page_has_the_table_of_the_recordings() -> None:
    found = scores()
    assert on_page() == table(found)
    for score in found.values():
        assert score.rebalances["right"] > 0
        assert score.silences["wrong"] == 0
