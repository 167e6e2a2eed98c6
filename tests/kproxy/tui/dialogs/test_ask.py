"""Questions: with several answers, or with a line of text."""

from __future__ import annotations

from typing import Any

import pytest
from textual.app import App
from textual.widgets import OptionList, Static

from kproxy.tui.dialogs.answer import AnswerDialog
from kproxy.tui.dialogs.ask import Answer, Ask, Prompt, confirmation
from kproxy.tui.dialogs.base import Dialog

HOSTILE = "[red]a\x1b[2Jb[/]\u202e"


class AskApp(App[None]):
    """Shows one dialog and stores its result."""

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, dialog: Dialog[Any]) -> None:
        super().__init__()
        self.dialog = dialog
        self.answers: list[Any] = []

    def on_mount(self) -> None:
        self.push_screen(self.dialog, self.answers.append)


def animals() -> Ask[int]:
    return Ask("Which?", [Answer(1, "cat", "c"), Answer(2, "dog", "d"), Answer(3, "emu")])


def not_a_number(text: str) -> str:
    return "" if text.isdecimal() else f"{text!r} is no number"


def text_of(app: App[None], selector: str) -> str:
    return str(app.screen.query_one(selector, Static).visual)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["enter"], 1),
        (["down", "enter"], 2),
        (["end", "enter"], 3),
        (["d"], 2),
        (["x", "down", "up", "enter"], 1),
        (["escape"], None),
    ],
)
async def test_an_answer_is_chosen_by_moving_or_by_its_key(keys: list[str], value: int | None) -> None:
    app = AskApp(animals())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*keys)
    assert app.answers == [value]


@pytest.mark.slow
async def test_an_answer_is_chosen_by_the_mouse() -> None:
    app = AskApp(animals())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.click(OptionList, offset=(2, 1))
    assert app.answers == [2]


@pytest.mark.parametrize(("key", "value"), [("y", True), ("n", False), ("enter", False), ("escape", None)])
async def test_a_confirmation_is_safe_against_enter(key: str, value: bool | None) -> None:
    app = AskApp(confirmation("End 3 connections?", yes="end them", no="stay"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(key)
    assert app.answers == [value]


async def test_questions_and_labels_are_no_markup() -> None:
    app = AskApp(Ask(f"{HOSTILE}\nsecond", [Answer(1, HOSTILE, "a")], title=HOSTILE))
    async with app.run_test(size=(80, 24)):
        shown = "[red]a�[2Jb[/]�"
        assert text_of(app, "#question") == f"{shown}\nsecond"
        assert str(app.screen.query_one(OptionList).get_option_at_index(0).prompt) == f"a {shown}"
        assert "\x1b" not in str(app.screen.query_one(".box").border_title)


async def test_the_selected_answer_is_told_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = AskApp(animals())
    async with app.run_test(size=(80, 24)):
        answers = app.screen.query_one(OptionList)
        assert answers.get_component_styles("option-list--option-highlighted").text_style.underline


@pytest.mark.slow
async def test_more_answers_than_lines_scroll() -> None:
    app = AskApp(Ask("Which?", [Answer(n, f"answer {n}") for n in range(100)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("end")
        box, answers = app.screen.query_one(".box"), app.screen.query_one(OptionList)
        assert app.screen.region.contains_region(box.region)
        assert box.region.contains_region(answers.region)
        await pilot.press("enter")
    assert app.answers == [99]


@pytest.mark.slow
async def test_a_line_of_text_is_returned() -> None:
    app = AskApp(Prompt("Name?", "ab"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("c", "enter")
    assert app.answers == ["abc"]


async def test_escape_returns_none() -> None:
    app = AskApp(Prompt("Name?", "ab"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("escape")
    assert app.answers == [None]


@pytest.mark.slow
async def test_what_is_wrong_is_said_while_typing_and_not_accepted() -> None:
    app = AskApp(Prompt("Number?", validate=not_a_number))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("[", "enter")
        assert text_of(app, "#problem") == "✗ '[' is no number"
        await pilot.press("backspace", "7")
        assert text_of(app, "#problem") == ""
        await pilot.press("enter")
    assert app.answers == ["7"]


@pytest.mark.slow
async def test_a_wrong_text_to_begin_with_is_not_accepted() -> None:
    app = AskApp(Prompt("Number?", "x", validate=not_a_number))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("enter")
        assert app.answers == []
        await pilot.press("escape")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["tab", "right"])
async def test_a_completion_is_offered(key: str) -> None:
    names = ["kproxy-dark", "kproxy-light", "nord"]
    app = AskApp(
        Prompt("Theme?", completions=lambda typed: [name for name in names if name.startswith(typed)])
    )
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("n")
        await pilot.app.workers.wait_for_complete()
        await pilot.pause()
        await pilot.press(key, "enter")
    assert app.answers == ["nord"]


@pytest.mark.slow
async def test_tab_without_a_completion_changes_nothing() -> None:
    app = AskApp(Prompt("Name?", "ab"))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("home", "tab", "enter")
    assert app.answers == ["ab"]


@pytest.mark.slow
def test_a_question_on_the_screen(snap_compare: Any) -> None:
    question = "Leave the proxy?\n3 connections are open."
    answers = [Answer(1, "end them, when nothing is in flight", "d"), Answer(2, "stay", "s")]
    assert snap_compare(AskApp(Ask(question, answers, title="quit")), terminal_size=(60, 12))


@pytest.mark.slow
def test_a_line_on_the_screen(snap_compare: Any) -> None:
    app = AskApp(Prompt("Number?", "1x", validate=not_a_number, title="go to"))
    assert snap_compare(app, press=["y"], terminal_size=(60, 12))


async def test_names_in_the_title_of_a_dialog_are_no_markup() -> None:
    app = AskApp(AnswerDialog("story of [/x][bold]y", []))
    async with app.run_test(size=(80, 20)):
        assert "story of [/x][bold]y" in "".join(
            segment.text for line in app.screen._compositor.render_strips() for segment in line
        )
