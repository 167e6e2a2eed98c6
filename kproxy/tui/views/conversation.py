"""Conversation: a sequence diagram of the shown exchanges."""

from __future__ import annotations

from asyncio import Lock
from collections.abc import Callable
from functools import partialmethod
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from captures.analysis.conversation import Participant
from captures.filters.regex import TextRegex
from kproxy.session.engine import Priority
from kproxy.tui.commands import Scope, bindings
from kproxy.tui.dialogs.participants import ParticipantsDialog
from kproxy.tui.views.base import View
from kproxy.tui.views.conversation_window import MOST, Anchor, Choice, Window, WindowReader
from kproxy.tui.widgets.sequence import SequenceDiagram
from kproxy.tui.widgets.sequence_lines import FoldKey, Line, LineKind, key_of, lines_of

if TYPE_CHECKING:
    from kproxy.session import Access, Session, Steps


_FIRST = 300
"""Exchanges shown first, before the rest of the window is read."""


class ConversationView(View):
    """The messages between clients and brokers, in order of time.

    At most :data:`~kproxy.tui.views.conversation_window.MOST` exchanges are drawn at a time; the first and the last
    line state how many come before and after, and Enter on them moves the window there.
    """

    view_name = "conversation"

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CONVERSATION)]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._reader = WindowReader()
        self._anchor = Anchor(last=session.live)
        self._choice = Choice()
        self._window: Window | None = None
        self._unfolded: set[FoldKey] = set()
        self._drawn: frozenset[FoldKey] = frozenset()
        """What was unfolded when the lines were made."""
        self._to_end: Anchor | None = None
        """To whose end the cursor is to go, once that has been read."""
        self._toggled: FoldKey | None = None
        """What was unfolded or folded last, where the cursor is to go."""
        self._reading = Lock()
        self._met: dict[Participant, None] = {}
        self._finished = False
        self._wanted = 0
        """Number of the exchange that the cursor is to go to when it has been read."""

    def compose(self) -> ComposeResult:
        diagram = SequenceDiagram(self.session.zone, empty="No exchanges to show.")
        diagram.following = self.session.live
        yield diagram

    @property
    def _diagram(self) -> SequenceDiagram:
        return self.query_one(SequenceDiagram)

    # ------------------------------------------------------------ content
    def look_at(self, number: int) -> None:
        """Move the cursor to an exchange when the view is next refreshed."""
        self._wanted = number

    async def refresh_data(self) -> None:
        async with self._reading:
            if self.session.status.finished and not self._finished:
                self._finished = True
                # numbers are final only now
                await self.session.run(lambda _: self._reader.forget(), Priority.LOOK)
            if self._wanted and not self._has(self._wanted):
                self._anchor = Anchor(self._wanted)
                self._diagram.following = False
            if self._window is None:
                await self._read(_FIRST)
            await self._read(MOST)
            if self._wanted:
                self._diagram.go_to(self._wanted)
                self._wanted = 0
            if self._to_end is not None:
                self._move_to_end(self._to_end)
                self._to_end = None
            if self._toggled is not None:
                self._diagram.go_to_fold(self._toggled)
                self._toggled = None

    def _has(self, number: int) -> bool:
        window = self._window
        return window is not None and window.first <= number <= window.last

    async def _read(self, most: int) -> None:
        anchor, choice, unfolded = self._anchor, self._choice, frozenset(self._unfolded)

        def read(access: Access) -> Steps[tuple[Window, list[Line]] | None]:
            window = yield from self._reader.read(access, anchor, choice, most)
            if window == self._window and unfolded == self._drawn:
                return None
            yield
            return window, lines_of(window.folds, unfolded, before=window.before, after=window.after)

        found = await self.session.run(read, Priority.LOOK)
        if found is None:
            return
        window, lines = found
        self._window, self._drawn = window, unfolded
        self._met |= dict.fromkeys(window.participants)
        self._diagram.show(self._title(window), window.participants, lines)

    def _title(self, window: Window) -> str:
        total = window.before + window.count + window.after
        parts = [
            f"{window.count:,} exchanges"
            if window.count == total
            else f"{window.count:,} of {total:,} exchanges"
        ]
        if window.count:
            parts.append(f"#{window.first:,} to #{window.last:,}")
        if self._choice.connection is not None:
            parts.append(f"only connection {self._choice.connection} (s: all)")
        elif self._choice.participants is not None:
            parts.append(f"{len(self._choice.participants)} of {len(self._met)} clients and brokers (p)")
        return "  ·  ".join(parts)

    def _renew(self) -> None:
        self.run_worker(self.renew(), group="conversation", exclusive=True)

    def search(self, pattern: TextRegex, *, forward: bool) -> bool:
        return self._diagram.search(pattern, forward=forward)

    # ------------------------------------------------------------ lines
    @on(SequenceDiagram.Entered)
    def _enter(self, event: SequenceDiagram.Entered) -> None:
        line = event.line
        if line.kind is LineKind.EARLIER and self._window is not None:
            self._go(self._window.earlier)
            self._wanted = self._window.first
        elif line.kind is LineKind.LATER and self._window is not None:
            self._go(self._window.later)
            self._wanted = self._window.last
        elif line.single and line.step is not None:
            self.post_message(self.GoTo(line.step.number))
        else:
            self._toggle(line)

    def _go(self, anchor: Anchor, *, follow: bool = False) -> None:
        self._anchor = anchor
        self._diagram.following = follow
        self._diagram.refresh()
        self._renew()

    def _toggle(self, line: Line | None) -> None:
        if line is not None and line.fold is not None:
            self._unfolded ^= {line.fold}
            self._toggled = line.fold
            self._renew()

    # ------------------------------------------------------------ keys
    def _on_diagram(self, do: Callable[..., None], *steps: int) -> None:
        do(self._diagram, *steps)

    action_move = partialmethod(_on_diagram, SequenceDiagram.action_move)
    action_move_page = partialmethod(_on_diagram, SequenceDiagram.action_move_page)
    action_scroll_sideways = partialmethod(_on_diagram, SequenceDiagram.scroll_sideways)
    action_conversation_enter = partialmethod(_on_diagram, SequenceDiagram.enter)

    def action_move_to_first(self) -> None:
        """Scroll to the start."""
        self._go_to_end(Anchor())

    def action_move_to_last(self) -> None:
        """Scroll to the end, and follow new exchanges."""
        self._go_to_end(Anchor(last=True), follow=not self.session.status.finished)

    def _move_to_end(self, anchor: Anchor) -> None:
        if anchor.last:
            self._diagram.action_move_to_last()
        else:
            self._diagram.action_move_to_first()

    def _go_to_end(self, anchor: Anchor, *, follow: bool = False) -> None:
        self._move_to_end(anchor)
        self._to_end = anchor
        self._go(anchor, follow=follow)

    def action_conversation_unfold(self) -> None:
        """Unfold or fold the repeats of the line."""
        self._toggle(self._diagram.current)

    def action_conversation_unfold_all(self) -> None:
        """Unfold everything; if anything is unfolded, fold everything."""
        if self._unfolded:
            self._unfolded = set()
        elif self._window is not None:
            self._unfolded = {key_of(fold) for fold in self._window.folds if fold.turns > 1}
        self._renew()

    def action_conversation_connection(self) -> None:
        """Show only the connection of the line, or everything again."""
        line = self._diagram.current
        if self._choice:
            self._choose(Choice())
        elif line is not None and line.step is not None:
            self._choose(Choice(connection=line.step.connection))

    def action_conversation_participants(self) -> None:
        """Open the dialog of participants."""
        participants = tuple(sorted(self._met, key=lambda each: not each.is_client))
        ticked = self._choice.participants

        def choose(chosen: frozenset[Participant] | None) -> None:
            if chosen is not None:
                self._choose(Choice() if len(chosen) == len(participants) else Choice(chosen))

        self.app.push_screen(
            ParticipantsDialog(participants, frozenset(participants) if ticked is None else ticked), choose
        )

    def _choose(self, choice: Choice) -> None:
        """Show other participants; the cursor stays on its exchange if that is still shown."""
        line = self._diagram.current
        if line is not None and line.step is not None and not self._diagram.following:
            self._wanted = line.step.number
        self._choice = choice
        self._window = None
        self._renew()

    def action_conversation_follow(self) -> None:
        """Start or stop following the newest exchange."""
        if self._diagram.following:
            self._diagram.following = False
            self._diagram.refresh()
        else:
            self._go_to_end(Anchor(last=True), follow=True)
