"""The lines of the main screen: the headline at the top, the status line and the line of keys at the bottom."""

from __future__ import annotations

from datetime import tzinfo
from typing import ClassVar

from rich.text import Text
from textual import events
from textual.binding import Binding
from textual.timer import Timer
from textual.widget import Widget

from captures.meaning import words
from captures.time_format import day, zone_name
from dissectors.printable import printable
from kproxy.session import Status
from kproxy.text.cells import cut, width
from kproxy.tui.views.base import Progress

_GAP = "   "


class Headline(Widget):
    """A line with the state of a session.

    :param title: name of the capture
    :param zone: time zone of all views; None for local time
    """

    DEFAULT_CSS = """
    Headline { height: 1; dock: top; background: $panel; color: $foreground; padding: 0 1; }
    """

    def __init__(self, title: str, zone: tzinfo | None = None) -> None:
        super().__init__()
        self._title = printable(title)
        self._zone = zone
        self._dates = ""
        self._parts: list[str] = []

    def show(self, status: Status, filter_off: str = "", counting: Progress | None = None) -> None:
        """Show a state.

        :param filter_off: the filter that is switched off and can be switched on again
        :param counting: progress of the view, None when it is done
        """
        dates, parts = self._days(status), _parts(status, filter_off, counting)
        if (dates, parts) != (self._dates, self._parts):
            self._dates, self._parts = dates, parts
            self.refresh()

    def on_show(self) -> None:
        """Redraw after a pane was maximised."""
        self.refresh()

    def render(self) -> Text:
        room = self.size.width
        left = f"kproxy{_GAP}{self._title}"
        right = _GAP.join(self._parts)
        if self._dates and width(left) + len(_GAP) + len(self._dates) + len(_GAP) + width(right) <= room:
            left = f"{left}{_GAP}{self._dates}"
        left = cut(left, max(room - width(right) - len(_GAP), 12))
        right = cut(right, max(room - width(left) - 1, 0))
        line = Text(f"{left}{' ' * max(room - width(left) - width(right), 1)}{right}", no_wrap=True, end="")
        line.stylize("bold", 0, len("kproxy"))
        return line

    def _days(self, status: Status) -> str:
        """Return the days and the zone of the times in all views."""
        begin, end = status.begin, status.latest
        if not begin:
            return ""
        days = dict.fromkeys((day(begin, self._zone), day(max(begin, end), self._zone)))
        return f"{' to '.join(days)} {zone_name(begin, self._zone)}"


def _parts(status: Status, filter_off: str, counting: Progress | None) -> list[str]:
    parts = [words.counted(status.exchanges, "exchange")]
    if status.first > 1:
        parts.append(f"from {status.first:,} on")
    if not status.finished and status.size:
        parts.append(f"reading {_share(status.read / status.size)}{_rate(status.rate)}")
    if status.filter is not None:
        parts.append(f"filter: {printable(status.filter.text)}")
    elif filter_off:
        parts.append(f"filter off: {printable(filter_off)}")
    if status.filtering is not None:
        parts.append(f"filtering {_share(status.filtering)}{_rate(status.filter_rate)} (esc stops)")
    if status.marked_only:
        parts.append("marked only")
    if status.filter is not None or status.marked_only:
        parts.append(f"{status.shown:,} shown{' so far' * (status.filtering is not None)}")
    if counting is not None:
        parts.append(f"counting {_share(counting.share)}{_rate(counting.rate)}")
    return parts


def _share(share: float) -> str:
    """Return a share of unfinished work in percent, at most 99."""
    return f"{min(99, int(100 * share))} %"


def _rate(rate: float) -> str:
    return f", {rate:,.0f}/s" if rate >= 1 else ""


_SECONDS = 6.0


class StatusLine(Widget):
    """A line with the target of escape or a temporary message on its left, and states on its right.

    States are words, such as ``following`` and ``41/s``; lost and held amounts are highlighted.
    """

    DEFAULT_CSS = """
    StatusLine { height: 1; background: $surface; color: $foreground; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._message = ""
        self._back = ""
        self._hiding: Timer | None = None
        self._states: tuple[str, ...] = ()
        self._loud: tuple[str, ...] = ()

    def show_message(self, message: str) -> None:
        """Show a message for some seconds from when it is drawn."""
        self._message = printable(message)
        if self._hiding is not None:
            self._hiding.stop()
        self.refresh()
        self.call_after_refresh(self._hide_later)

    def _hide_later(self) -> None:
        self._hiding = self.set_timer(_SECONDS, self._hide)

    def _hide(self) -> None:
        self._message = ""
        self.refresh()

    def lead_back(self, target: str) -> None:
        """Show the target of escape; empty for none."""
        self._back = f"esc: {target}" if target else ""
        self.refresh()

    def show(self, states: tuple[str, ...], loud: tuple[str, ...] = ()) -> None:
        """Show states.

        :param loud: states to highlight
        """
        if (states, loud) != (self._states, self._loud):
            self._states, self._loud = states, loud
            self.refresh()

    def render(self) -> Text:
        room = self.size.width
        right = "   ".join((*self._loud, *self._states))
        left = cut(self._message or self._back, max(room - min(width(right), room // 2) - 2, 0))
        right = cut(printable(right), max(room - width(left) - 1, 0))
        line = Text(f"{left}{' ' * max(room - width(left) - width(right), 0)}{right}", no_wrap=True, end="")
        loud = "   ".join(self._loud)
        if loud:
            begin = len(line.plain) - len(right)
            line.stylize("bold reverse", begin, min(begin + len(loud), len(line.plain)))
        return line


class KeyLine(Widget):
    """A line of keys, as many as fit with their full descriptions.

    It is one widget, because Textual's footer mounts a widget for each key whenever the focus moves.
    """

    DEFAULT_CSS = """
    KeyLine {
        height: 1;
        dock: bottom;
        background: $footer-background;
        color: $footer-foreground;
        & .key-line--key { color: $footer-key-foreground; text-style: bold; }
    }
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key"}

    def on_mount(self) -> None:
        """Redraw when other keys become active."""
        self.screen.bindings_updated_signal.subscribe(self, lambda _screen: self.refresh())

    def render(self) -> Text:
        line, style = Text(no_wrap=True, end=""), self.get_component_rich_style("key-line--key", partial=True)
        shown: dict[str, Binding] = {}
        for _, binding, _, _ in self.screen.active_bindings.values():
            if binding.show:
                shown.setdefault(binding.action, binding)
        for binding in shown.values():
            key = f" {self.app.get_key_display(binding)} "
            if line.cell_len + width(key) + width(f"{binding.description} ") > self.size.width:
                break
            start = len(line)
            line.append(key, style).append(f"{binding.description} ")
            line.apply_meta({"key": binding.key, "tooltip": binding.tooltip}, start)
        return line

    def on_mouse_move(self, event: events.MouseMove) -> None:
        self.tooltip = event.style.meta.get("tooltip")

    def on_click(self, event: events.Click) -> None:
        """Press the clicked key."""
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)
