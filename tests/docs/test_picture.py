"""The pictures of the documentation can be drawn."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from docs.picture import DOCS, SCREENS, Screen, drawn_lines, drawn_screen, portable

pytestmark = pytest.mark.turns(1)

SHOWN = {
    "ui.svg": ["error_code", "27", "REBALANCE_IN_PROGRESS", "bytes of response"],
    "groups.svg": ["session_timeout", "m3 died and was removed", "rebalance"],
    "latency.svg": ["p99", "OffsetCommit"],
    "conversation.svg": ["client 127.0.0.1", "broker", "JoinGroup"],
}


def text_of(svg: str) -> str:
    """Return the text of a picture; it has to be well-formed, and must not load anything."""
    assert "@font-face" not in svg
    assert "url(http" not in svg
    root = ElementTree.fromstring(svg)
    return " ".join("".join(each.itertext()) for each in root.iter() if each.tag.endswith("text")).replace(
        "\xa0", " "
    )


@pytest.mark.slow
def test_what_is_printed_is_drawn() -> None:
    assert "kproxy read captures/samples/rebalance.pcap" in text_of(drawn_lines())


@pytest.mark.slow
@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
async def test_a_screen_is_drawn(screen: Screen) -> None:
    text = text_of(await drawn_screen(screen))
    assert [word for word in SHOWN[screen.name] if word not in text] == []


def test_the_pictures_are_there() -> None:
    for screen in SCREENS:
        assert text_of((DOCS / screen.name).read_text())


def test_each_run_of_characters_has_its_place() -> None:
    text = "&#160;&#160;a&#160;&lt;&#160;&#160;▸b"
    drawn = portable(f'<text class="a" x="12.2" y="20" textLength="97.6" clip-path="url(#c)">{text}</text>')
    assert drawn == (
        '<text class="a" x="36.6" y="20" textLength="36.6" clip-path="url(#c)">a&#160;&lt;</text>'
        '<text class="a" x="97.6" y="20" textLength="12.2" clip-path="url(#c)">▸</text>'
        '<text class="a" x="109.8" y="20" textLength="12.2" clip-path="url(#c)">b</text>'
    )
