"""Commands for a running proxy."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, Concatenate, ParamSpec

from textual.notifications import SeverityLevel
from textual.worker import Worker

from captures.meaning import words
from kproxy.text.control import sentence_of
from kproxy.tui.live.actions import LiveActions
from kproxy.tui.live.state import LiveState
from kproxy.tui.main.part import Part, work
from kproxy.tui.views.faults import Faults

_P = ParamSpec("_P")


def _carried_out(
    command: Callable[Concatenate[LiveActions, _P], Coroutine[Any, Any, None]],
    *,
    asks: bool = False,
    confirms: bool = False,
) -> Callable[Concatenate[LiveCommands, _P], Worker[None]]:
    """Return the action that runs a method of `LiveActions`, see :func:`work`."""

    @work("live", asks=asks, confirms=confirms)
    @wraps(command)
    async def carry_out(self: LiveCommands, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        await command(self._live, *args, **kwargs)

    return carry_out


class LiveCommands(Part):
    """The main screen's commands that need a proxy."""

    _live: LiveActions
    _brokers = ""
    """The brokers of the latest replay."""

    def listen(self) -> None:
        """Start listening to the proxy."""
        link = self.kproxy.link
        self._live = LiveActions(
            self.app,
            link,
            self._report,
            self._selected_held,
            show_secrets=self.session.show_secrets,
            filters=lambda: self.kproxy.settings.filters,
        )
        if link is not None:
            link.listen(changed=self._changed, on_event=self._on_event)
            link.start()

    def _changed(self, state: LiveState) -> None:
        """Show held messages; may be called from any thread."""
        self.session.held = state.held

    def _on_event(self, event: dict[str, object]) -> None:
        """Report an event of the proxy; may be called from any thread."""
        sentence = sentence_of(event)
        if sentence is not None:
            self.kproxy.notice(sentence)

    def _report(self, text: str, severity: SeverityLevel) -> None:
        if severity == "information":
            self.report(text)
            self.kproxy.note(text)
        else:
            self.kproxy.report(text, severity=severity)

    def _selected_held(self) -> int | None:
        view = self.screen.view
        if isinstance(view, Faults):
            return view.held_number
        held = self.exchanges.list.held
        return None if held is None else held.number

    def add_states(self, states: list[str], loud: list[str]) -> None:
        """Add the unusual states of the proxy."""
        link = self.kproxy.link
        if link is None:
            return
        state = link.state
        if state.gone:
            loud.append("the proxy has ended")
            return
        if not state.forwarding:
            loud.append("forwarding is off")
        if state.held:
            loud.append(f"{len(state.held):,} held")
        states.extend(f"hold {side}s: {wanted}" for side, wanted in state.hold_filters.items())
        if state.rules:
            states.append(words.counted(len(state.rules), "rule"))
        if state.unrecorded:
            loud.append(state.unrecorded)
        if state.dropped:
            loud.append(f"{state.dropped:,} bytes not recorded")

    # ------------------------------------------------------------ holding
    action_hold_filter = _carried_out(LiveActions.hold_filter, asks=True)
    action_hold_toggle = _carried_out(LiveActions.hold_toggle, confirms=True)
    action_hold_release = _carried_out(LiveActions.release)
    action_hold_release_all = _carried_out(LiveActions.release_all, confirms=True)
    action_hold_kill = _carried_out(LiveActions.kill)
    action_hold_edit = _carried_out(LiveActions.edit, asks=True)
    action_forward_pause = _carried_out(LiveActions.pause, confirms=True)
    action_forward_toggle = _carried_out(LiveActions.forward_toggle, confirms=True)
    action_proxy_brokers = _carried_out(LiveActions.show_brokers, asks=True)
    action_rule_add = _carried_out(LiveActions.rule_add, asks=True)
    remove_rule = _carried_out(LiveActions.rule_remove, confirms=True)

    # ------------------------------------------------------------ forwarding, rules, recorder
    @work("live")
    async def action_recorder_keep(self) -> None:
        """Make the flight recorder keep this moment."""
        if self.kproxy.recorder is not None:
            self.kproxy.recorder()
            self.report("the flight recorder keeps what surrounds this moment")
        else:
            await self._live.keep()

    # ------------------------------------------------------------ replay
    def action_replay_start(self, brokers: str = "") -> None:
        """Replay the marked exchanges, or the one under the cursor."""
        number = self.number
        numbers = self.session.marked or ([] if number is None else [number])
        if not numbers:
            self.report("no exchange to send again")
            return
        from kproxy.tui.dialogs.replay import ReplayDialog

        self.screen.app.push_screen(
            ReplayDialog(self.session, numbers, brokers or self._brokers), self._keep_brokers
        )

    def _keep_brokers(self, brokers: str | None) -> None:
        self._brokers = brokers or self._brokers

    # ------------------------------------------------------------ leaving
    @work("live", exclusive=True, confirms=True)
    async def action_app_quit(self) -> None:
        """Ask whether the proxy ends or continues, and quit."""
        app = self.kproxy
        leaving = await self._live.leave(ends=app.ends_proxy, run=app.run_name)
        if leaving is not None:
            app.exit(leaving)
