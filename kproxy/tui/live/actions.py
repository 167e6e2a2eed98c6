"""Actions on a running proxy: holding, editing, pausing, fault rules, forwarding.

Each public method is a command of :mod:`kproxy.tui.commands`, and runs in a worker, because it may open dialogs.
Results are reported in words; nothing is raised.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import wraps
from typing import Any, Concatenate, NamedTuple, ParamSpec

from textual.app import App
from textual.notifications import SeverityLevel

from captures.filters import Candidate, FilterError
from captures.meaning import words
from kproxy.proxy.rules.completion import complete_rule
from kproxy.session.published import HeldMessage
from kproxy.tui.dialogs.ask import Prompt, confirmation
from kproxy.tui.dialogs.brokers import BrokersDialog
from kproxy.tui.dialogs.edit_held import EditHeld
from kproxy.tui.dialogs.leave import Leave, Leaving
from kproxy.tui.live.draft import Draft, EditError
from kproxy.tui.live.link import Link, LinkError
from kproxy.tui.live.state import held_words

_P = ParamSpec("_P")

NOT_LIVE = (
    "This is for a running proxy: kproxy proxy -b BROKER starts one, kproxy attach --control goes to one."
)
ONLY_LOOKS = "This only looks at the proxy. kproxy attach --control may also hold, edit and add rules."
EVERYTHING = "@all"
"""The filter that matches everything."""

_EXAMPLES = "such as: api == JoinGroup and group == billing, or response: api == Fetch"


class _StateBeforePause(NamedTuple):
    """The state before a pause: the filter of requests, and the numbers of the held messages."""

    wanted: str | None
    numbers: frozenset[int]


def _on_proxy(
    action: Callable[Concatenate[LiveActions, Link, _P], Coroutine[Any, Any, None]],
) -> Callable[Concatenate[LiveActions, _P], Coroutine[Any, Any, None]]:
    """Pass an action the link; report if the proxy cannot be controlled, or refuses."""

    @wraps(action)
    async def carry_out(self: LiveActions, /, *args: _P.args, **kwargs: _P.kwargs) -> None:
        link = self._link
        if link is None:
            self._report(NOT_LIVE, "warning")
        elif link.state.gone:
            self._report(link.state.gone, "warning")
        elif not link.state.controls:
            self._report(ONLY_LOOKS, "warning")
        else:
            try:
                await action(self, link, *args, **kwargs)
            except LinkError as error:
                self._report(str(error), "error")

    return carry_out


class LiveActions:
    """Actions of a user on a proxy.

    :param app: shows the dialogs
    :param link: None if there is no proxy
    :param report: shows a message to the user
    :param selected: returns the number of the selected held message, None if none is selected
    :param show_secrets: whether secrets may be shown while editing
    :param filters: returns the saved filters, for ``@name``
    """

    def __init__(
        self,
        app: App[Any],
        link: Link | None,
        report: Callable[[str, SeverityLevel], None],
        selected: Callable[[], int | None] = lambda: None,
        *,
        show_secrets: bool = False,
        filters: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._app = app
        self._filters = filters
        self._link = link
        self._report = report
        self._selected = selected
        self._show_secrets = show_secrets
        self._switched_off: dict[str, str] = {}
        self._before_pause: _StateBeforePause = _StateBeforePause(None, frozenset())

    # ------------------------------------------------------------ holding
    @_on_proxy
    async def hold_filter(self, link: Link, text: str | None = None) -> None:
        """Hold messages that match a filter; an empty one holds no further messages.

        :param text: None asks for it
        """
        if text is None:
            now = "; ".join(f"{side}: {wanted}" for side, wanted in link.state.hold_filters.items())
            text = await self._app.push_screen_wait(
                Prompt(
                    f"Hold messages that match a filter; an empty one holds no more.\n{_EXAMPLES}",
                    now.partition("; ")[0],
                    validate=lambda text: condition_problem(self._saved(text)),
                    completions=_offers,
                    title="hold",
                )
            )
            if text is None:
                return
        text = self._saved(text.strip())
        if not text:
            await link.set_hold(None)
            self._report("No further messages are held; those held now stay held.", "information")
            return
        side = await link.set_hold(text)
        self._report(f"Holding {side}s that match: {text}", "information")

    def _saved(self, text: str) -> str:
        """Return a filter or a rule with the names of saved filters replaced."""
        from kproxy.proxy.rules.parser import with_saved_filters

        return with_saved_filters(text, self._filters())

    @_on_proxy
    async def hold_toggle(self, link: Link) -> None:
        """Switch the hold filters off, or on again."""
        now = dict(link.state.hold_filters)
        if now:
            self._switched_off = now
            await link.set_hold(None)
            self._report("Holding is off; messages held now stay held.", "information")
        elif self._switched_off:
            filters = "\n".join(f"{side}s: {wanted}" for side, wanted in self._switched_off.items())
            if not await self._agreed(
                link, f"Hold again, on {{}}, messages that match?\n{filters}", yes="hold"
            ):
                return
            for side, wanted in self._switched_off.items():
                await link.set_hold(wanted, side)
            self._report("Holding is on again.", "information")
        else:
            self._report("No hold filter yet: i sets one.", "warning")

    @_on_proxy
    async def release(self, link: Link) -> None:
        held = self._chosen(link)
        if held is not None:
            await self._release(link, held.number)

    async def _release(self, link: Link, number: int) -> None:
        if not await link.release(number):
            self._report("The message was already released.", "information")

    @_on_proxy
    async def release_all(self, link: Link) -> None:
        connections = {held.connection for held in link.state.held}
        if len(connections) > 1 and not await self._confirmed(
            f"Release {words.counted(len(link.state.held), 'message')} of {len(connections):,} connections?",
            yes="release all",
        ):
            return
        count = await link.release_all()
        self._report(
            f"{words.counted(count, 'message')} released." if count else "Nothing is held.", "information"
        )

    @_on_proxy
    async def kill(self, link: Link) -> None:
        """Close the connection of the selected held message."""
        held = self._chosen(link)
        if held is not None:
            await link.call("kill", number=held.number)
            self._report(f"Closed: the connection of {held_words(held)}", "information")

    @_on_proxy
    async def edit(self, link: Link) -> None:
        """Open an editor for the selected held message, and release the result."""
        held = self._chosen(link)
        if held is None:
            return
        answer = await link.call("held", number=held.number)
        try:
            draft = await asyncio.to_thread(Draft, held, answer, show_secrets=self._show_secrets)
        except EditError as error:
            self._report(str(error), "error")
            return
        data = await self._app.push_screen_wait(EditHeld(held, draft, lambda: _by_number(link, held.number)))
        if data is None:
            return
        if data == draft.frame.data:
            await self._release(link, held.number)
            return
        changed = await link.edit(held.number, data)
        self._report(f"Released with {words.counted(changed, 'value')} changed.", "information")

    def _chosen(self, link: Link) -> HeldMessage | None:
        """Return the selected held message, or the only one; otherwise report that one must be selected."""
        number = self._selected()
        found = None if number is None else _by_number(link, number)
        if found is not None:
            return found
        if len(link.state.held) == 1:
            return link.state.held[0]
        none = "Nothing is held." if not link.state.held else "Select one of the held messages first."
        self._report(none, "warning")
        return None

    # ------------------------------------------------------------ pausing and forwarding
    @_on_proxy
    async def pause(self, link: Link) -> None:
        """Hold every request; if paused, release them."""
        before = link.state.hold_filters.get("request")
        if before != EVERYTHING:
            question = "Hold every request on {}? Each waits until shortly before its client gives up."
            if not await self._agreed(link, question, yes="pause"):
                return
            self._before_pause = _StateBeforePause(before, frozenset(held.number for held in link.state.held))
            await link.set_hold(EVERYTHING, "request")
            self._report(
                "Paused: requests wait, each until shortly before its client gives up.", "information"
            )
            return
        wanted, numbers = self._before_pause
        await link.set_hold(wanted, "request")
        held = link.state.held
        waited = [each.number for each in held if each.side == "request" and each.number not in numbers]
        await link.release(*waited)
        self._report(f"Resumed; {words.counted(len(waited), 'request')} waited.", "information")

    @_on_proxy
    async def forward_toggle(self, link: Link) -> None:
        """Switch forwarding off, or on again."""
        on = not link.state.forwarding
        question = "Switch forwarding off for {}? What clients send is recorded and goes nowhere."
        if not on and not await self._agreed(link, question, yes="switch off"):
            return
        await link.call("forwarding", on=on)
        off = "Forwarding is off: what clients send is recorded and goes nowhere."
        self._report("Forwarding is on; clients connect again." if on else off, "information")

    @_on_proxy
    async def keep(self, link: Link) -> None:
        """Make the flight recorder keep this moment."""
        await link.call("keep")
        self._report("The flight recorder, if there is one (--keep), keeps this moment.", "information")

    # ------------------------------------------------------------ fault rules
    @_on_proxy
    async def rule_add(self, link: Link, text: str | None = None) -> None:
        """Add a fault rule.

        :param text: ``FILTER => ACTION``; None asks for it
        """
        if text is None:
            text = await self._app.push_screen_wait(
                Prompt(
                    "A fault rule: FILTER => ACTION, such as\napi == Fetch and topic == orders => delay 200ms, p=10%",
                    validate=lambda text: rule_problem(self._saved(text)),
                    completions=_offers,
                    title="add a fault rule",
                )
            )
        if text is None or not text.strip():
            return
        text = self._saved(text.strip())
        force = await asyncio.to_thread(concerns_everything, text)
        question = f"This rule concerns everything that goes through:\n{text}"
        if force and not await self._app.push_screen_wait(
            confirmation(question, yes="add it", title="add a fault rule")
        ):
            return
        number = await link.add_rule(text, force=force)
        self._report(f"Rule {number} added: {text}", "information")

    @_on_proxy
    async def rule_remove(self, link: Link, number: int | None) -> None:
        """Remove a fault rule.

        :param number: None if none is selected
        """
        if number is None:
            self._report("Select a fault rule first.", "warning")
            return
        await link.call("remove_rule", number=number)
        self._report(f"Rule {number} removed.", "information")

    # ------------------------------------------------------------ brokers
    async def show_brokers(self) -> None:
        """Show the brokers behind the proxy."""
        link = self._link
        if link is None or link.state.gone:
            self._report(NOT_LIVE if link is None else link.state.gone, "warning")
            return
        try:
            answer = await link.call("brokers")
        except LinkError as error:
            self._report(str(error), "error")
            return
        await self._app.push_screen_wait(BrokersDialog(answer))

    # ------------------------------------------------------------ leaving
    async def leave(self, *, ends: bool, run: str = "") -> Leaving | None:
        """Return whether the proxy ends or continues when the UI ends; None if the user stays.

        If the proxy has to continue, it is detached.

        :param ends: whether the proxy ends with the UI, unless the user decides otherwise
        :param run: name by which it is found again
        """
        link = self._link
        if link is None or link.state.gone:
            return "end"
        try:
            connections = await link.connections() if ends else ()
        except LinkError:
            return "end"  # the proxy is gone, so there is nothing to ask
        held = len(link.state.held) if link.state.controls else 0
        if ends and (connections or held):
            leaving = await self._app.push_screen_wait(Leave(connections, held=held, run=run))
            try:
                if leaving == "background":
                    await link.call("detach")
            except LinkError as error:
                self._report(str(error), "error")
                return None
            return leaving
        if held and not await self._app.push_screen_wait(
            confirmation(
                f"{words.counted(held, 'message')} held; they are released if you leave.",
                yes="leave",
                no="stay",
            )
        ):
            return None
        return "end" if ends else "background"

    # ------------------------------------------------------------ common to all
    async def _agreed(self, link: Link, question: str, *, yes: str) -> bool:
        """Ask for confirmation if several connections are affected; return whether to proceed.

        :param question: with ``{}`` for the connections
        """
        count = len(await link.connections())
        return count < 2 or await self._confirmed(
            question.replace("{}", f"{count:,} connections", 1), yes=yes
        )

    async def _confirmed(self, question: str, *, yes: str) -> bool:
        dialog = confirmation(question, yes=yes, no="no")
        agreed = await self._app.push_screen_wait(dialog)
        return bool(agreed)


def _by_number(link: Link, number: int) -> HeldMessage | None:
    return next((held for held in link.state.held if held.number == number), None)


# ---------------------------------------------------------------- checks while typing
def condition_problem(text: str) -> str:
    """Return what is wrong with a hold filter; an empty one is valid."""
    from kproxy.proxy.rules.parser import parse_condition

    return _problem(parse_condition, text) if text.strip() else ""


def rule_problem(text: str) -> str:
    """Return what is wrong with a fault rule; an empty one is valid."""
    from kproxy.proxy.rules.parser import parse_rule

    return _problem(parse_rule, text) if text.strip() else ""


def _problem(parse: Callable[[str], Any], text: str) -> str:
    try:
        parse(text)
    except FilterError as error:
        return f"{error}{f'; {error.hint}' if error.hint else ''}"
    return ""


def concerns_everything(text: str) -> bool:
    """Return whether a fault rule is valid and matches all frames of its side."""
    from kproxy.proxy.rules.matcher import matches_everything
    from kproxy.proxy.rules.parser import Rule, parse_rule

    try:
        rule = parse_rule(text)
        return isinstance(rule, Rule) and matches_everything(rule.condition)
    except FilterError:
        return False


def _offers(text: str) -> Sequence[str]:
    offers: list[Candidate] = complete_rule(text)
    return [f"{text[: each.start]}{each.text}" for each in offers]
