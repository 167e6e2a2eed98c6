"""The content of the command palette: every command that is available now, and the filters, profiles and themes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand

from kproxy.tui.commands import BY_NAME, COMMANDS, Command
from kproxy.tui.keymap import keys_of
from kproxy.tui.manual import spelled
from kproxy.tui.safe import plain
from kproxy.tui.themes import all_themes

if TYPE_CHECKING:
    from kproxy.tui.main.screen import MainScreen

LIVE = "Live: "
"""Start of the explanation of commands that need a proxy, in the table of commands."""


def offers(main: MainScreen) -> Iterator[SystemCommand]:
    """Yield the entries of the palette, escaped, because it parses markup. Entries with an argument are only found."""
    settings = main.kproxy.settings
    for command in COMMANDS:
        if _possible(main, command):
            keys = " ".join(spelled(key) for key in keys_of(command, settings.keymap))
            help_text = f"{command.doc}  {keys}" if keys else command.doc
            yield SystemCommand(
                title_of(command), plain(help_text).markup, partial(main.typing.perform, command)
            )
    named = [
        *(("filter.edit", text, f"Filter: @{name}", text) for name, text in settings.filters.items()),
        *(("columns.profile", name, f"Profile: {name}", "Use these columns.") for name in settings.profiles),
        *(("app.theme", name, f"Theme: {name}", "Use these colours.") for name in all_themes()),
    ]
    for known, argument, title, help_text in named:
        perform = partial(main.typing.perform, BY_NAME[known], argument)
        yield SystemCommand(plain(title).markup, plain(help_text).markup, perform, discover=False)


def _possible(main: MainScreen, command: Command) -> bool:
    """Return whether a command is available now."""
    app = main.kproxy
    running = app.link is not None or (command.group == "recorder" and app.recorder is not None)
    if (command.doc.startswith(LIVE) and not running) or app.leaves_out(command):
        return False
    target = main.typing.target_of(command)
    return target is not None and bool(target.check_action(command.method.removeprefix("action_"), ()))


def title_of(command: Command) -> str:
    """Return a command's title in the palette."""
    group = f"{command.group[:1].upper()}{command.group[1:]}"
    return group if command.title == command.group else f"{group}: {command.title}"
