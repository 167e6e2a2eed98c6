"""Keys and pasted text in the order in which they were typed: each goes to what the one before has left focused.

Textual sends a key to the queue of the widget that has the focus when the key arrives. What is typed before that widget
has handled an earlier key, such as one that opens a line, would run as commands of the old widget. So keys wait here
until the one before has been handled: by the focused widget, by all around it, and by the dialog that it opens.
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

from kproxy.tui.commands import BY_NAME, Command

_STEPS = frozenset(("up", "down", "left", "right", "page_up", "page_down", "top", "bottom"))
_LOOK = 0.05
_POLL = 0.005
_PATIENCE = 60.0
"""Seconds that keys wait for a dialog to open; each is asked for by something that ends much sooner."""
_OPENING = 0.3
"""Seconds after a line or a dialog opened in which a single key does nothing to live traffic."""


class TypedKeys:
    """Hands keys and pasted text on, one at a time.

    :param app: whose they are
    :param dispatch: sends one to the widget that has the focus
    :param refuse: says that the key of a command was not heeded
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
        """Hand on a key or pasted text when those before are handled."""
        self._waiting.append(event)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._hand_on(), name="typed keys")

    def wait_for_dialog(self, worker: Worker[Any], *, surely: bool) -> None:
        """Let keys wait until a worker has opened its dialog, or has ended.

        :param surely: keys are dropped if it ends without a dialog, because they were for it
        """
        self._asking[worker] = surely

    def dialog_opened(self) -> None:
        """Take note that a dialog was opened."""
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
        """Return the command of a key that is not heeded, because it may be text that missed its line."""
        if event.time - self._opened >= _OPENING or self._types_text(self._app.focused):
            return None
        bound = self._app.screen.active_bindings.get(event.key)
        command = None if bound is None else BY_NAME.get(bound.binding.id or "")
        return command if command is not None and command.touches_traffic else None

    def _stays(self, event: events.Event) -> bool:
        """Tell whether the focus surely stays where it is: a character in a line, a step in a list.

        What is typed on need not wait then, and many of these are drawn at once.
        """
        focused = self._app.focused
        if focused is None or not isinstance(event, events.Key):
            return False
        if self._types_text(focused):
            return event.is_printable
        bound = focused._bindings.key_to_bindings.get(event.key, ())
        return any((each.id or "").rpartition(".")[2] in _STEPS for each in bound)

    def _around(self) -> list[MessagePump]:
        """Return what a key passes through: the focused widget, all that it is in, and the application."""
        focused = self._app.focused or self._app.screen
        return [*(each for each in focused.ancestors_with_self if each is not self._app), self._app]

    async def _handled(self, around: list[MessagePump]) -> None:
        """Wait until a key is handled, and what it opened has the focus."""
        typed_text = self._types_text(self._app.focused)
        # what handles a key may send a message to itself, which the second round is behind
        for node in (*around, *around):
            await self._reached(node)
        deadline = monotonic() + _PATIENCE
        while any(not worker.is_finished for worker in self._asking) and monotonic() < deadline:
            await asyncio.sleep(_POLL)
        if any(self._asking.values()):  # what was typed meanwhile was for a dialog that has not come
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
        """Wait until a widget has handled the messages that it has now, or is gone."""
        reached = asyncio.get_running_loop().create_future()

        def tell() -> None:
            if not reached.done():
                reached.set_result(None)

        if not node.call_later(tell):
            return
        while not reached.done() and node.is_running:
            await asyncio.wait({reached}, timeout=_LOOK)

    @staticmethod
    def _types_text(widget: Widget | None) -> bool:
        return isinstance(widget, Input | TextArea)
