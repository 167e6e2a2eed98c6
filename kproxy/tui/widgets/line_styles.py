"""Styles of widgets that draw their lines themselves, by the role of a text."""

from __future__ import annotations

from collections.abc import Iterable

from rich.style import Style
from textual.widget import Widget

_STYLES = {
    "title": "text-style: bold; background: $panel; color: $foreground;",
    "plain": "color: $foreground;",
    "strong": "text-style: bold;",
    "muted": "color: $text-muted;",
    "primary": "color: $text-primary;",
    "secondary": "color: $text-secondary;",
    "accent": "color: $text-accent;",
    "success": "color: $text-success;",
    "warning": "color: $text-warning;",
    "error": "color: $text-error;",
    "held": "color: $text-warning; text-style: bold;",
    "damaged": "color: $text-error; text-style: italic;",
    "repeated": "color: $text-disabled;",
    "sorted": "text-style: bold; background: $panel; color: $text-accent;",
    "bar": "color: $primary;",
    "heat": "color: $accent;",
}
_CURSOR = """
& > .drawn--cursor {
    background: $block-cursor-blurred-background;
    color: $block-cursor-blurred-foreground;
    text-style: $block-cursor-blurred-text-style;
}
&:focus > .drawn--cursor {
    background: $block-cursor-background;
    color: $block-cursor-foreground;
    text-style: $block-cursor-text-style;
}
"""
_SCREEN = """
height: 1fr; background: $background; color: $foreground;
scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; scrollbar-gutter: stable;
&:ansi > .drawn--title { background: ansi_default; color: ansi_default; text-style: bold underline; }
"""


def style_class(role: str) -> str:
    """Return the component class of a role."""
    return f"drawn--{role}"


def style_classes(roles: Iterable[str]) -> set[str]:
    """Return the component classes of roles, for ``COMPONENT_CLASSES``."""
    return set(map(style_class, roles))


def style_rules(widget: str, roles: Iterable[str]) -> str:
    """Return the rules of a widget for ``DEFAULT_CSS``: its size, colours, scroll bars, and the styles of roles."""
    rules = (f"& > .{style_class(role)} {{ {_STYLES[role]} }}" for role in roles if role in _STYLES)
    return f"{widget} {{ {_SCREEN} {' '.join(rules)} {_CURSOR} }}"


class DrawnLines(Widget):
    """A widget that draws its lines itself, in the styles of :func:`style_rules`."""

    def drawn_style(self, role: str) -> Style:
        return self.get_component_rich_style(style_class(role))
