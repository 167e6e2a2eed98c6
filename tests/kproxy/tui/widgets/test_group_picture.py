"""The picture of a group: picture, marks, cursor, zoom."""

from __future__ import annotations

from datetime import UTC
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from captures.analysis.groups.model import GroupTimeline, Span
from captures.analysis.groups.vocabulary import Phase
from kproxy.tui.widgets.group_picture import GroupPicture
from tests.captures.analysis.groups.kit import at, member, rebalance, timeline


class LanesApp(App[None]):
    def __init__(self, shown: GroupTimeline | None) -> None:
        super().__init__()
        self.shown = shown
        self.met: list[tuple[str, int]] = []

    def compose(self) -> ComposeResult:
        yield GroupPicture(UTC)

    def on_mount(self) -> None:
        self.picture.show(self.shown)
        self.picture.focus()

    @property
    def picture(self) -> GroupPicture:
        return self.query_one(GroupPicture)

    def on_group_picture_selected(self, message: GroupPicture.Selected) -> None:
        self.met.append(("selected", message.place))

    def on_group_picture_entered(self, message: GroupPicture.Entered) -> None:
        self.met.append(("entered", message.place))


def spans(*parts: tuple[float, float, Phase]) -> list[Span]:
    return [Span(at(begin), at(end), phase, 1, 1) for begin, end, phase in parts]


def group(**fields: Any) -> GroupTimeline:
    """Return a minute of a group: m1 joins for 10 s and is stable, m2 falls silent at 30 s and is gone at 40 s."""
    members = [
        member("m1", spans=spans((0, 10, Phase.JOINING), (10, 60, Phase.STABLE))),
        member("m2", first=10, left=at(40), spans=spans((10, 30, Phase.STABLE), (30, 40, Phase.SILENT))),
    ]
    stories = [
        rebalance(begin=0, end=10, generation=1),
        rebalance(begin=40, end=42),
        rebalance(begin=50, end=None, running=True, generation=-1),
    ]
    return timeline(*stories, **{"members": members} | fields)


def lines(pilot: Pilot[Any]) -> list[str]:
    picture = pilot.app.query_one(GroupPicture)
    return [picture.render_line(y).text for y in range(picture.size.height)]


async def test_members_marks_and_time() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        await pilot.pause()
        title, marks, first, second, axis = lines(pilot)[:5]
        assert title.startswith(" 60 s  ·  ━ stable")
        # 60 cells after the names: one second each
        assert first[:11].strip() == "m1"
        assert first[11:] == "▒" * 10 + "━" * 40 + "━" * 10
        assert second[11:] == " " * 10 + "━" * 20 + "·" * 10 + "╳" + " " * 19
        assert marks[11:] == "▼1".ljust(40) + "▼2".ljust(10) + "▽".ljust(10)
        assert axis[11:].startswith("╵14:13:20.000─")


async def test_what_is_short_and_matters_is_seen() -> None:
    parts = spans((0, 60, Phase.STABLE), (20.2, 20.3, Phase.JOINING), (20.31, 20.32, Phase.NOT_JOINING))
    async with LanesApp(group(members=[member("m1", spans=parts)])).run_test(size=(71, 12)) as pilot:
        await pilot.pause()
        assert lines(pilot)[2][11:] == "━" * 20 + "!" + "━" * 39


@pytest.mark.slow
async def test_the_cursor_goes_from_rebalance_to_rebalance() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        app: Any = pilot.app
        assert app.picture.cursor == 2
        await pilot.press("left", "left", "left", "right", "enter")
        assert app.met == [("selected", 1), ("selected", 0), ("selected", 1), ("entered", 1)]
        await pilot.press("home")
        assert app.picture.cursor == 0
        await pilot.press("end")
        assert app.picture.cursor == 2


@pytest.mark.slow
async def test_zoom_and_pan() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        await pilot.press("left", "z")
        await pilot.pause()
        title, marks, first, *_ = lines(pilot)
        assert "30 s of 60 s" in title
        # from 26 s to 56 s: two cells per second
        assert marks[11 + 28 :].startswith("▼2")
        assert first[11:] == "━" * 60
        await pilot.press("less_than_sign", "less_than_sign", "less_than_sign", "less_than_sign")
        await pilot.pause()
        assert lines(pilot)[2][11:] == "▒" * 20 + "━" * 40
        await pilot.press("right")  # the time of the cursor is shown
        await pilot.pause()
        assert "▽" in lines(pilot)[1]
        await pilot.press("asterisk")
        await pilot.pause()
        assert lines(pilot)[0].startswith(" 60 s  ·")


@pytest.mark.slow
async def test_zoom_has_its_ends() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        await pilot.press(*["z"] * 40)
        await pilot.pause()
        assert "10 ms of 60 s" in lines(pilot)[0]
        await pilot.press(*["Z"] * 40)
        await pilot.pause()
        assert lines(pilot)[0].startswith(" 60 s  ·")


@pytest.mark.slow
async def test_more_members_than_lines() -> None:
    members = [member(f"m{number}") for number in range(20)]
    async with LanesApp(group(members=members)).run_test(size=(71, 8)) as pilot:
        await pilot.pause()
        assert "15 more members" in lines(pilot)[0]
        await pilot.press("down", "down")
        await pilot.pause()
        assert lines(pilot)[2].startswith(" m2")
        await pilot.press(*["down"] * 30)
        await pilot.pause()
        assert lines(pilot)[6].startswith(" m19")
        assert "╵" in lines(pilot)[7]


async def test_growing_keeps_who_looks_at_the_latest_there_and_others_where_they_are() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        app: Any = pilot.app
        more = group()
        more.rebalances.append(rebalance(begin=55, end=56, generation=4))
        app.picture.show(more)
        assert app.picture.cursor == 3
        await pilot.press("home")
        app.picture.show(group())
        assert app.picture.cursor == 0


@pytest.mark.slow
async def test_a_click_chooses_what_is_nearest() -> None:
    async with LanesApp(group()).run_test(size=(71, 12)) as pilot:
        app: Any = pilot.app
        await pilot.click(GroupPicture, offset=(11 + 38, 3))
        assert app.met == [("selected", 1)]
        await pilot.click(GroupPicture, offset=(11 + 38, 3), times=2)
        assert ("entered", 1) in app.met


@pytest.mark.slow
@pytest.mark.parametrize(
    "shown", [None, timeline(members=[], rebalances=[]), timeline(first=at(0), last=at(0))]
)
async def test_where_there_is_little(shown: GroupTimeline | None) -> None:
    async with LanesApp(shown).run_test(size=(40, 6)) as pilot:
        await pilot.press("left", "right", "z", "Z", "greater_than_sign", "enter", "home", "end")
        await pilot.pause()
        assert all(len(line) == 40 for line in lines(pilot))


async def test_names_from_the_wire_are_harmless() -> None:
    evil = member("\x1b[2J[bold]m\u202e", spans=[])
    async with LanesApp(group(members=[evil], group="g\x1b]0;x\x07")).run_test(size=(71, 8)) as pilot:
        await pilot.pause()
        assert not any(set("\x1b\x07\u202e") & set(line) for line in lines(pilot))
        assert "[bold]" in lines(pilot)[2]
