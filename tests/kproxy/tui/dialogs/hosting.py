"""An application that only shows dialogs of a session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.app import App

from kproxy.session import Session
from kproxy.tui.dialogs.base import Dialog


class DialogApp(App[None]):
    """Shows one dialog and stores its result.

    :ivar copied: text sent to the clipboard of the terminal
    """

    ENABLE_COMMAND_PALETTE = False

    def __init__(self, session: Session, make: Callable[[], Dialog[Any]]) -> None:
        super().__init__()
        self.session = session
        self.copied: list[str] = []
        self.answers: list[Any] = []
        self._make = make

    def on_mount(self) -> None:
        self.push_screen(self._make(), self.answers.append)

    def copy_to_clipboard(self, text: str) -> None:
        self.copied.append(text)
