"""Facts with selectable references to exchanges."""

from __future__ import annotations

from typing import Any

from textual import on
from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content

from kproxy.tui.widgets.fact_text import BEHIND_LABEL, FactText, with_references

HOSTILE = f"{'(' * 40}#252 #{'9' * 5000} #{'9' * 15} #0"
STORY = f"m3 left.\nmoved{BEHIND_LABEL}t#7-0 to #x\nevidence{BEHIND_LABEL}LeaveGroup #383, Fetch (#9)"


class FactApp(App[None]):
    """Two lines of facts that end with two references."""

    def __init__(self, text: str = STORY) -> None:
        super().__init__()
        self.text = text
        self.entered: list[int] = []

    def compose(self) -> ComposeResult:
        yield VerticalScroll(FactText(), can_focus=False)

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).styles.height = 2
        text = self.query_one(FactText)
        text.update(with_references(Content(self.text)))
        text.focus()

    @on(FactText.ReferenceEntered)
    def _note(self, message: FactText.ReferenceEntered) -> None:
        self.entered.append(message.reference)


def cells(app: App[Any], y: int) -> str:
    return "".join(segment.text for segment in app.query_one(FactText).render_line(y))


async def test_keys_and_clicks_lead_to_the_exchanges_that_a_text_names() -> None:
    app = FactApp()
    async with app.run_test(size=(60, 10)) as pilot:
        await pilot.press("enter", "right", "enter", "right", "enter", "left", "enter")
        assert app.entered == [383, 9, 9, 383], "neither t#7-0 nor #x is an exchange"
        assert app.query_one(VerticalScroll).scroll_offset.y == 1, "the reference is in sight"
        line = cells(app, 2)
        await pilot.click(FactText, offset=(line.index("#9"), 2))
        assert app.entered[4:] == [9]


async def test_references_in_names_from_the_wire_are_harmless() -> None:
    app = FactApp(HOSTILE)
    async with app.run_test(size=(42, 10)) as pilot:
        await pilot.press("enter", *["right", "enter"] * 3)
    assert set(app.entered) == {252, 10**15 - 1, 0}, (
        "#252 is wrapped, and 5000 digits are no number of an exchange"
    )
