"""The view of groups: lanes, stories, members, and their targets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.tui.views.groups import Groups
from kproxy.tui.widgets.group_picture import GroupPicture
from tests.kproxy.tui.kit import session_of, settled
from tests.kproxy.tui.views.hosting import PictureApp, column, press, said, shown, table

pytestmark = pytest.mark.slow

GROUPS = Path(__file__).resolve().parents[3] / "data" / "groups"


def lanes(pilot: Pilot[Any]) -> GroupPicture:
    return pilot.app.query_one(GroupPicture)


async def test_stories_and_members_of_the_selected_group() -> None:
    async with shown(Groups) as pilot:
        assert column(pilot, "kind") == ["classic"]
        assert column(pilot, "rebalances") == ["8"]
        assert column(pilot, "state") == ["Empty"]
        assert column(pilot, "gen") == ["8"]
        # from the coordinator's log: three join in turn, one leaves, one is killed, one joins, all leave
        assert column(pilot, "trigger", 1) == [
            *["member_joined"] * 3,
            "member_left",
            "session_timeout",
            "member_joined",
            *["member_left"] * 2,
        ]
        assert column(pilot, "gen", 1) == [str(generation) for generation in range(1, 9)]
        assert lanes(pilot).cursor == 7
        assert not table(pilot, 2).display
        await press(pilot, "b")
        assert not table(pilot, 1).display
        assert column(pilot, "client", 2) == ["m4", "m3", "m2", "m1"]
        assert column(pilot, "note", 2)[0].startswith("leader, left 09:51:34")


async def test_lanes_and_stories_go_together() -> None:
    async with shown(Groups) as pilot:
        lanes(pilot).focus()
        await press(pilot, "left", "left", "left")
        assert table(pilot, 1).selected.key == 4  # type: ignore[union-attr]
        assert "m3 died and was removed" in said(pilot)
        table(pilot, 1).focus()
        await press(pilot, "home")
        assert lanes(pilot).cursor == 0
        assert "m1 joined" in said(pilot)


async def test_enter_goes_to_the_exchange_that_shows_it() -> None:
    async with shown(Groups) as pilot:
        app: Any = pilot.app
        lanes(pilot).focus()
        await press(pilot, "enter")
        table(pilot, 1).focus()
        await press(pilot, "home", "enter")
        last, first = app.met
        assert first < last
        exchanges = [await app.session.exchange(number) for number in (first, last)]
        assert [each.api for each in exchanges] == ["JoinGroup", "LeaveGroup"]


async def test_stories_are_told_of_everything_whatever_the_filter_shows() -> None:
    async with shown(Groups, wanted="api == JoinGroup") as pilot:
        assert column(pilot, "count") == ["159"]
        assert len(column(pilot, "trigger", 1)) == 8


async def test_what_still_runs_says_so() -> None:
    async with shown(Groups, live=True) as pilot:
        assert len(column(pilot, "trigger", 1)) == 8


@pytest.mark.parametrize("name", ["21_k430_kip848_java", "21_k430_share_group", "21_k430_streams_kip1071"])
async def test_groups_of_all_kinds(name: str) -> None:
    async with shown(Groups, GROUPS / f"{name}.pcap.zst") as pilot:
        assert column(pilot, "trigger", 1)
        assert "unknown" not in column(pilot, "trigger", 1)
        assert lanes(pilot).wanted_height > 4


@pytest.mark.parametrize("size", [(80, 24), (200, 50)], ids=["narrow", "wide"])
def test_how_it_looks(size: tuple[int, int], snap_compare: Any) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)
        lanes(pilot).focus()
        await press(pilot, "left", "left", "left")

    assert snap_compare(PictureApp(session_of(), Groups), terminal_size=size, run_before=before)
