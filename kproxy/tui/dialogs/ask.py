"""Small dialogs for all parts of the UI: a choice of answers, and a line of text.

Questions, labels and texts may contain text from the wire; they are shown escaped, and never parsed as markup.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen
from textual.suggester import Suggester
from textual.validation import ValidationResult, Validator
from textual.widget import Widget
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from captures.meaning import words
from kproxy.tui.dialogs.base import Box, Dialog, lines
from kproxy.tui.safe import plain

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Answer(Generic[Value]):
    """One answer to a question.

    :ivar value: result of the dialog
    :ivar label: text in the list
    :ivar key: a character that chooses it at once, empty for none
    """

    value: Value
    label: str
    key: str = ""


class Ask(Dialog[Value | None], Generic[Value]):
    """A question with a list of answers. Returns the value of the chosen answer, None after escape.

    :param question: may have several lines
    :param answers: the answers in order
    :param title: of the box
    :param chosen: index of the answer that is highlighted at first, which Enter chooses
    :param between: a widget between question and answers
    """

    DEFAULT_CSS = """
    Ask {
        & > .box { min-width: 32; }
        #question { width: auto; max-width: 76; max-height: 35vh; margin-bottom: 1; }
        OptionList { width: auto; min-width: 100%; max-height: 50vh; }
    }
    """

    def __init__(
        self,
        question: str | Content,
        answers: Sequence[Answer[Value]],
        *,
        title: str = "",
        chosen: int = 0,
        between: Widget | None = None,
    ) -> None:
        super().__init__()
        self._question = lines(question)
        self._answers = answers
        self._title = title
        self._chosen = chosen
        self._between = between

    def compose(self) -> ComposeResult:
        with Box(self._title):
            yield Static(self._question, id="question")
            if self._between is not None:
                yield self._between
            yield OptionList(*(Option(self._line(answer)) for answer in self._answers), compact=True)

    def _line(self, answer: Answer[Value]) -> Content:
        if not any(other.key for other in self._answers):
            return plain(answer.label)
        return Content.assemble((f"{answer.key or ' '} ", "bold"), plain(answer.label))

    def on_mount(self) -> None:
        answers = self.query_one(OptionList)
        answers.highlighted = self._chosen
        answers.focus()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self.dismiss(self._answers[event.option_index].value)

    def on_key(self, event: events.Key) -> None:
        for answer in self._answers:
            if answer.key and event.character == answer.key:
                event.stop()
                self.dismiss(answer.value)
                return


def confirmation(question: str | Content, *, yes: str = "yes", no: str = "no", title: str = "") -> Ask[bool]:
    """Return a yes-or-no dialog; Enter means no at first, and escape returns None.

    :param yes: label of the answer that confirms, one or two words
    :param no: label of the other answer
    """
    answers = [Answer(True, yes, "y"), Answer(False, no, "n")]
    return Ask(question, answers, title=title, chosen=1)


class Prompt(Dialog[str | None]):
    """A dialog for one line of text. Returns it, None after escape.

    :param prompt: what to type; may have several lines
    :param initial: initial text
    :param validate: returns what is wrong with a text, empty if it is valid; invalid texts are not accepted
    :param completions: returns completions of the typed text; the first is suggested, and the right arrow accepts it
    :param title: of the box
    :param problem: why the initial text was refused
    """

    DEFAULT_CSS = """
    Prompt {
        & > .box { width: 76; }
        Input { padding: 0; background: $boost; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("tab", "complete", "complete", show=False, priority=True),
    ]

    def __init__(
        self,
        prompt: str | Content,
        initial: str = "",
        *,
        validate: Callable[[str], str] | None = None,
        completions: Callable[[str], Sequence[str]] | None = None,
        title: str = "",
        problem: str = "",
    ) -> None:
        super().__init__()
        self._prompt = lines(prompt)
        self._problem = problem
        self._initial = initial
        self._validator = _TextValidator(validate) if validate is not None else None
        self._suggester = TextSuggester(completions) if completions is not None else None
        self._title = title

    def compose(self) -> ComposeResult:
        with Box(self._title, "enter: accept   escape: cancel"):
            yield Static(self._prompt, id="prompt")
            yield Input(
                self._initial,
                suggester=self._suggester,
                validators=self._validator,
                validate_on=["changed", "submitted"],
                select_on_focus=False,
                compact=True,
            )
            yield Static(id="problem")

    def on_mount(self) -> None:
        self._show_problem(self._problem)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self._initial or not self._problem:
            self._show_result(event.validation_result)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.validation_result is None or event.validation_result.is_valid:
            self.dismiss(event.value)
            return
        self._show_result(event.validation_result)

    def _show_result(self, result: ValidationResult | None) -> None:
        problems = result.failure_descriptions if result is not None else []
        self._show_problem("\n✗ ".join(problems))

    def action_complete(self) -> None:
        """Accept the suggested completion."""
        field = self.query_one(Input)
        field.cursor_position = len(field.value)
        field.action_cursor_right()


class _TextValidator(Validator):
    """Adapts a function that returns an error message to a Textual validator."""

    def __init__(self, problem: Callable[[str], str]) -> None:
        super().__init__()
        self._problem = problem

    def validate(self, value: str) -> ValidationResult:
        problem = self._problem(value)
        return self.failure(problem) if problem else self.success()


async def may_write(app: App[Any], path: Path) -> bool:
    """Return whether the user wants a file to be written; asks if it exists. In a browser it is downloaded."""
    if app.is_web or not path.exists():
        return True
    question = f"{path} exists, with {words.size(path.stat().st_size)}."
    asked: Screen[Any] = confirmation(question, yes="overwrite it", no="keep it", title="write")
    return bool(await app.push_screen_wait(asked))


class TextSuggester(Suggester):
    """Suggests the first text that continues the typed text."""

    def __init__(self, completions: Callable[[str], Sequence[str]]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._completions = completions

    async def get_suggestion(self, value: str) -> str | None:
        return next(
            (text for text in self._completions(value) if text.startswith(value) and text != value), None
        )
