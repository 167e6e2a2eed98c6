"""Colours of the UI: Textual's themes, two of kproxy's, and one without colours.

kproxy's themes are for dense tables: plain text has a contrast to its background of at least 7, and text that indicates
a state at least 4.5, under the cursor too (WCAG 2, AAA and AA). On terminals with 16 colours a theme of these is the
default, because other colours would be rounded to them. States are recognisable without colours, by a symbol or a word.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal

from rich.console import Console
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color, ColorParseError
from textual.constants import COLOR_SYSTEM
from textual.filter import LineFilter, Monochrome, NoColor
from textual.theme import BUILTIN_THEMES, Theme

from captures.filters.errors import did_you_mean

DARK = Theme(
    name="kproxy-dark",
    primary="#5aaceb",
    secondary="#2f6f9f",
    accent="#e3b341",
    warning="#e8a33d",
    error="#ff7b72",
    success="#56c271",
    foreground="#e2e6e9",
    background="#0e1215",
    surface="#141a1e",
    panel="#1e262c",
    dark=True,
    variables={
        "block-cursor-background": "#14395f",
        "block-cursor-foreground": "#ffffff",
        "block-cursor-blurred-background": "#243440",
        "block-cursor-blurred-foreground": "#e2e6e9",
        "footer-key-foreground": "#e3b341",
    },
)
LIGHT = Theme(
    name="kproxy-light",
    primary="#0b5cad",
    secondary="#3d7ab0",
    accent="#7a4b00",
    warning="#8a4b00",
    error="#b3201b",
    success="#14682f",
    foreground="#15191c",
    background="#fbfbfa",
    surface="#f3f4f3",
    panel="#e4e7e8",
    dark=False,
    variables={
        "block-cursor-background": "#bddaf7",
        "block-cursor-foreground": "#0b0f12",
        "block-cursor-blurred-background": "#cfdbe6",
        "block-cursor-blurred-foreground": "#15191c",
        "footer-key-foreground": "#0b5cad",
        # those that Textual derives are nearly as dark as the text
        "text-primary": "#0b5cad",
        "text-accent": "#7a4b00",
        "text-warning": "#8a4b00",
        "text-error": "#b3201b",
        "text-success": "#14682f",
    },
)
FEW_COLORS = "ansi-dark"
"""The theme for terminals with 16 colours."""
COLORLESS = replace(
    BUILTIN_THEMES[FEW_COLORS],
    name="colorless",
    variables=BUILTIN_THEMES[FEW_COLORS].variables
    | dict.fromkeys(
        ("scrollbar-background", "scrollbar-background-hover", "scrollbar-background-active"), "ansi_default"
    ),
)
"""The theme without colours; text with a background of its own is drawn in reverse video."""

CHANGEABLE = (
    "primary",
    "secondary",
    "accent",
    "warning",
    "error",
    "success",
    "foreground",
    "background",
    "surface",
    "panel",
)
"""Colours of a theme that the configuration file may change."""


def all_themes() -> dict[str, Theme]:
    """Return the themes by name, kproxy's first."""
    return {theme.name: theme for theme in (DARK, LIGHT, *BUILTIN_THEMES.values())}


def usual_theme() -> str:
    """Return the name of the default theme for this terminal."""
    few = Console(force_terminal=True, color_system=COLOR_SYSTEM).color_system == "standard"  # type: ignore[arg-type]
    return FEW_COLORS if few else DARK.name


def add_themes(app: App[Any], colors: Mapping[str, str]) -> None:
    """Register all themes with an application.

    :param colors: colours to replace in all of them, by name; invalid ones are ignored
    """
    app.register_theme(COLORLESS)
    changed = {name: color for name, color in colors.items() if not _problem(name, color)}
    for theme in all_themes().values():
        app.register_theme(replace(theme, **changed))  # type: ignore[arg-type]


def color_problems(colors: Mapping[str, str]) -> list[str]:
    """Return what is wrong with the colours of the configuration file, one line each."""
    problems = ((name, _problem(name, color)) for name, color in colors.items())
    return [f"ui.colors.{name}: {problem}" for name, problem in problems if problem]


def theme_problem(name: str) -> str:
    """Return why a theme cannot be used, empty if it can."""
    if name in all_themes():
        return ""
    hint = did_you_mean(name, all_themes()) or f"there are {', '.join(all_themes())}"
    return f"there is no theme {name!r} ({hint})"


def heed_color(choice: Literal["auto", "always", "never"]) -> None:
    """Set NO_COLOR for Textual according to `choice`; call it before the application is created.

    Textual decides by NO_COLOR only, and takes an empty one as set, contrary to no-color.org.

    :param choice: value of ``--color``; ``auto`` leaves the decision to NO_COLOR
    """
    without = choice == "never" or (choice == "auto" and bool(os.environ.get("NO_COLOR")))
    if without:
        os.environ["NO_COLOR"] = "1"
    else:
        os.environ.pop("NO_COLOR", None)


def line_filters(app: App[Any], filters: Sequence[LineFilter]) -> list[LineFilter]:
    """Return an application's line filters, for its ``get_line_filters``.

    :param filters: Textual's choice; without colours it includes one that converts colours to greys, also colours
    """
    usual = [each for each in filters if not isinstance(each, Monochrome | NoColor)]
    return [*usual, ReverseVideo()] if app.no_color else usual


class ReverseVideo(LineFilter):
    """A line filter that removes all colours, and reverses text with a background of its own, such as a cursor.

    It needs the theme :data:`COLORLESS`, in which all other text has the terminal's own background.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return segments without colours."""
        return [
            segment
            if segment.style is None
            else Segment(segment.text, _colorless(segment.style), segment.control)
            for segment in segments
        ]


@lru_cache(1024)
def _colorless(style: Style) -> Style:
    marked = style.bgcolor is not None and not style.bgcolor.is_default
    return style + _NO_COLORS + Style(reverse=marked or style.reverse)


_NO_COLORS = NoColor.DEFAULT_COLORS


def _problem(name: str, color: str) -> str:
    if name not in CHANGEABLE:
        return f"there is no such colour; there are {', '.join(CHANGEABLE)}"
    try:
        Color.parse(color)
    except ColorParseError:
        return f"{color!r} is no colour; write #rrggbb, a name such as orange, or ansi_red"
    return ""
