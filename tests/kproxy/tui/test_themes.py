"""Themes: readable states in kproxy's own, and display without colours."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from rich.segment import Segment
from rich.style import Style
from textual.app import App
from textual.color import Color
from textual.theme import Theme

from kproxy.tui.themes import (
    DARK,
    FEW_COLORS,
    LIGHT,
    ReverseVideo,
    add_themes,
    all_themes,
    color_problems,
    heed_color,
    theme_problem,
    usual_theme,
)
from tests.kproxy.cli.terminal import Terminal
from tests.kproxy.tui.kit import REBALANCE

STATES = ("primary", "accent", "warning", "error", "success")


def luminance(color: Color) -> float:
    """Return the relative luminance of WCAG 2."""

    def linear(channel: int) -> float:
        share = channel / 255
        return share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b)


def contrast(theme: Theme, text: str, background: str) -> float:
    variables = theme.to_color_system().generate() | theme.variables
    dark, light = sorted(luminance(Color.parse(variables[name])) for name in (text, background))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
@pytest.mark.parametrize(
    "background",
    ["background", "surface", "panel", "block-cursor-background", "block-cursor-blurred-background"],
)
def test_text_and_states_can_be_read(theme: Theme, background: str) -> None:
    assert contrast(theme, "foreground", background) >= 7
    for state in STATES:
        assert contrast(theme, state, background) >= 4.5, state
        assert contrast(theme, f"text-{state}", background) >= 4.5, state


@pytest.mark.parametrize("theme", [DARK, LIGHT], ids=lambda theme: theme.name)
def test_states_are_of_different_colours(theme: Theme) -> None:
    hues = [Color.parse(getattr(theme, state)).hsl.h for state in ("warning", "error", "success", "primary")]
    assert min(abs(a - b) for i, a in enumerate(hues) for b in hues[:i]) > 0.05


@pytest.mark.parametrize("state", STATES)
def test_states_differ_from_text_on_a_light_background(state: str) -> None:
    assert contrast(LIGHT, f"text-{state}", "foreground") >= 2


def test_ours_come_first() -> None:
    assert list(all_themes())[:2] == ["kproxy-dark", "kproxy-light"]
    assert theme_problem("kproxy-dark") == ""
    assert (
        theme_problem("kproxy-drak")
        == "there is no theme 'kproxy-drak' (did you mean kproxy-dark or kproxy-light?)"
    )


@pytest.mark.parametrize(
    ("term", "colorterm", "theme"),
    [
        ("xterm-256color", "", "kproxy-dark"),
        ("xterm", "truecolor", "kproxy-dark"),
        ("linux", "", FEW_COLORS),
        ("xterm", "", FEW_COLORS),
    ],
)
def test_few_colours_have_a_theme_of_their_own(
    monkeypatch: pytest.MonkeyPatch, term: str, colorterm: str, theme: str
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("COLORTERM", colorterm)
    assert usual_theme() == theme


@pytest.mark.slow
async def test_all_themes_can_be_used_with_other_colours() -> None:
    app: App[object] = App()
    colors = {"error": "#ff00ff", "eror": "red", "warning": "redd"}
    add_themes(app, colors)
    assert [problem.partition(";")[0] for problem in color_problems(colors)] == [
        "ui.colors.eror: there is no such colour",
        "ui.colors.warning: 'redd' is no colour",
    ]
    async with app.run_test(size=(20, 5)) as pilot:
        for name in all_themes():
            app.theme = name
            await pilot.pause()
            assert Color.parse(app.theme_variables["error"]) == Color.parse("#ff00ff")
            assert app.current_theme.warning == all_themes()[name].warning


@pytest.mark.parametrize(
    ("choice", "stated", "without"),
    [
        ("auto", None, False),
        ("auto", "", False),
        ("auto", "1", True),
        ("always", "1", False),
        ("never", None, True),
    ],
)
def test_doing_without_colours(
    monkeypatch: pytest.MonkeyPatch, choice: str, stated: str | None, without: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if stated is not None:
        monkeypatch.setenv("NO_COLOR", stated)
    else:
        monkeypatch.setenv("NO_COLOR", "")  # so that it is restored
        del os.environ["NO_COLOR"]
    heed_color(choice)  # type: ignore[arg-type]
    assert App().no_color is without


def test_without_colours_only_what_is_marked_is_in_reverse_video() -> None:
    given = [
        Segment("plain", Style(color="red", bgcolor="default", bold=True)),
        Segment("cursor", Style(bgcolor="white")),
    ]
    plain, cursor = ReverseVideo().apply(given, Color.parse("ansi_default"))
    for segment in (plain, cursor):
        assert segment.style is not None
        assert segment.style.color is not None
        assert segment.style.color.is_default
        assert segment.style.bgcolor is not None
        assert segment.style.bgcolor.is_default
    assert plain.style == Style(color="default", bgcolor="default", bold=True)
    assert cursor.style is not None
    assert cursor.style.reverse


@pytest.mark.slow
def test_no_colour_reaches_a_terminal_without_colours(tmp_path: Path) -> None:
    with Terminal(["open", "--color", "never", str(REBALANCE)], tmp_path) as terminal:
        terminal.shows("402 exchanges")
        terminal.shows("✓ ok")
        terminal.shows_reversed("1exchanges")
        terminal.shows_reversed("09:50:58")  # the line of the cursor
        terminal.type(":theme kproxy-light\r")
        terminal.shows("themes change nothing")
        codes = {
            int(code)
            for sequence in re.findall(rb"\x1b\[([\d;]*)m", terminal.said)
            for code in sequence.split(b";")
            if code
        }
        assert codes <= {0, 1, 2, 3, 4, 7, 39, 49}
