"""The dialog for writing exchanges to a file: which ones, format and name."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Checkbox, Input, ProgressBar, RadioSet, Static
from textual.worker import Worker

from captures.arrays import Int64s
from captures.meaning import words
from kproxy.export_files import FORMATS, SUFFIXES, FileFormat, Layout, columns_of, format_of
from kproxy.session import Session
from kproxy.session.export import Export, ExportError, ExportResult
from kproxy.session.published import numbered
from kproxy.tui.dialogs.ask import TextSuggester, may_write
from kproxy.tui.dialogs.base import Box, Dialog, fault_of
from kproxy.tui.files import completions, problem_of, written_for_user
from kproxy.tui.safe import plain
from kproxy.tui.widgets.toggles import Check, Radio

_TITLES: dict[FileFormat, str] = {
    "pcapng": "pcapng, packets",
    "json": "JSON lines",
    "csv": "CSV",
    "parquet": "Parquet",
    "mermaid": "Mermaid diagram",
}
_PACKETS = "Packets are written as they were captured, secrets and all; scrubbed, only names stay."
_SCRUBBED = "Record keys, values and headers, passwords and tokens become filler. Names stay."
_GROWING = "While traffic flows, packets are made anew, as synthetic TCP."
_MASKED = "Secrets are masked."
_OPEN = "Secrets are written: --show-secrets was given."


class Choice(NamedTuple):
    """A set of exchanges that can be written.

    :ivar name: label
    :ivar numbers: of the exchanges
    """

    name: str
    numbers: Int64s


def choices(session: Session, selected: Sequence[int]) -> list[Choice]:
    """Return the non-empty sets of exchanges of a session."""
    status = session.status
    everything = np.arange(status.first, status.first + status.exchanges, dtype=np.int64)
    shown = session.shown.all()
    offered = [
        Choice("shown", shown),
        Choice("marked", numbered(session.marked)),
        Choice("selected", numbered(selected)),
        Choice("all", everything),
    ]
    return [
        each for each in offered if len(each.numbers) and (each.name != "all" or len(shown) < len(everything))
    ]


class WriteDialog(Dialog[str | None]):
    """A dialog that writes exchanges to a file. Returns what was done, as a message; None after escape.

    :param session: the session of the exchanges
    :param selected: the exchange under the cursor
    :param name: initial file name, may be empty
    """

    DEFAULT_CSS = """
    WriteDialog {
        & > .box { width: 78; max-width: 100%; }
        #choices { height: auto; margin-bottom: 1; }
        #choices > * { width: 1fr; height: auto; padding: 0; border: none; background: transparent; }
        RadioSet { &:focus, &:focus-within { border: none; } }
        Radio, Check { width: auto; height: 1; padding: 0; border: none; background: transparent; }
        Check:focus { border: none; }
        Input { padding: 0; background: $boost; }
        #note { color: $text-muted; height: auto; }
        ProgressBar { display: none; width: 100%; Bar { width: 1fr; } }
        &.writing ProgressBar { display: block; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "close", priority=True),
        Binding("f2,ctrl+s", "write", "write", priority=True),
    ]

    def __init__(self, session: Session, selected: Sequence[int] = (), name: str = "") -> None:
        super().__init__()
        self._session = session
        self._choices = choices(session, selected)
        self._file_name = name
        self._export: Export | None = None
        self._writing: Worker[None] | None = None

    def compose(self) -> ComposeResult:
        form = _format_or(self._file_name, "pcapng")
        with Box("write exchanges to a file", "enter in the name, or F2: write   tab: next   escape: close"):
            with Horizontal(id="choices"):
                yield RadioSet(*map(_choice_button, self._choices), id="what")
                yield RadioSet(*(Radio(_TITLES[each], value=each == form) for each in FORMATS), id="format")
                with Vertical():
                    yield Check("scrub", id="scrub", compact=True)
                    yield Check("synthetic TCP", id="synthetic", compact=True)
                    yield Check("bytes as text", id="text", compact=True)
            yield Input(
                self._file_name or f"exchanges{SUFFIXES[form]}",
                suggester=TextSuggester(partial(completions, self.app)),
                compact=True,
            )
            yield Static(id="note")
            yield Static(id="problem")
            yield ProgressBar(total=1.0, show_eta=False)

    def on_mount(self) -> None:
        if self._choices:
            radio = self.query_one("#what", RadioSet).query(Radio).first()
            radio.value = True
        else:
            self._show_problem("there are no exchanges to write")
        self.query_one(Input).focus()
        self._follow_format()
        self.set_interval(0.1, self._show_progress)

    # ------------------------------------------------------------ choices
    @property
    def _format(self) -> FileFormat:
        index = self.query_one("#format", RadioSet).pressed_index
        return FORMATS[max(index, 0)]

    def _checked(self, name: str) -> bool:
        box = self.query_one(f"#{name}", Checkbox)
        return box.value and not box.disabled

    @on(RadioSet.Changed, "#format")
    def _format_chosen(self, event: RadioSet.Changed) -> None:
        event.stop()
        field = self.query_one(Input)
        path = Path(field.value)
        if _format_or(field.value, self._format) != self._format:
            field.value = f"{field.value[: len(field.value) - len(path.suffix)]}{SUFFIXES[self._format]}"
        self._follow_format()

    @on(Checkbox.Changed)
    def _option_chosen(self, event: Checkbox.Changed) -> None:
        event.stop()
        self._follow_format()

    @on(Input.Changed)
    def _name_typed(self, event: Input.Changed) -> None:
        event.stop()
        self._show_problem("")
        form = _format_or(event.value, self._format)
        if form != self._format:
            self.query_one("#format", RadioSet).query(Radio)[FORMATS.index(form)].value = True

    def _follow_format(self) -> None:
        """Enable the options of the format, and describe its effect."""
        packets = self._format == "pcapng"
        growing = not self._session.status.finished
        self.query_one("#scrub", Checkbox).disabled = not packets
        self.query_one("#synthetic", Checkbox).disabled = not packets or growing
        self.query_one("#text", Checkbox).disabled = self._format != "json"
        if packets:
            text = _SCRUBBED if self._checked("scrub") else _PACKETS
            note = f"{text} {_GROWING}" if growing else text
        else:
            note = _OPEN if self._session.show_secrets else _MASKED
        self.query_one("#note", Static).update(plain(note))

    # ------------------------------------------------------------ writing
    @on(Input.Submitted)
    def _submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_write()

    def action_write(self) -> None:
        if self._writing is None and self._choices:
            self._writing = self._write()

    def action_leave(self) -> None:
        """Stop writing; if nothing is being written, close."""
        if self._writing is None:
            self.dismiss(None)
        else:
            self._writing.cancel()

    @work(group="write")
    async def _write(self) -> None:
        try:
            await self._written()
        except CancelledError:
            self._show_problem("stopped: nothing was written")
            raise
        except ExportError as error:
            self._show_problem(str(error))
        except Exception as error:
            self._show_problem(fault_of("writing", error))
        finally:
            self._writing = self._export = None
            self.remove_class("writing")

    async def _written(self) -> None:
        name = self.query_one(Input).value
        problem = problem_of(self.app, name)
        if problem:
            self._show_problem(problem)
            return
        path = Path(name).expanduser()
        if not path.suffix:
            path = path.with_suffix(SUFFIXES[self._format])
        if not await may_write(self.app, path):
            return
        self._show_problem("")
        self.add_class("writing")
        with written_for_user(self.app, path) as made:
            self._export = Export(
                self._session,
                self._choices[max(self.query_one("#what", RadioSet).pressed_index, 0)].numbers,
                made,
                Layout(self._format, columns_of(self._format), text=self._checked("text")),
                scrub=self._checked("scrub"),
                synthetic=self._checked("synthetic"),
            )
            result = await self._export.run()
        self.dismiss(report(path, result))

    def _show_progress(self) -> None:
        if self._export is not None:
            self.query_one(ProgressBar).progress = self._export.progress


def report(path: Path, written: ExportResult) -> str:
    """Return what was written, in words."""
    text = f"{words.counted(written.exchanges, 'exchange')} written to {path}, {words.size(written.size)}"
    return "; ".join((text, *written.notes))


def _choice_button(choice: Choice) -> Radio:
    return Radio(f"{choice.name}  {len(choice.numbers):,}")


def _format_or(name: str, otherwise: FileFormat) -> FileFormat:
    """Return the format for a file name's suffix, `otherwise` if it has none."""
    try:
        return format_of(name)
    except ValueError:
        return otherwise
