"""What is done to a running proxy."""

from __future__ import annotations

from captures.meaning import words
from kproxy.text.events import sentence_of
from kproxy.tui.dialogs.replay import ReplayDialog
from kproxy.tui.live.actions import LiveActions
from kproxy.tui.live.state import LiveState
from kproxy.tui.main.part import Part, work
from kproxy.tui.views.faults import Faults


class LiveCommands(Part):
    """The commands of the main screen that need a proxy."""

    _live: LiveActions
    _brokers = ""
    """To which something was sent again last."""

    def listen(self) -> None:
        """Take note of what the proxy tells."""
        link = self.kproxy.link
        self._live = LiveActions(
            self.app,
            link,
            self._told,
            self._selected_held,
            show_secrets=self.session.show_secrets,
            filters=lambda: self.kproxy.settings.filters,
        )
        if link is not None:
            link.listen(changed=self._changed, told=self._heard)
            link.start()

    def _changed(self, state: LiveState) -> None:
        """Show what is held; from any thread."""
        self.session.held = state.held

    def _heard(self, event: dict[str, object]) -> None:
        """Tell what the proxy says about itself; from any thread."""
        sentence = sentence_of(event)
        if sentence is not None:
            self.kproxy.notice(sentence)

    def _told(self, text: str, severity: object) -> None:
        if severity == "information":
            self.tell(text)
            self.kproxy.note(text)
        else:
            self.kproxy.tell(text, severity="error" if severity == "error" else "warning")

    def _selected_held(self) -> int | None:
        view = self.screen.view
        if isinstance(view, Faults):
            return view.held_number
        held = self.exchanges.list.held
        return None if held is None else held.number

    def add_states(self, states: list[str], loud: list[str]) -> None:
        """Add what is not as usual with the proxy."""
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
    @work("live", asks=True)
    async def action_hold_filter(self, text: str | None = None) -> None:
        """Hold what fits a filter."""
        await self._live.hold_filter(text)

    @work("live", confirms=True)
    async def action_hold_toggle(self) -> None:
        """Switch holding off, and on again."""
        await self._live.hold_toggle()

    @work("live")
    async def action_hold_release(self) -> None:
        """Let the selected held message go on."""
        await self._live.release()

    @work("live", confirms=True)
    async def action_hold_release_all(self) -> None:
        """Let everything go on that is held."""
        await self._live.release_all()

    @work("live")
    async def action_hold_kill(self) -> None:
        """Close the connection of the selected held message."""
        await self._live.kill()

    @work("live", asks=True)
    async def action_hold_edit(self) -> None:
        """Change the selected held message."""
        await self._live.edit()

    # ------------------------------------------------------------ forwarding, rules, recorder
    @work("live", confirms=True)
    async def action_forward_pause(self) -> None:
        """Hold every request, or let them go on."""
        await self._live.pause()

    @work("live", confirms=True)
    async def action_forward_toggle(self) -> None:
        """Switch forwarding off, and on again."""
        await self._live.forward_toggle()

    @work("live", asks=True)
    async def action_proxy_brokers(self) -> None:
        """Show the brokers behind the proxy."""
        await self._live.show_brokers()

    @work("live", asks=True)
    async def action_rule_add(self, text: str | None = None) -> None:
        """Add a fault rule."""
        await self._live.rule_add(text)

    @work("live", confirms=True)
    async def remove_rule(self, number: int | None) -> None:
        """Remove a fault rule."""
        await self._live.rule_remove(number)

    @work("live")
    async def action_recorder_keep(self) -> None:
        """Let the flight recorder keep this moment."""
        if self.kproxy.recorder is not None:
            self.kproxy.recorder()
            self.tell("the flight recorder keeps what surrounds this moment")
        else:
            await self._live.keep()

    # ------------------------------------------------------------ replay
    def action_replay_start(self, brokers: str = "") -> None:
        """Send the exchange under the cursor, or all that is marked, to a broker again."""
        number = self.number
        numbers = self.session.marked or ([] if number is None else [number])
        if not numbers:
            self.tell("there is no exchange to send again")
            return
        self.screen.app.push_screen(
            ReplayDialog(self.session, numbers, brokers or self._brokers), self._keep_brokers
        )

    def _keep_brokers(self, brokers: str | None) -> None:
        self._brokers = brokers or self._brokers

    # ------------------------------------------------------------ leaving
    @work("live", exclusive=True, confirms=True)
    async def ask_to_leave(self) -> None:
        """Ask what is to become of the proxy, and leave."""
        app = self.kproxy
        leaving = await self._live.leave(ends=app.ends_proxy, may_leave=app.ends_proxy, run=app.run_name)
        if leaving is not None:
            app.exit(leaving)
