"""Settings of the UI: the user's configuration file, and the saved choices made in the UI.

The file takes precedence; what it sets is not saved again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar

from msgspec.structs import replace

from captures.filters import FilterError, compile_filter
from captures.filters.errors import did_you_mean
from kproxy.saved_choices import SavedChoices, change_choices, choices_path, read_choices
from kproxy.tui.config import Config, LoadedConfig, filter_name_problem, load_settings
from kproxy.tui.keymap import Keymap, keymap
from kproxy.tui.profiles import BUILT_IN, DEFAULT, Profile, profile
from kproxy.tui.themes import all_themes, color_problems, theme_problem, usual_theme

Value = TypeVar("Value")


class SettingsError(Exception):
    """A setting cannot be saved; the message says why."""


class Settings:
    """The settings that apply to a UI.

    :param loaded: the configuration file; None to read the default one
    :param keeps: whether choices are saved for the next time
    :ivar file: path of the configuration file, whether or not it exists
    :ivar config: the file's settings, with defaults for the others
    :ivar keymap: the keymap for ``App.set_keymap``
    :ivar problems: what is wrong with the file, one line each; none prevents the UI from opening
    """

    def __init__(self, loaded: LoadedConfig | None = None, *, keeps: bool = True) -> None:
        loaded = loaded or load_settings()
        self._keeps = keeps
        self.file = loaded.path
        self._kept_file = choices_path()
        self._kept = read_choices(self._kept_file)
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
        """Name of the initial theme."""
        chosen = (self.config.theme, self._kept.theme)
        return next((name for name in chosen if name in all_themes()), usual_theme())

    @property
    def profile(self) -> Profile:
        """The initial columns."""
        chosen = (self.config.columns, self._kept.profile)
        found = next((self.profiles[name] for name in chosen if name in self.profiles), DEFAULT)
        return found.with_widths(self._kept.widths)

    @property
    def filters(self) -> Mapping[str, str]:
        """Texts of filters by name."""
        return {**self._kept.filters, **self.config.filters}

    @property
    def profiles(self) -> Mapping[str, Profile]:
        """Columns of the list by name, the built-in profiles first."""
        kept = {}
        for name, entries in self._kept.profiles.items():
            with suppress(ValueError):  # saved by a version with other columns
                kept[name] = profile(name, entries)
        return {**BUILT_IN, **kept, **self.config.column_sets}

    def filter_problem(self, name: str) -> str:
        """Return why a filter cannot be saved under a name, empty if it can."""
        return filter_name_problem(name) or self._conflict(name, self.config.filters)

    def profile_problem(self, name: str) -> str:
        """Return why columns cannot be saved under a name, empty if they can."""
        if not name.strip():
            return "a name is missing"
        if name in BUILT_IN:
            return f"{name!r} is always there: take another name"
        return self._conflict(name, self.config.column_sets)

    def _conflict(self, name: str, by: Mapping[str, object]) -> str:
        return f"{name!r} is in {self.file}: change it there, or take another name" if name in by else ""

    def keep_theme(self, name: str) -> None:
        """Save the theme for the next time, unless the configuration file names one. Does file I/O.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, theme=name))

    def keep_filter(self, name: str, text: str) -> None:
        """Save a filter under a name, replacing any other. Does file I/O.

        :raises SettingsError: if the name is unavailable, the filter is invalid, or it cannot be written
        """
        if problem := self.filter_problem(name):
            raise SettingsError(problem)
        try:
            compile_filter(text)
        except FilterError as error:
            raise SettingsError(str(error)) from None
        self._change(lambda kept: replace(kept, filters={**kept.filters, name: text}))

    def keep_profile(self, chosen: Profile) -> None:
        """Save columns under their name, and for the next time. Does file I/O.

        :raises SettingsError: if the name is unavailable, or it cannot be written
        """
        name = chosen.name
        if problem := self.profile_problem(name):
            raise SettingsError(problem)
        self._change(
            lambda kept: replace(kept, profiles={**kept.profiles, name: chosen.columns}, profile=name)
        )

    def keep_width(self, name: str, width: int) -> None:
        """Save the width of a column. Does file I/O.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, widths={**kept.widths, name: width}))

    def use_profile(self, name: str) -> None:
        """Save the name of the columns to start with next time, empty for the default ones. Does file I/O.

        :raises SettingsError: if it cannot be written
        """
        self._change(lambda kept: replace(kept, profile=name))

    def _change(self, change: Callable[[SavedChoices], SavedChoices]) -> None:
        if not self._keeps:
            self._kept = change(self._kept)
            return
        try:
            self._kept = change_choices(self._kept_file, change)
        except OSError as error:
            raise SettingsError(f"{self._kept_file}: {error.strerror or error}") from None
