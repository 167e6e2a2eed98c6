"""Generated reference pages are what the code says today."""

from __future__ import annotations

import pytest

from docs.generate import DOCS, pages


@pytest.mark.parametrize("name", pages())
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == pages()[name], "run python -m docs.generate"
