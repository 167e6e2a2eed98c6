"""Choosing an order."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App

from kproxy.saved_choices import ProfileColumn
from kproxy.session.published import Order
from kproxy.tui.dialogs.order import OrderDialog, orders
from kproxy.tui.profiles import DEFAULT, Profile


class OrderApp(App[None]):
    """Shows the dialog and stores its result."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, order: Order | None) -> None:
        super().__init__()
        self.order = order
        self.answers: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(OrderDialog(DEFAULT, self.order), self.answers.append)


def test_what_is_shown_comes_first_and_nothing_twice() -> None:
    found = [
        each.order
        for each in orders(
            Profile("", (ProfileColumn("topic"), ProfileColumn("summary"), ProfileColumn("latency")))
        )
    ]
    assert found[:2] == ["topic", "latency"]
    assert len(set(found)) == len(found)
    assert {"number", "time", "client_id", "client", "request_size"} < set(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "keys", "chosen"),
    [
        (None, ["j", "j", "enter"], Order("latency")),
        (None, ["enter"], Order("number", descending=True)),
        (Order("latency"), ["enter"], Order("latency", descending=True)),
        (Order("latency", descending=True), ["enter"], Order("latency")),
        (Order("latency"), ["down", "v"], Order("client_id", descending=True)),
        (Order("topic"), ["k", "escape"], None),
        (None, ["plus", *"topic", "enter"], Order("topic")),
    ],
)
async def test_an_order_is_chosen(order: Order | None, keys: list[str], chosen: Order | None) -> None:
    app = OrderApp(order)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
        await pilot.pause()
    assert app.answers == [chosen]
