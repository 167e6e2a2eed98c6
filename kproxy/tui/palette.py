"""The command palette: every command that is available now, and the filters, profiles and themes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from kproxy.tui.commands import BY_NAME, COMMANDS, Command
from kproxy.tui.keymap import keys_of
from kproxy.tui.manual import spelled
from kproxy.tui.safe import plain
from kproxy.tui.themes import all_themes

if TYPE_CHECKING:
    from kproxy.tui.app import KproxyApp
    from kproxy.tui.main.screen import MainScreen

LIVE = "Live: "
"""Start of the explanation of commands that need a proxy, in the table of commands."""


@dataclass(frozen=True, slots=True)
class Offer:
    """An entry of the palette. The palette parses its texts as markup, so they are escaped.

    :ivar text: searched, and shown
    :ivar help: explanation, and keys
    """

    text: str
    help: str
    carry_out: Callable[[], None]


class Commands(Provider):
    """The palette's provider of commands for the main screen."""

    async def discover(self) -> Hits:
        """Offer every command, in the order of help."""
        for offer in self._commands():
            yield DiscoveryHit(offer.text, offer.carry_out, help=offer.help)

    async def search(self, query: str) -> Hits:
        """Offer entries that contain the letters of the query in this order."""
        matcher = self.matcher(query)
        for offer in (*self._commands(), *self._named()):
            score = matcher.match(offer.text)
            if score > 0:
                yield Hit(score, matcher.highlight(offer.text), offer.carry_out, help=offer.help)

    @property
    def _main(self) -> MainScreen | None:
        from kproxy.tui.main.screen import MainScreen

        return self.screen if isinstance(self.screen, MainScreen) else None

    def _commands(self) -> Iterator[Offer]:
        main = self._main
        if main is None:
            return
        keymap = main.kproxy.settings.keymap
        for command in COMMANDS:
            if not _possible(main, command):
                continue
            keys = " ".join(spelled(key) for key in keys_of(command, keymap))
            help_text = f"{command.doc}  {keys}" if keys else command.doc
            yield Offer(title_of(command), plain(help_text).markup, partial(main.perform, command))

    def _named(self) -> Iterator[Offer]:
        main = self._main
        if main is None:
            return
        app = cast("KproxyApp", self.app)
        for name, text in app.settings.filters.items():
            yield self._with_argument(main, "filter.edit", text, f"Filter: @{name}", text)
        for name in app.settings.profiles:
            yield self._with_argument(main, "columns.profile", name, f"Profile: {name}", "Use these columns.")
        for name in all_themes():
            yield self._with_argument(main, "app.theme", name, f"Theme: {name}", "Use these colours.")

    @staticmethod
    def _with_argument(main: MainScreen, command: str, argument: str, text: str, help_text: str) -> Offer:
        return Offer(
            plain(text).markup, plain(help_text).markup, partial(main.perform, BY_NAME[command], argument)
        )


def _possible(main: MainScreen, command: Command) -> bool:
    """Return whether a command is available now."""
    app = main.kproxy
    running = app.link is not None or (command.group == "recorder" and app.recorder is not None)
    if (command.doc.startswith(LIVE) and not running) or app.leaves_out(command):
        return False
    target = main.target_of(command)
    return target is not None and bool(target.check_action(command.action, ()))


def title_of(command: Command) -> str:
    """Return a command's title in the palette."""
    group = f"{command.group[:1].upper()}{command.group[1:]}"
    return group if command.title == command.group else f"{group}: {command.title}"
