"""Keys and pasted text in typing order: each goes to the widget that the one before has left focused.

Textual sends a key to the queue of the widget that has the focus when the key arrives. Text typed before that widget
has handled an earlier key, such as one that opens a line, would run as commands of the old widget. So keys wait here
until the one before has been handled: by the focused widget, by its ancestors, and by the dialog that it opens.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.worker import Worker

from kproxy.tui.commands import BY_NAME, Command, Effect

_STEPS = frozenset(("up", "down", "left", "right", "page_up", "page_down", "top", "bottom"))
_LOOK = 0.05
_POLL = 0.005
_PATIENCE = 60.0
"""Seconds that keys wait for a dialog to open; the workers that open dialogs end much sooner."""
_OPENING = 0.3
"""Seconds after a line or a dialog opened in which single keys must not affect live traffic."""


class TypedKeys:
    """A queue that dispatches keys and pasted text one at a time.

    :param app: the application they were typed in
    :param dispatch: sends an event to the focused widget
    :param refuse: reports that the key of a command was ignored
    """

    def __init__(
        self,
        app: App[Any],
        dispatch: Callable[[events.Event], Awaitable[None]],
        refuse: Callable[[Command], None],
    ) -> None:
        self._app = app
        self._dispatch = dispatch
        self._refuse = refuse
        self._waiting: deque[events.Event] = deque()
        self._asking: dict[Worker[Any], bool] = {}
        self._opened = float("-inf")
        self._task: asyncio.Task[None] | None = None

    def put(self, event: events.Event) -> None:
        """Queue a key or pasted text."""
        self._waiting.append(event)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._hand_on(), name="typed keys")

    def wait_for_dialog(self, worker: Worker[Any], *, surely: bool) -> None:
        """Delay keys until a worker has opened its dialog, or has ended.

        :param surely: drop the keys if it ends without a dialog, because they were meant for it
        """
        self._asking[worker] = surely

    def dialog_opened(self) -> None:
        """Record that a dialog was opened."""
        self._asking.clear()
        self._opened = monotonic()

    async def _hand_on(self) -> None:
        try:
            while self._waiting:
                event = self._waiting.popleft()
                if isinstance(event, events.Key) and (refused := self._refused(event)) is not None:
                    self._refuse(refused)
                    continue
                around, stays = self._around(), self._stays(event)
                await self._dispatch(event)
                if not stays:
                    await self._handled(around)
        except Exception as error:
            self._app._handle_exception(error)

    def _refused(self, event: events.Key) -> Command | None:
        """Return the command of a key to ignore, because it may be text that missed its line; None otherwise."""
        if event.time - self._opened >= _OPENING or self._types_text(self._app.focused):
            return None
        bound = self._app.screen.active_bindings.get(event.key)
        command = None if bound is None else BY_NAME.get(bound.binding.id or "")
        return command if command is not None and command.effect is Effect.TRAFFIC else None

    def _stays(self, event: events.Event) -> bool:
        """Return whether the key cannot move the focus, such as a character typed into a line or a step in a list.

        The next keys need not wait then, so many are drawn at once.
        """
        focused = self._app.focused
        if focused is None or not isinstance(event, events.Key):
            return False
        if self._types_text(focused):
            return event.is_printable
        bound = focused._bindings.key_to_bindings.get(event.key, ())
        return any((each.id or "").rpartition(".")[2] in _STEPS for each in bound)

    def _around(self) -> list[MessagePump]:
        """Return what a key bubbles through: the focused widget, its ancestors, and the application."""
        focused = self._app.focused or self._app.screen
        return [*(each for each in focused.ancestors_with_self if each is not self._app), self._app]

    async def _handled(self, around: list[MessagePump]) -> None:
        """Wait until a key is handled, and what it opened has the focus."""
        typed_text = self._types_text(self._app.focused)
        # the handler of a key may post a message to itself; the second round waits for that
        for node in (*around, *around):
            await self._reached(node)
        deadline = monotonic() + _PATIENCE
        while any(not worker.is_finished for worker in self._asking) and monotonic() < deadline:
            await asyncio.sleep(_POLL)
        if any(self._asking.values()):  # typed for a dialog that did not open
            self._waiting.clear()
        self._asking.clear()
        before = None
        while before != (now := (self._app.screen, self._app.focused)):
            before = now
            for node in self._around():
                await self._reached(node)
        if self._types_text(self._app.focused) and not typed_text:
            self._opened = monotonic()

    @staticmethod
    async def _reached(node: MessagePump) -> None:
        """Wait until a widget has handled the messages now in its queue, or is gone."""
        reached = asyncio.get_running_loop().create_future()

        def reach() -> None:
            if not reached.done():
                reached.set_result(None)

        if not node.call_later(reach):
            return
        while not reached.done() and node.is_running:
            await asyncio.wait({reached}, timeout=_LOOK)

    @staticmethod
    def _types_text(widget: Widget | None) -> bool:
        return isinstance(widget, Input | TextArea)
