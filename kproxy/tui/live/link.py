"""The link to a running proxy: it tracks the proxy's state, and sends commands.

It has two connections to the control socket. One belongs to a thread that receives events and polls; because it is a
lasting controller, messages stay held while it is open, and are released when it ends, with the UI or otherwise. The
other carries commands, each from its own thread, one at a time. Nothing here blocks the event loop.

When the proxy is gone the link says so in its state, and refuses commands.
"""

from __future__ import annotations

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import count
from threading import Event, Lock, Thread
from time import monotonic, time_ns
from typing import Any, TypeVar

from kproxy.proxy.control import ClosedError, CommandError, ControlClient
from kproxy.tui.live.state import Connection, LiveState, connections_of, of_holds, of_rules, of_status

_STATUS_SECONDS = 1.0
_SECONDS = {"holds": 0.25, "rules": 0.5}
"""Seconds between two queries while a view shows the state."""
_IDLE_SECONDS = 2.0
"""Seconds between two queries otherwise: other controllers may change the state."""
_LISTEN_SECONDS = 0.25
_GATHER_SECONDS = 0.05
"""Messages held or released within this time are queried together."""
_MANY = 100
_GATHER_MANY_SECONDS = 1.0
"""That time while more messages than `_MANY` are held, to spare the proxy the work of listing them."""
_JOIN_SECONDS = 5.0

_EFFECTS = {
    "set_hold": "holds",
    "release": "holds",
    "kill": "holds",
    "edit": "holds",
    "add_rule": "rules",
    "remove_rule": "rules",
    "forwarding": "status",
}
"""The query that shows the effect of each command."""


T = TypeVar("T")


class LinkError(Exception):
    """The proxy did not execute a command; the text is for the user."""


class Link:
    """The link to one proxy.

    :param path: of the control socket
    :param control: whether commands may change the proxy, and messages stay held while the link is open
    :param changed: called with each new state, in order, from any thread; must not block
    :param on_event: called with each event of the proxy, from a thread
    :ivar state: the latest state; replaced as a whole
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        control: bool = True,
        changed: Callable[[LiveState], None] = lambda _: None,
        on_event: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._changed = changed
        self._on_event = on_event
        self.state = LiveState(controls=control)
        self._publishing = Lock()
        self._questions = count()
        self._answered: dict[str, int] = {}
        """The latest question about each thing whose answer was published."""
        self._calling = Lock()
        self._caller: ControlClient | None = None
        self._listener: ControlClient | None = None
        self._closed = Event()
        self._watched = False
        self._due = dict.fromkeys(("status", *_SECONDS), 0.0)
        self._thread = Thread(target=self._listen, name="live link", daemon=True)

    # ------------------------------------------------------------ lifetime
    def listen(
        self, changed: Callable[[LiveState], None], on_event: Callable[[dict[str, Any]], None]
    ) -> None:
        """Set the callbacks, before :meth:`start`; parameters as for the constructor."""
        self._changed, self._on_event = changed, on_event

    def start(self) -> None:
        """Start listening; the state shows whether there is a proxy."""
        self._thread.start()

    def close(self) -> None:
        """Close the link: held messages are released unless another controller is connected."""
        self._closed.set()
        if self._listener is not None:
            self._listener.close()
        caller = self._caller
        if caller is not None:
            caller.close()  # wakes a thread that waits for an answer
        if self._thread.is_alive():
            self._thread.join(_JOIN_SECONDS)

    def watch(self, on: bool) -> None:
        """Poll more often while a view shows the state."""
        self._watched = on
        if on:
            self._due = dict.fromkeys(self._due, 0.0)

    # ------------------------------------------------------------ the thread
    def _listen(self) -> None:
        try:
            with ControlClient(self._path, self.state.controls) as client:
                self._listener = client
                self._hear_all(client)
        except (CommandError, OSError) as error:
            if not self._closed.is_set():
                self._gone(error)

    def _hear_all(self, client: ControlClient) -> None:
        """Poll and listen until the link is closed; raise when the proxy is gone."""
        client.call("subscribe")
        while not self._closed.is_set():
            with suppress(TimeoutError):  # a late answer is ignored
                self._look(client)
            for event in client.events(self._patience()):
                self._hear(event)
                break  # a query may be due

    def _patience(self) -> float:
        return min(max(min(self._due.values()) - monotonic(), 0.001), _LISTEN_SECONDS)

    def _look(self, client: ControlClient) -> None:
        for what, due in list(self._due.items()):
            now = monotonic()
            if due <= now:
                self._due[what] = now + self._period(what)
                self._find_out(client, what)

    def _find_out(self, client: ControlClient, what: str) -> None:
        """Query `what`, and publish the answer unless that of a later query was published before."""
        question = next(self._questions)
        answers = _asked(client, what)
        with self._publishing:
            if question > self._answered.get(what, -1):
                self._answered[what] = question
                self._publish(answers)

    def _period(self, what: str) -> float:
        if what == "status":
            return _STATUS_SECONDS
        wanted = self._watched or (what == "holds" and self.state.held)
        return max(_SECONDS[what], self._gathering(what)) if wanted else _IDLE_SECONDS

    def _gathering(self, what: str = "holds") -> float:
        """Return the minimum seconds between two queries: more if much is held, which makes answers expensive."""
        many = what == "holds" and len(self.state.held) > _MANY
        return _GATHER_MANY_SECONDS if many else _GATHER_SECONDS

    def _hear(self, event: dict[str, Any]) -> None:
        if event["event"] == "held":
            self._due["holds"] = min(self._due["holds"], monotonic() + self._gathering())
        elif event["event"] == "forwarding":
            self._due["status"] = 0.0
        self._on_event(event)

    def _publish(self, changes: dict[str, Any]) -> None:
        """Publish changes of the state; the caller holds the lock."""
        if all(getattr(self.state, name) == value for name, value in changes.items()):
            return
        self.state = replace(self.state, version=self.state.version + 1, **changes)
        self._changed(self.state)

    def _gone(self, error: Exception) -> None:
        why = "it has ended" if isinstance(error, ClosedError) else str(error) or type(error).__name__
        gone = f"the proxy cannot be reached any more: {why}"
        with self._publishing:
            self._publish({"gone": gone, "held": (), "connections": 0, "in_flight": 0})

    # ------------------------------------------------------------ commands
    async def call(self, do: str, **parameters: Any) -> Any:
        """Send a command; return its answer. The state includes its effects by then.

        :raises LinkError: if the proxy refuses or cannot be reached
        """
        return await asyncio.to_thread(self._call, do, parameters)

    def _call(self, do: str, parameters: dict[str, Any]) -> Any:
        return self._ask(lambda caller: caller.call(do, **parameters), _EFFECTS.get(do))

    def _ask(self, ask: Callable[[ControlClient], T], query: str | None) -> T:
        """Run `ask` with the command connection, then query the state that it may have changed."""
        with self._calling:
            if self.state.gone or self._closed.is_set():
                raise LinkError(self.state.gone or "the link to the proxy is closed")
            try:
                if self._caller is None:
                    self._caller = ControlClient(self._path, self.state.controls, lasting=False)
                answer = ask(self._caller)
                if query is not None:
                    self._find_out(self._caller, query)
            except CommandError as error:
                raise LinkError(str(error)) from None
            except TimeoutError:
                self._drop_caller()
                raise LinkError("the proxy does not answer; try again, or look at what it prints") from None
            except OSError as error:
                self._drop_caller()
                raise LinkError(f"the proxy cannot be reached: {error}") from None
            return answer

    def _drop_caller(self) -> None:
        if self._caller is not None:
            self._caller.close()
            self._caller = None

    async def set_hold(self, condition: str | None, side: str | None = None) -> str | None:
        """Set the hold filter; None holds no further messages. Return its side, None for both.

        :param condition: starts with ``request:`` or ``response:`` if the filter does not imply the side
        :param side: ``request`` or ``response``, if not in the filter
        """
        answer = await self.call("set_hold", filter=condition, side=side)
        found: str | None = answer["side"]
        return found

    async def release(self, *numbers: int) -> int:
        """Release held messages unchanged; return how many of them were still held."""

        def ask(caller: ControlClient) -> int:
            return sum(_released(caller, number) for number in numbers)

        return await asyncio.to_thread(self._ask, ask, "holds")

    async def release_all(self) -> int:
        """Release all held messages; return how many there were."""
        return int((await self.call("release", number="all"))["released"])

    async def edit(self, number: int, frame: bytes) -> int:
        """Release another frame instead of a held message; return the number of changed values.

        :param frame: with its size field
        """
        answer = await self.call("edit", number=number, frame=b64encode(frame).decode())
        return len(answer["changed"])

    async def add_rule(self, text: str, *, force: bool = False) -> int:
        """Add a fault rule; return its number.

        :param force: accept a rule that matches everything
        """
        return int((await self.call("add_rule", rule=text, force=force))["number"])

    async def connections(self) -> tuple[Connection, ...]:
        """Return the open connections, the oldest first."""
        return connections_of(await self.call("connections"))


def _released(client: ControlClient, number: int) -> bool:
    try:
        client.call("release", number=number)
    except CommandError:  # it was released meanwhile
        return False
    return True


def _asked(client: ControlClient, what: str) -> dict[str, Any]:
    answer = client.call(what)
    if what == "status":
        return of_status(answer)
    return of_holds(answer) if what == "holds" else of_rules(answer, time_ns())
