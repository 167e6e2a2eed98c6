"""The whole application as it looks at the sizes that people have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.tui.app import KproxyApp
from kproxy.tui.settings import Settings
from tests.kproxy.tui.kit import session_of, settled

pytestmark = pytest.mark.slow


@pytest.fixture
def app() -> Iterator[KproxyApp]:
    made = KproxyApp(session_of(), Settings())
    yield made
    made.session.close()


def _at(number: int, *keys: str) -> Any:
    async def go(pilot: Pilot[Any]) -> None:
        await settled(pilot)
        app: Any = pilot.app
        app.main.exchanges.list.go_to(number)
        await settled(pilot)
        await pilot.press(*keys)
        await settled(pilot)

    return go


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50)], ids=["80x24", "120x36", "200x50"])
def test_the_exchanges(size: tuple[int, int], app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=size, run_before=_at(52))


def test_details_beside_the_list(app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=(200, 50), run_before=_at(52, "minus"))


def test_a_filter_is_typed(app: KproxyApp, snap_compare: Any) -> None:
    assert snap_compare(app, terminal_size=(100, 30), run_before=_at(52, "f", *"lat"))
