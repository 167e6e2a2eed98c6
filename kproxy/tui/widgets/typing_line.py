"""The base of the filter bar, the search bar and the command line: a line to type in.

Typed text is judged, and completions are offered. Both happen in a thread, because a line may be long and a directory
slow; results are shown only if they are for the current text. Keys: up and down choose a completion, or walk through
the history; tab accepts a completion; enter submits; escape closes the completions, then the line. Errors are
underlined in the line, and explained below it with carets under their place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from rich.highlighter import Highlighter
from rich.style import Style as RichStyle
from rich.text import Text
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Input, Label, OptionList, Static

from captures.filters import Candidate
from kproxy.text.cells import width
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.history import History, HistoryCursor
from kproxy.tui.widgets.completion_list import CompletionList
from kproxy.tui.widgets.verdict import Validity, Verdict, harmless, verdict_text

_PATIENCE = 0.1
"""Seconds to wait for completions before showing the verdict; the session, which knows values, may be busy."""


class _PrintableHighlighter(Highlighter):
    """Escapes the text of a line, character by character, and underlines errors."""

    def __init__(self) -> None:
        self.wrong: tuple[int, int] | None = None
        self.style = RichStyle()

    def __call__(self, text: str | Text) -> Text:
        plain = text if isinstance(text, str) else text.plain
        shown = Text(harmless(plain), no_wrap=True, overflow="ignore", end="")
        self.highlight(shown)
        return shown

    def highlight(self, text: Text) -> None:
        if self.wrong is not None:
            text.stylize(self.style, *self.wrong)


class _Line(Input):
    """The input widget."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "submit", "apply", tooltip="Apply what is typed.", id="typing.apply"),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"line--wrong"}

    def __init__(self, placeholder: str) -> None:
        self._shown = _PrintableHighlighter()
        super().__init__(
            placeholder=placeholder, compact=True, highlighter=self._shown, select_on_focus=False
        )

    def underline(self, verdict: Verdict) -> None:
        wrong = not verdict.usable and verdict.length > 0
        self._shown.wrong = (verdict.position, verdict.position + verdict.length) if wrong else None
        self._shown.style = self.get_component_rich_style("line--wrong", partial=True)
        self.refresh()

    def _on_paste(self, event: events.Paste) -> None:
        # Input takes only the first line, but filters are often written over several
        event.prevent_default()
        event.stop()
        self.replace(" ".join(event.text.split()), *self.selection)


class TypingLine(Widget):
    """A line that is opened for typing, and closes when it is submitted or cancelled.

    :param sign: label before the line
    :param history: of the line
    :param placeholder: shown while the line is empty
    :ivar verdict: on the current text; on an earlier one while that is being judged
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.TYPING),
    ]

    DEFAULT_CSS = """
    TypingLine {
        display: none;
        height: 2;
        width: 1fr;
        background: $surface;
        & Horizontal { height: 1; }
        & #sign { width: auto; padding: 0 1; color: $text-muted; text-style: bold; }
        & #verdict { width: 1fr; height: 1; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
        & _Line { width: 1fr; padding: 0; background: $surface; }
        & .line--wrong { text-style: underline; color: $text-error; }
        &.-valid #sign { color: $text-success; }
        &.-incomplete #sign, &.-incomplete #verdict { color: $text-warning; }
        &.-invalid #sign, &.-invalid #verdict { color: $text-error; }
    }
    """

    def __init__(
        self,
        sign: str,
        history: History,
        placeholder: str = "",
    ) -> None:
        super().__init__()
        self.history = history
        self.verdict = Verdict("", Validity.EMPTY)
        self._sign = sign
        self._placeholder = placeholder
        self._walk: HistoryCursor | None = None
        self._typed = ""  # text typed by the user, not set by the program
        self._put: str | None = ""  # text set by the program, None once the user types
        self._before: Widget | None = None  # widget that had the focus
        self._verdict_at = 0  # column of the line when the message below it was drawn

    # ------------------------------------------------------------ for subclasses
    def judge(self, text: str) -> Verdict:
        """Return the verdict on a text. Runs in a thread."""
        raise NotImplementedError

    def submit(self, verdict: Verdict) -> None:
        """Post the value of a usable text."""
        raise NotImplementedError

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        """Return completions; slow work belongs in a thread."""
        return ()

    def replaced(self, text: str, cursor: int, candidate: Candidate) -> tuple[str, int]:
        """Return the text with a candidate inserted, and the new cursor position."""
        begin, end = text[: candidate.start], text[cursor:]
        middle = candidate.text
        if not middle.endswith((".", "{", "/")):
            middle += " " * (not end.startswith(" "))
        return f"{begin}{middle}{end}", len(begin) + len(middle)

    # ------------------------------------------------------------ content
    def compose(self) -> ComposeResult:
        with Horizontal():
            yield Label(self._signed(), id="sign", markup=False)
            yield _Line(self._placeholder)
        yield Static("", id="verdict", markup=False)
        yield CompletionList()

    @property
    def _line(self) -> _Line:
        return self.query_one(_Line)

    @property
    def _list(self) -> CompletionList:
        return self.query_one(CompletionList)

    def on_mount(self) -> None:
        self.run_worker(asyncio.to_thread(self.history.load), group="history")
        self.watch(self._line, "selection", self._moved, init=False)
        self.watch(self._line, "scroll_x", self._show_verdict, init=False)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._laid_out)

    @property
    def text(self) -> str:
        return self._line.value

    @property
    def is_open(self) -> bool:
        return self.display

    def open(self, text: str = "", sign: str | None = None) -> None:
        """Show the line and focus it.

        :param text: initial text; the cursor is after it
        :param sign: label before the line, unchanged if None
        """
        if sign is not None:
            self._sign = sign
            self._show_verdict()
        focused = self.screen.focused
        if focused is not None and focused is not self._line:
            self._before = focused
        if self.screen.maximized is not None:  # the line must be visible
            self.screen.minimize()
        self.display = True
        self._put_text(text)
        # at once, so that the next keys go here
        self.screen.set_focus(self._line)

    def close(self) -> None:
        """Hide the line, and restore the focus."""
        self._list.close()
        had_focus = self._line.has_focus
        self.display = False
        if had_focus and self._before is not None and self._before.is_attached:
            self.screen.set_focus(self._before)
        self._before = None

    # ------------------------------------------------------------ judging and offering
    def _put_text(self, text: str) -> None:
        """Set the text without offering completions, because the user has not typed it."""
        line = self._line
        self._list.close()
        self._put, self._typed = text, ""
        line.value = text
        line.cursor_position = len(text)
        self.call_after_refresh(self._show_cursor)  # the width is known only after the refresh
        self.study(offer=False)

    def _show_cursor(self) -> None:
        line = self._line
        column = width(harmless(line.value[: line.cursor_position]))
        line.scroll_to_region(Region(column, 0, 1, 1), force=True, animate=False)

    @on(Input.Changed)
    def _changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value == self._put:
            return
        self._walk = None
        self._put = None
        self._typed = event.value
        self.study(offer=bool(event.value.strip()))

    def _moved(self) -> None:
        if self._list.is_open:
            self.study(offer=True)

    @work(exclusive=True, group="study")
    async def study(self, *, offer: bool) -> None:
        """Judge the text, and show the verdict.

        :param offer: whether to offer completions
        """
        line = self._line
        text, cursor = line.value, line.cursor_position
        verdict = await asyncio.to_thread(self.judge, text)
        offered = await self._offered(text, cursor, verdict) if offer else ()
        if (line.value, line.cursor_position) != (text, cursor) or not self.is_open:
            return
        start = min((one.start for one in offered), default=cursor)
        if verdict.validity is Validity.INVALID and verdict.position + verdict.length == cursor and offered:
            # the word is still being typed, and may become one of the candidates
            verdict = Verdict(text, Validity.INCOMPLETE, verdict.message, verdict.position, verdict.length)
        self._take(verdict)
        if [one.text for one in offered] == [text[start:cursor]]:
            offered = ()  # the candidate is already typed
        self._list.offer(offered, self._column(start), self.region, self.screen.region)

    async def _offered(self, text: str, cursor: int, verdict: Verdict) -> Sequence[Candidate]:
        """Return completions; if they take long, show the verdict first."""
        finding = asyncio.ensure_future(self.candidates(text, cursor))
        try:
            done, _ = await asyncio.wait({finding}, timeout=_PATIENCE)
            if not done and self._line.value == text:
                self._take(verdict)
            return await finding
        finally:
            finding.cancel()

    def _take(self, verdict: Verdict) -> None:
        self.verdict = verdict
        for validity in Validity:
            self.set_class(validity is verdict.validity, f"-{validity.name.lower()}")
        self._line.underline(verdict)
        self._show_verdict()

    def _signed(self) -> str:
        return f"{self._sign} {self.verdict.validity.value}"

    def _show_verdict(self) -> None:
        verdict = self.verdict
        self.query_one("#sign", Label).update(Content(self._signed()))
        self._verdict_at = self._column(0)
        text = verdict_text(verdict, self._verdict_at - self.region.x, self.size.width)
        self.query_one("#verdict", Static).update(Content(text))

    def _column(self, index: int) -> int:
        """Return the screen column of a character of the text."""
        line = self._line
        return line.content_region.x + width(harmless(line.value[:index])) - round(line.scroll_x)

    def on_resize(self) -> None:
        """Show the message for the new width."""
        self._show_verdict()

    def _laid_out(self, _: object) -> None:
        if self.is_open and self._verdict_at != self._column(0):
            self._show_verdict()
        if self._list.is_open:
            start = min(one.start for one in self._list.candidates)
            self._list.place(self._column(start), self.region, self.screen.region)

    # ------------------------------------------------------------ keys
    @on(Input.Submitted)
    async def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        chosen = self._list.chosen if self._list.is_open else None
        if chosen is not None:  # a highlighted candidate takes precedence
            self._insert(chosen)
            return
        self.workers.cancel_group(self, "study")
        text = self.text
        self._take(await asyncio.to_thread(self.judge, text))
        self._list.close()
        if not self.verdict.usable:
            self._line.cursor_position = self.verdict.position
            return
        self.history.add(text.strip())
        self.run_worker(asyncio.to_thread(self.history.save), group="history")
        self.close()
        self.submit(self.verdict)

    def action_typing_accept(self) -> None:
        """Insert the highlighted completion, or the first; if none are shown, offer them."""
        offers = self._list
        if offers.is_open:
            self._insert(offers.chosen or offers.candidates[0])
        else:
            self.study(offer=True)

    def _insert(self, candidate: Candidate) -> None:
        line = self._line
        text, cursor = self.replaced(line.value, line.cursor_position, candidate)
        self._list.close()
        line.value = text
        line.cursor_position = cursor

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        chosen = self._list.candidates[event.option_index]
        self._line.focus()
        self._insert(chosen)

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()

    def action_typing_up(self) -> None:
        """Move to the previous completion; without any, to the previous entry of the history."""
        if self._list.is_open:
            self._list.move(-1)
            return
        self._recall(self._recalling().older())

    def action_typing_down(self) -> None:
        """Move to the next completion; without any, to the next entry of the history; after the last, offer some."""
        if self._list.is_open:
            self._list.move(1)
        elif not self._recall(self._recalling().newer()):
            self.study(offer=True)

    def _recalling(self) -> HistoryCursor:
        if self._walk is None:
            self._walk = HistoryCursor(self.history.entries, self.text, self._typed)
        return self._walk

    def _recall(self, text: str | None) -> bool:
        """Set the text to an entry of the history; return False if it is None."""
        if text is None:
            return False
        typed = self._typed
        self._put_text(text)
        self._typed = typed
        return True

    def action_page(self, pages: int) -> None:
        if self._list.is_open:
            self._list.page(pages)

    def action_typing_close(self) -> None:
        """Close the completions; without any, the line."""
        if self._list.is_open:
            self._list.close()
            return
        self.workers.cancel_group(self, "study")
        self.close()

    def on_descendant_blur(self) -> None:
        """Close the completions when the focus leaves."""
        self._list.close()
