"""The ``:`` line: commands by name, with completion and checks of their arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from textual.actions import parse
from textual.binding import Binding
from textual.widget import Widget

from kproxy.copy_as import FORMATS
from kproxy.proxy.rules.completion import complete_rule
from kproxy.proxy.rules.parser import parse_condition, parse_rule, with_saved_filters
from kproxy.tui.columns import COLUMNS, compile_typed, field_problem
from kproxy.tui.commands import BY_LINE, Command
from kproxy.tui.main.part import Part
from kproxy.tui.themes import all_themes
from kproxy.tui.widgets.command_line import (
    Argument,
    CommandLine,
    FilePath,
    FilterText,
    Number,
    OtherCapture,
    Words,
)
from kproxy.tui.widgets.filter_bar import FilterBar


class CommandEntry(Part):
    """Commands run by name."""

    def line(self) -> CommandLine:
        leaves_out = self.kproxy.leaves_out
        commands = {line: command for line, command in BY_LINE.items() if not leaves_out(command)}
        return CommandLine(self._arguments(), commands)

    def _arguments(self) -> Mapping[str, Argument]:
        settings = self.kproxy.settings

        def saved(text: str) -> str:
            return with_saved_filters(text, settings.filters)

        filters = FilterText(
            lambda text: compile_typed(saved(text), self.session.zone), self._complete_filter
        )
        return {
            "filter.edit": filters,
            "filter.save": Words(lambda: settings.filters, "filter", only=False),
            "hold.filter": FilterText(lambda text: parse_condition(saved(text)), self._complete_filter),
            "rule.add": FilterText(lambda text: parse_rule(saved(text)), self._complete_rule),
            "goto.number": Number(),
            "app.theme": Words(lambda: dict.fromkeys(all_themes(), "theme"), "theme"),
            "columns.profile": Words(
                lambda: dict.fromkeys(settings.profiles, "columns of the list"), "profile", only=False
            ),
            "order.choose": Words(self._columns, "column", only=False, problem=field_problem),
            "write.selection": FilePath(),
            "copy.as": Words(lambda: {each.name: each.title for each in FORMATS}, "format"),
            "question.diff": OtherCapture(),
            "app.screenshot": FilePath(),
        }

    async def _complete_filter(self, text: str, cursor: int) -> Any:
        return await self.screen.query_one(FilterBar).candidates(text, cursor)

    @staticmethod
    async def _complete_rule(text: str, cursor: int) -> Any:
        return complete_rule(text, cursor)

    def _columns(self) -> dict[str, str]:
        return {name: column.title for name, column in COLUMNS.items()}

    def action_command_line(self) -> None:
        self.screen.query_one(CommandLine).open()

    def target_of(self, command: Command) -> Widget | None:
        """Return the widget that can run a command now, None if there is none."""
        method = command.method
        if hasattr(self.screen, method):
            return self.screen
        around = () if self.screen.focused is None else self.screen.focused.ancestors_with_self
        for widget in (*around, self.screen.view, *self.screen.view.query("*")):
            if isinstance(widget, Widget) and hasattr(widget, method) and _at_its_place(command, widget):
                return widget
        return None

    def perform(self, command: Command, argument: str = "") -> None:
        """Run a command, as if its key was pressed.

        :param argument: its argument on the command line
        """
        if self.kproxy.refuses(command):
            return
        target = self.target_of(command)
        if target is None:
            self.report(f"{command.title} works only in the {command.scope}")
            return
        action: Callable[..., Any] = getattr(target, command.method)
        outcome = action(argument) if argument and command.argument else action(*parse(command.action)[2])
        if hasattr(outcome, "__await__") and not hasattr(outcome, "is_finished"):
            self.screen.run_worker(outcome, group="command")


def _at_its_place(command: Command, widget: Widget) -> bool:
    """Return whether a widget binds the keys of a command whose action others have too."""
    bound = (each.id for each in type(widget).BINDINGS if isinstance(each, Binding))
    return not command.call or command.name in bound
