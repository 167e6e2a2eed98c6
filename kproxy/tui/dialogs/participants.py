"""The dialog for the participants shown in a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets.selection_list import Selection

from captures.analysis.conversation import Participant
from kproxy.tui.dialogs.base import Box, Dialog
from kproxy.tui.safe import plain
from kproxy.tui.widgets.toggles import Ticks


class ParticipantsDialog(Dialog[frozenset[Participant]]):
    """A list of clients and brokers. Returns the ticked ones, None if it is closed.

    :param participants: all participants
    :param chosen: participants ticked at first
    """

    DEFAULT_CSS = """
    ParticipantsDialog Ticks { width: 60; max-width: 100%; height: auto; max-height: 20; border: none; }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "apply", "show these", priority=True),
        Binding("a", "all", "all or none"),
    ]

    def __init__(self, participants: Sequence[Participant], chosen: AbstractSet[Participant]) -> None:
        super().__init__()
        self._participants = participants
        self._chosen = chosen

    def compose(self) -> ComposeResult:
        with Box("participants", "space: select   a: all   enter: show"):
            yield Ticks[Participant](
                *(Selection(plain(_label(each)), each, each in self._chosen) for each in self._participants)
            )

    def action_apply(self) -> None:
        self.dismiss(frozenset(self._list.selected))

    def action_all(self) -> None:
        """Tick all, or none if all are ticked."""
        if len(self._list.selected) == len(self._participants):
            self._list.deselect_all()
        else:
            self._list.select_all()

    @property
    def _list(self) -> Ticks[Participant]:
        return self.query_one(Ticks)


def _label(participant: Participant) -> str:
    kind = "client" if participant.is_client else "broker"
    if participant.name == participant.address:
        return f"{kind}  {participant.name}"
    return f"{kind}  {participant.name}  {participant.address}"
