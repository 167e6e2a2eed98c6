"""The settings of a UI: what its user's configuration file says, and what was kept of what was chosen in the UI.

Where both say something, the file goes first; what is in the file is not kept a second time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from captures.filters import FilterError, compile_filter
from captures.filters.errors import did_you_mean
from kproxy.saved_choices import ColumnEntry, SavedChoices, change_kept, kept_path, read_kept
from kproxy.tui.config import Config, LoadedConfig, filter_name_problem, load_settings, profile_of
from kproxy.tui.keymap import Keymap, keymap
from kproxy.tui.profiles import BUILT_IN, DEFAULT, Profile
from kproxy.tui.themes import all_themes, color_problems, theme_problem, usual_theme

Value = TypeVar("Value")


class SettingsError(Exception):
    """Something cannot be kept; the text says why."""


class Settings:
    """What holds for a UI.

    :param loaded: what the configuration file says; None for the usual one, which is read then
    :param keeps: whether what is chosen is kept for the next time
    :ivar file: where the configuration file is, or would be
    :ivar config: what the file says, with defaults for what it does not say
    :ivar keymap: what is to be given to ``App.set_keymap``
    :ivar problems: what is wrong with the file, a line each; none of it is a reason not to open the UI
    """

    def __init__(self, loaded: LoadedConfig | None = None, *, keeps: bool = True) -> None:
        loaded = loaded or load_settings()
        self._keeps = keeps
        self.file = loaded.path
        self._kept_file = kept_path()
        self._kept = read_kept(self._kept_file)
        self.config: Config = loaded.config
        self.keymap: Keymap
        self.keymap, wrong = keymap(loaded.config.keys)
        wrong += color_problems(self.config.colors)
        if self.config.theme and (problem := theme_problem(self.config.theme)):
            wrong.append(f"ui.theme: {problem}")
        if (columns := self.config.columns) and columns not in self.profiles:
            hint = did_you_mean(columns, self.profiles) or f"there are {', '.join(self.profiles)}"
            wrong.append(f"ui.columns: there are no columns {columns!r} ({hint})")
        self.problems = (*loaded.problems, *(f"{loaded.path}: {problem}" for problem in wrong))

    @property
    def theme(self) -> str:
        """The name of the theme to begin with."""
        chosen = (self.config.theme, self._kept.theme)
        return next((name for name in chosen if name in all_themes()), usual_theme())

    @property
    def profile(self) -> Profile:
        """The columns to begin with."""
        chosen = (self.config.columns, self._kept.profile)
        found = next((self.profiles[name] for name in chosen if name in self.profiles), DEFAULT)
        return found.with_widths(self._kept.widths)

    @property
    def filters(self) -> Mapping[str, str]:
        """Texts of filters by name."""
        return {**self._kept.filters, **self.config.filters}

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """Columns of the list by name, those that are always there first."""
        kept = {}
        for name, entries in self._kept.profiles.items():
            with suppress(ValueError):  # of a version that had other columns
                kept[name] = profile_of(name, entries)
        return {**BUILT_IN, **kept, **self.config.column_sets}

    def filter_problem(self, name: str) -> str:
        """Return why a filter cannot be kept under a name, empty if it can."""
        return filter_name_problem(name) or self._taken(name, self.config.filters)

    def profile_problem(self, name: str) -> str:
        """Return why columns cannot be kept under a name, empty if they can."""
        if not name.strip():
            return "a name is missing"
        if name in BUILT_IN:
            return f"{name!r} is always there: take another name"
        return self._taken(name, self.config.column_sets)

    def _taken(self, name: str, by: Mapping[str, object]) -> str:
        return f"{name!r} is in {self.file}: change it there, or take another name" if name in by else ""

    def keep_theme(self, name: str) -> None:
        """Begin with a theme the next time, unless the configuration file names one. May wait for a disk.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, theme=name))

    def keep_filter(self, name: str, text: str) -> None:
        """Keep a filter under a name; one of that name is replaced. May wait for a disk.

        :raises SettingsError: if the name cannot be had, the filter makes no sense, or it cannot be written
        """
        if problem := self.filter_problem(name):
            raise SettingsError(problem)
        try:
            compile_filter(text)
        except FilterError as error:
            raise SettingsError(str(error)) from None
        self._change(lambda kept: replace(kept, filters={**kept.filters, name: text}))

    def keep_profile(self, profile: Profile) -> None:
        """Keep columns under their name, and begin with them the next time. May wait for a disk.

        :raises SettingsError: if the name cannot be had, or it cannot be written
        """
        name = profile.name
        if problem := self.profile_problem(name):
            raise SettingsError(problem)
        entries = tuple(ColumnEntry(chosen.column, chosen.width) for chosen in profile.columns)
        self._change(lambda kept: replace(kept, profiles={**kept.profiles, name: entries}, profile=name))

    def keep_width(self, name: str, width: int) -> None:
        """Keep the width of a column. May wait for a disk.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, widths={**kept.widths, name: width}))

    def use_profile(self, name: str) -> None:
        """Begin with some columns the next time, empty for the usual ones. May wait for a disk.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, profile=name))

    def _change(self, change: Callable[[SavedChoices], SavedChoices]) -> None:
        if not self._keeps:
            self._kept = change(self._kept)
            return
        try:
            self._kept = change_kept(self._kept_file, change)
        except OSError as error:
            raise SettingsError(f"{self._kept_file}: {error.strerror or error}") from None
