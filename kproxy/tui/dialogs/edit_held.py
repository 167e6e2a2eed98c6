"""The editor for a held message: its fields in a form, or the whole as JSON, with changes shown before sending.

The message is released automatically before its client gives up, so the dialog counts down, and reports when it is too
late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import time_ns
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import ContentSwitcher, Input, Static, Tab, Tabs, TextArea

from dissectors.printable import printable
from kproxy.session.published import HeldMessage
from kproxy.text.tables import Column
from kproxy.tui.dialogs.base import Box, Dialog, lines
from kproxy.tui.live.draft import (
    MOST_TEXT,
    Draft,
    EditError,
    EditResult,
    InvalidError,
    Leaf,
    differences_text,
)
from kproxy.tui.live.state import held_words, left_words
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import Cell, Role, Row

_TICK = 0.5  # seconds
_PAUSE = 0.15  # seconds without a key before the text is checked
_MOST_SHOWN = 200  # changes

FIELDS, JSON = "fields", "json"

_NOT_SHOWN = """This message holds secrets, which are not shown.
Edit its other fields, or start kproxy with --show-secrets."""


class EditHeld(Dialog[bytes | None]):
    """A dialog for editing a held message. Returns the frame to release instead, None if it stays held.

    :param held: metadata of the message
    :param draft: the edited copy
    :param still_held: returns the current metadata, None if the message was released
    """

    DEFAULT_CSS = """
    EditHeld {
        & > .box { width: 96%; max-width: 150; height: 96%; }
        #left { height: 1; color: $text-muted; }
        Tabs { height: 2; }
        ContentSwitcher { height: 1fr; }
        #fields { height: 1fr; }
        #field-value { padding: 0; background: $boost; }
        #about { height: auto; max-height: 3; color: $text-muted; }
        TextArea { height: 1fr; border: none; padding: 0; }
        TextArea:focus { border: none; }
        #outcome { height: auto; max-height: 30%; overflow-y: auto; border-top: solid $primary; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back"),
        Binding("ctrl+s", "send", "send", priority=True),
        Binding("ctrl+t", "other_tab", "fields/JSON", priority=True),
    ]

    def __init__(self, held: HeldMessage, draft: Draft, still_held: Callable[[], HeldMessage | None]) -> None:
        super().__init__()
        self._held = held
        self._draft = draft
        self._still_held = still_held
        self._leaves: dict[str, Leaf] = {}
        self._edited: EditResult | None = None
        self._stale = {JSON}
        self._over = False

    def compose(self) -> ComposeResult:
        keys = "enter: change   ctrl+t: fields/JSON   ctrl+s: send   escape: back"
        with Box(f"edit {held_words(self._held)}", keys):
            yield Static(id="left")
            yield Tabs(Tab("Fields", id=f"tab-{FIELDS}"), Tab("JSON", id=f"tab-{JSON}"))
            with ContentSwitcher(initial=FIELDS):
                with Vertical(id=FIELDS):
                    columns = [
                        Column("field", least=16),
                        Column("type", rank=2),
                        Column("value", least=16),
                        Column("called", rank=1),
                    ]
                    yield RowTable(columns, empty="This message has no fields.", id="fields-table")
                    yield Input(id="field-value", compact=True, select_on_focus=True)
                    yield Static(id="about")
                yield TextArea(id=JSON, show_line_numbers=True, tab_behavior="focus")
            yield Static(id="outcome")

    async def on_mount(self) -> None:
        self.query_one("#field-value", Input).disabled = True
        self.query_one(RowTable).focus()
        self.set_interval(_TICK, self._tick)
        self._tick()
        await self._check()

    def _tick(self) -> None:
        held = self._still_held()
        self._over = held is None
        left = self.query_one("#left", Static)
        if held is None:
            left.update(
                Content.styled("✗ The message is no longer held, so it cannot be edited.", "$text-error")
            )
            return
        behind = f"   {held.waiting_behind:,} wait behind it" if held.waiting_behind else ""
        left.update(Content(f"released automatically in {left_words(held, time_ns())}{behind}"))

    # ------------------------------------------------------------ fields
    async def _show_fields(self) -> None:
        changed = set() if self._edited is None else {change.path for change in self._edited.changes}

        def made() -> tuple[dict[str, Leaf], list[Row]]:
            leaves = self._draft.leaves()
            return {leaf.path: leaf for leaf in leaves}, [_row(leaf, leaf.path in changed) for leaf in leaves]

        self._leaves, rows = await asyncio.to_thread(made)
        self.query_one(RowTable).set_rows(rows)
        if not self.query_one("#field-value", Input).has_focus:
            self._show_field()

    @property
    def _leaf(self) -> Leaf | None:
        row = self.query_one(RowTable).selected
        return None if row is None else self._leaves.get(str(row.key))

    @on(RowTable.RowSelected)
    def _field_selected(self, event: RowTable.RowSelected) -> None:
        event.stop()
        self._show_field()

    def _show_field(self) -> None:
        leaf, field = self._leaf, self.query_one("#field-value", Input)
        if leaf is None:
            return
        with self.prevent(Input.Changed):
            field.value = leaf.text
        field.disabled = bool(leaf.fixed)
        self._show_about(leaf)

    def _show_about(self, leaf: Leaf, problem: str = "") -> None:
        about = self.query_one("#about", Static)
        if problem:
            about.update(Content.styled(printable(f"✗ {problem}"), "$text-error"))
        else:
            about.update(Content(printable(f"{leaf.path}  {leaf.kind}  {leaf.meaning}")))

    @on(RowTable.RowEntered)
    def _field_entered(self, event: RowTable.RowEntered) -> None:
        event.stop()
        self._show_field()
        leaf = self._leaf
        if leaf is not None and not leaf.fixed:
            self.query_one("#field-value", Input).focus()

    @on(Input.Changed, "#field-value")
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        leaf = self._leaf
        if leaf is not None:
            self._show_about(leaf, _problem(leaf, event.value))

    @on(Input.Submitted, "#field-value")
    async def _entered(self, event: Input.Submitted) -> None:
        event.stop()
        leaf = self._leaf
        if leaf is None:
            return
        if event.value != leaf.text:
            problem = _problem(leaf, event.value)
            if problem:
                self._show_about(leaf, problem)
                return
            self._draft.put(leaf, leaf.parse(event.value))
            self._stale.add(JSON)
            await self._check()
        self.query_one(RowTable).focus()

    # ------------------------------------------------------------ JSON
    @on(Tabs.TabActivated)
    async def _tab_activated(self, event: Tabs.TabActivated) -> None:
        event.stop()
        which = (event.tab.id or "").removeprefix("tab-")
        self.query_one(ContentSwitcher).current = which
        if which == JSON:
            self._show_json()
            return
        self.query_one(RowTable).focus()
        if FIELDS in self._stale:
            self._stale.discard(FIELDS)
            await self._show_fields()

    def _show_json(self) -> None:
        area = self.query_one(TextArea)
        if JSON in self._stale:
            self._stale.discard(JSON)
            text = self._draft.json
            area.read_only = self._draft.masked or len(text) > MOST_TEXT
            if self._draft.masked:
                text = _NOT_SHOWN
            elif area.read_only:
                text = f"This message is too long to be edited as JSON: {len(text):,} characters.\nEdit its fields."
            with self.prevent(TextArea.Changed):
                area.load_text(text)
        area.focus()

    @on(TextArea.Changed)
    def _json_typed(self, event: TextArea.Changed) -> None:
        event.stop()
        self.run_worker(self._take_json(event.text_area.text), group="json", exclusive=True)

    async def _take_json(self, text: str) -> None:
        await asyncio.sleep(_PAUSE)
        await self._settle_json(text)

    async def _settle_json(self, text: str) -> None:
        try:
            self._draft.put_json(text)
        except InvalidError as error:
            self._show_outcome(None, str(error))
            return
        self._stale.add(FIELDS)
        await self._check()

    # ------------------------------------------------------------ result
    async def _check(self) -> None:
        """Build the frame in a thread, and show the changes or the problem."""
        try:
            edited = await asyncio.to_thread(self._draft.check)
        except EditError as error:
            self._show_outcome(None, str(error))
        else:
            self._show_outcome(edited, "")
        if FIELDS not in self._stale:
            await self._show_fields()

    def _show_outcome(self, edited: EditResult | None, problem: str) -> None:
        self._edited = edited
        outcome = self.query_one("#outcome", Static)
        if edited is None:
            outcome.update(Content.assemble(("✗ cannot be sent: ", "$text-error"), lines(problem)))
        elif not edited.changes:
            outcome.update(Content.styled("= nothing changed; ctrl+s sends it as it is", "$text-muted"))
        else:
            shown = [_difference(*differences_text(change)) for change in edited.changes[:_MOST_SHOWN]]
            more = len(edited.changes) - len(shown)
            if more:
                shown.append(Content(f"and {more:,} more"))
            outcome.update(Content("\n").join(shown))

    async def action_send(self) -> None:
        """Close with the frame, if it is exactly the one whose changes were shown."""
        shown = self._edited
        if self.query_one(ContentSwitcher).current == JSON and not self.query_one(TextArea).read_only:
            self.workers.cancel_group(self, "json")
            await self._settle_json(self.query_one(TextArea).text)
        else:
            await self._check()
        self._tick()
        if self._over or self._edited is None or shown is None or shown.data != self._edited.data:
            self.app.bell()
        else:
            self.dismiss(self._edited.data)

    def action_other_tab(self) -> None:
        tabs = self.query_one(Tabs)
        tabs.active = f"tab-{FIELDS if tabs.active == f'tab-{JSON}' else JSON}"

    def action_back(self) -> None:
        """Return from a field to the list of fields, or close."""
        field = self.query_one("#field-value", Input)
        if field.has_focus:
            self._show_field()
            self.query_one(RowTable).focus()
        else:
            self.dismiss(None)


def _problem(leaf: Leaf, text: str) -> str:
    try:
        leaf.parse(text)
    except InvalidError as error:
        return str(error)
    return ""


def _row(leaf: Leaf, changed: bool) -> Row:
    role = Role.WARNING if changed else Role.MUTED if leaf.fixed else Role.PLAIN
    text = f"* {leaf.text}" if changed else leaf.text
    return Row(
        leaf.path, (leaf.path, Cell(leaf.kind, Role.MUTED), Cell(text, role), Cell(leaf.name, Role.MUTED))
    )


def _difference(path: str, before: str, after: str) -> Content:
    return Content.assemble(
        ("~ ", "$text-warning"),
        (printable(path), "bold"),
        f"  {printable(before)} → ",
        (printable(after), "$text-warning"),
    )
