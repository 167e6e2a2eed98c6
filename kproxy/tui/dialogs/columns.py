"""The dialog for the columns of the list, their order and widths, and for saving them as a profile."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import ClassVar

import msgspec
from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from kproxy.saved_choices import ProfileColumn
from kproxy.text.cells import fit
from kproxy.tui.columns import COLUMNS, column, field_names, field_problem
from kproxy.tui.dialogs.ask import Answer, Ask, Prompt
from kproxy.tui.dialogs.base import Box, ListDialog
from kproxy.tui.profiles import WIDEST, Profile
from kproxy.tui.safe import plain

_KEYS = "space on/off  J K move  < > = width  + field  p profiles  s keep  enter show"


class Entry(msgspec.Struct, frozen=True):
    """A selectable column.

    :ivar shown: whether it is selected
    """

    chosen: ProfileColumn
    shown: bool


class Choice:
    """The columns while they are edited: the shown ones in order, then the others.

    :ivar name: of the profile with these columns, empty if none has them
    """

    def __init__(self, profile: Profile) -> None:
        self.name = ""
        self.entries: list[Entry] = []
        self.load(profile)

    @property
    def profile(self) -> Profile:
        """The shown columns."""
        return Profile(self.name, tuple(each.chosen for each in self.entries if each.shown))

    def load(self, profile: Profile) -> None:
        """Restart with the columns of a profile."""
        self.name = profile.name
        shown = {each.column for each in profile.columns}
        fields = [each.chosen.column for each in self.entries if each.chosen.column not in COLUMNS]
        others = [name for name in (*COLUMNS, *fields) if name not in shown]
        self.entries = [Entry(each, True) for each in profile.columns]
        self.entries += [Entry(ProfileColumn(name), False) for name in others]

    def toggle(self, index: int) -> int:
        """Show a column after the others, or hide it; return its new index.

        The last shown column cannot be hidden.
        """
        entry = self.entries[index]
        if entry.shown and self._count == 1:
            return index
        del self.entries[index]
        at = self._count
        self._insert(at, replace(entry, shown=not entry.shown))
        return at

    def move(self, index: int, by: int) -> int:
        """Move a shown column among the shown ones; return its new index."""
        if not self.entries[index].shown:
            return index
        at = min(max(index + by, 0), self._count - 1)
        self._insert(at, self.entries.pop(index))
        return at

    def widen(self, index: int, by: int | None) -> None:
        """Change the width of a column; None makes it automatic."""
        chosen = self.entries[index].chosen
        width = None
        if by is not None:
            width = min(max((chosen.width or column(chosen.column).least) + by, 1), WIDEST)
        self.entries[index] = replace(self.entries[index], chosen=replace(chosen, width=width))
        self.name = ""

    def add(self, name: str) -> int:
        """Show a column unless it is shown; return its index."""
        names = [each.chosen.column for each in self.entries]
        if name not in names:
            self._insert(self._count, Entry(ProfileColumn(name), True))
            return self._count - 1
        index = names.index(name)
        return index if self.entries[index].shown else self.toggle(index)

    @property
    def _count(self) -> int:
        return sum(each.shown for each in self.entries)

    def _insert(self, at: int, entry: Entry) -> None:
        self.entries.insert(at, entry)
        self.name = ""


class ColumnsDialog(ListDialog[Profile | None]):
    """A dialog for choosing columns. Returns them, named if they are to be saved; None after escape.

    :param profile: the current columns
    :param profiles: available profiles by name
    :param name_problem: returns why columns cannot be saved under a name, empty if they can
    """

    DEFAULT_CSS = """
    ColumnsDialog {
        & > .box { width: 84; height: 100%; max-height: 34; }
        #columns-title { height: 1; color: $text-muted; }
        #columns-keys { height: auto; color: $text-muted; }
    }
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "accept", "show these", priority=True),
        Binding("space", "switch", "on or off"),
        Binding("J,shift+down,alt+down", "move(1)", "move down"),
        Binding("K,shift+up,alt+up", "move(-1)", "move up"),
        Binding("greater_than_sign,right", "widen(1)", "wider"),
        Binding("less_than_sign,left", "widen(-1)", "narrower"),
        Binding("equals_sign", "widen_as_needed", "width as needed"),
        Binding("plus", "add_field", "add a field"),
        Binding("p", "load", "profiles"),
        Binding("s", "keep", "keep as profile"),
    ]

    def __init__(
        self, profile: Profile, profiles: Mapping[str, Profile], name_problem: Callable[[str], str]
    ) -> None:
        super().__init__()
        self._choice = Choice(profile)
        self._profiles = profiles
        self._name_problem = name_problem

    def compose(self) -> ComposeResult:
        with Box("columns"):
            yield Static(f"    {'column':<22} {'width':>6}  what it shows", id="columns-title", markup=False)
            yield OptionList(*self._options(), compact=True)
            yield Static(_KEYS, id="columns-keys", markup=False)

    def on_mount(self) -> None:
        self._list.highlighted = 0

    def _options(self) -> Iterator[Option]:
        for entry in self._choice.entries:
            about = column(entry.chosen.column)
            known = entry.chosen.column in COLUMNS
            width = "auto" if entry.chosen.width is None else str(entry.chosen.width)
            name = fit(entry.chosen.column, 22)
            yield Option(
                Content.assemble(
                    plain(f"{'[x]' if entry.shown else '[ ]'} "),
                    (name, "bold") if entry.shown else plain(name),
                    plain(f" {width:>6}  {about.doc if known else 'the field of this name'}"),
                )
            )

    def _renew(self, index: int) -> None:
        options = self._list
        top = options.scroll_y
        options.clear_options().add_options(self._options())
        options.highlighted = index
        options.scroll_to(y=top, animate=False)
        self.query_one(".box").border_title = plain(
            f"columns: profile {self._choice.name}" if self._choice.name else "columns"
        )

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        event.stop()
        self._renew(self._choice.toggle(event.option_index))

    def action_accept(self) -> None:
        self.dismiss(self._choice.profile)

    def action_switch(self) -> None:
        self._renew(self._choice.toggle(self._index))

    def action_move(self, by: int) -> None:
        self._renew(self._choice.move(self._index, by))

    def action_widen(self, by: int) -> None:
        self._choice.widen(self._index, by)
        self._renew(self._index)

    def action_widen_as_needed(self) -> None:
        """Make the width of the column automatic."""
        self._choice.widen(self._index, None)
        self._renew(self._index)

    def action_add_field(self) -> None:
        self.app.push_screen(
            Prompt(
                "Name of a field, such as topic, or the path of one, such as request.topics.name",
                validate=lambda text: "" if text in COLUMNS else field_problem(text),
                completions=field_names,
                title="add a column",
            ),
            self._add_field,
        )

    def _add_field(self, name: str | None) -> None:
        if name is not None:
            self._renew(self._choice.add(name))

    def action_load(self) -> None:
        answers = [Answer(profile, name) for name, profile in self._profiles.items()]
        names = list(self._profiles)
        chosen = names.index(self._choice.name) if self._choice.name in names else 0
        self.app.push_screen(
            Ask("Begin with the columns of", answers, title="profiles", chosen=chosen), self._load
        )

    def _load(self, profile: Profile | None) -> None:
        if profile is not None:
            self._choice.load(profile)
            self._renew(0)

    def action_keep(self) -> None:
        """Ask for a profile name, and close with the named columns."""
        self.app.push_screen(
            Prompt("Name to keep these columns under", validate=self._name_problem, title="keep columns"),
            self._keep,
        )

    def _keep(self, name: str | None) -> None:
        if name is not None:
            self.dismiss(replace(self._choice.profile, name=name))
