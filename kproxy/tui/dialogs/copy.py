"""The dialog for copying exchanges: the formats, with a preview of each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from captures.exchanges import Exchange
from captures.meaning import words
from dissectors.printable import printable
from kproxy.copy_as import CannotCopyError, Context, Format, formats_of
from kproxy.export_files import replacing
from kproxy.session import Session
from kproxy.session.access import Access
from kproxy.session.engine import Priority
from kproxy.text.cells import cut
from kproxy.tui import clipboard
from kproxy.tui.dialogs.ask import Prompt, may_write
from kproxy.tui.dialogs.base import Box, ListDialog, fault_of
from kproxy.tui.files import completions, problem_of, written_for_user
from kproxy.tui.safe import plain

MOST_EXCHANGES = 1_000
"""Most exchanges that can be copied; more belong in a file."""

_SHOWN_LINES = 400
_SHOWN_COLUMNS = 400
_FEW_LINES = 4
_SHOWN_CHARACTERS = 8_000
_STEP = 0.01


class CopyDialog(ListDialog[str | None]):
    """A dialog that copies exchanges in a format. Returns what was done, as a message; None after escape.

    :param session: the session of the exchanges
    :param numbers: of the exchanges
    :param first: formats offered before those of exchanges
    """

    DEFAULT_CSS = """
    CopyDialog {
        & > .box { width: 100%; max-width: 140; height: 90%; }
        #formats { width: 30; border-right: solid $primary-muted; }
        #preview { width: 1fr; height: 1fr; padding-left: 1; overflow-x: auto; }
        #text { width: auto; height: auto; text-wrap: nowrap; }
        #text.wrapped { width: 100%; text-wrap: wrap; }
        #text.problem { color: $text-error; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "file", "to a file"),
        Binding("enter", "copy", "copy", priority=True),
    ]

    def __init__(self, session: Session, numbers: Sequence[int], first: Sequence[Format] = ()) -> None:
        super().__init__()
        self._first = first
        self._session = session
        self._numbers = numbers
        self._exchanges: list[Exchange] = []
        self._formats: list[Format] = []

    def compose(self) -> ComposeResult:
        keys = "enter: copy   f: to a file   tab: scroll   escape: close"
        with Box(f"copy {_title(self._numbers)} as", keys), Horizontal():
            yield OptionList(id="formats", compact=True)
            with VerticalScroll(id="preview"):
                yield Static(id="text")

    @work(group="load")
    async def on_mount(self) -> None:
        """Decode the exchanges, and list their formats."""
        options = self.query_one(OptionList)
        options.focus()
        try:
            self._exchanges = await self._session.run(taking(self._numbers), Priority.LOOK)
            formats = await self._session.run(lambda _: formats_of(self._exchanges), Priority.LOOK)
        except LookupError as error:
            self._show_problem(str(error))
            return
        except Exception as error:
            self._show_problem(fault_of("reading the exchanges", error))
            return
        self._formats = [*self._first, *formats]
        options.add_options(Option(each.title, id=each.name) for each in self._formats)
        options.highlighted = 0

    @on(OptionList.OptionHighlighted)
    def _highlighted(self, event: OptionList.OptionHighlighted) -> None:
        event.stop()
        self._show(self._formats[event.option_index])

    @property
    def _format(self) -> Format | None:
        index = self.query_one(OptionList).highlighted
        return None if index is None else self._formats[index]

    # ------------------------------------------------------------ the preview
    @work(group="preview", exclusive=True)
    async def _show(self, form: Format) -> None:
        make = making(form, self._exchanges, self._session)
        try:
            content, wrapped = await self._session.run(lambda access: preview(make(access)), Priority.LOOK)
        except CannotCopyError as error:
            self._show_problem(str(error))
            return
        except Exception as error:
            self._show_problem(fault_of(f"making the {form.title}", error))
            return
        shown = self.query_one("#text", Static)
        shown.remove_class("problem")
        shown.set_class(wrapped, "wrapped")
        shown.update(content)
        self.query_one("#preview", VerticalScroll).scroll_home(animate=False)

    async def _text(self, form: Format) -> str:
        return await self._session.run(making(form, self._exchanges, self._session), Priority.LOOK)

    async def _chosen(self) -> tuple[Format, str] | None:
        """Return the highlighted format and its text; None if there is none, as the preview reports."""
        form = self._format
        if form is None:
            return None
        try:
            return form, await self._text(form)
        except CannotCopyError:
            self.app.bell()
            return None
        except Exception as error:
            self._show_problem(fault_of(f"making the {form.title}", error))
            return None

    def _show_problem(self, problem: str) -> None:
        shown = self.query_one("#text", Static)
        shown.add_class("problem", "wrapped")
        shown.update(plain(f"✗ {problem}"))

    # ------------------------------------------------------------ keys
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the action for files if the UI must not write any."""
        return action != "file" or getattr(self.app, "writes_files", True)

    @work(group="copy", exclusive=True)
    async def action_copy(self) -> None:
        chosen = await self._chosen()
        if chosen is None:
            return
        form, text = chosen
        copied = await clipboard.copy(self.app, text)
        if copied.done:
            self.dismiss(f"{form.title}: {copied.message}")
            return
        self._show_problem(f"{copied.message}: f writes it to a file")

    @work(group="copy", exclusive=True)
    async def action_file(self) -> None:
        chosen = await self._chosen()
        if chosen is None:
            return
        form, text = chosen
        initial = f"exchange-{self._numbers[0]}{form.suffix}"
        name = await self.app.push_screen_wait(
            Prompt(
                f"File for the {form.title}",
                initial,
                title="write to a file",
                validate=partial(problem_of, self.app),
                completions=partial(completions, self.app),
            )
        )
        if name is None:
            return
        path = Path(name).expanduser()
        if not await may_write(self.app, path):
            return
        try:
            with written_for_user(self.app, path) as made:
                await asyncio.to_thread(_write, made, text)
        except OSError as error:
            self._show_problem(f"{path} could not be written: {error.strerror or error}")
            return
        self.dismiss(f"{form.title}: {words.size(len(text.encode()))} written to {path}")


def taking(numbers: Sequence[int]) -> Callable[[Access], Generator[None, None, list[Exchange]]]:
    """Return a job that decodes at most :data:`MOST_EXCHANGES` exchanges."""

    def take(access: Access) -> Generator[None, None, list[Exchange]]:
        taken = []
        began = time.perf_counter()
        for number in numbers[:MOST_EXCHANGES]:
            taken.append(access.exchange(number))
            if time.perf_counter() - began > _STEP:
                yield
                began = time.perf_counter()
        return taken

    return take


def making(form: Format, exchanges: Sequence[Exchange], session: Session) -> Callable[[Access], str]:
    """Return a job that formats exchanges."""

    def make(access: Access) -> str:
        context = Context(access.capture, session.zone, session.show_secrets)
        return form.text(exchanges, context)

    return make


def preview(text: str) -> tuple[Content, bool]:
    """Return the start of a text for display, line by line, and whether to wrap its lines.

    Wrapping would break columns; but of few and long lines, such as JSON, too little would be visible without it.
    """
    text = text.removesuffix("\n")
    wrapped = text.count("\n") < _FEW_LINES
    most = _SHOWN_CHARACTERS if wrapped else _SHOWN_COLUMNS
    lines = text.split("\n", _SHOWN_LINES)
    more = [f"… {lines.pop().count(chr(10)) + 1:,} more lines"] if len(lines) > _SHOWN_LINES else []
    shown = [cut(printable(line[: most + 1].expandtabs()), most) for line in lines]
    return Content("\n".join([*shown, *more])), wrapped


def _title(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"exchange {numbers[0]:,}"
    if len(numbers) > MOST_EXCHANGES:
        return f"the first {MOST_EXCHANGES:,} of {len(numbers):,} exchanges"
    return f"{len(numbers):,} exchanges"


def _write(path: Path, text: str) -> None:
    with replacing(str(path)) as file:
        file.write(text.encode())
