"""The view of groups: lanes, stories, members, and where they lead."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from captures.arrays import Int64s
from kproxy.session.folds import SessionFold
from kproxy.tui.views import groups as groups_view
from kproxy.tui.views.groups import Groups
from kproxy.tui.widgets.lanes import Lanes
from tests.kproxy.tui.kit import session_of, settled
from tests.kproxy.tui.views.hosting import PictureApp, column, press, said, shown, table

pytestmark = pytest.mark.slow

GROUPS = Path(__file__).resolve().parents[3] / "data" / "groups"


def lanes(pilot: Pilot[Any]) -> Lanes:
    return pilot.app.query_one(Lanes)


async def test_stories_and_members_of_the_selected_group() -> None:
    async with shown(Groups) as pilot:
        assert column(pilot, "kind") == ["classic"]
        assert column(pilot, "rebalances") == ["8"]
        assert column(pilot, "state") == ["Empty"]
        assert column(pilot, "gen") == ["8"]
        # as the coordinator's log has it: three join in turn, one leaves, one is killed, one joins, all leave
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


async def test_of_many_exchanges_the_clients_of_the_selected_group_are_counted_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(groups_view, "_MANY", 0)
    brought: list[list[int]] = []
    forward = SessionFold.bring_forward

    def bring_forward(folding: SessionFold[Any], numbers: Int64s) -> None:
        brought.append(numbers.tolist())
        forward(folding, numbers)

    monkeypatch.setattr(SessionFold, "bring_forward", bring_forward)
    # as slow as a capture of millions
    monkeypatch.setattr(SessionFold, "progress", property(lambda folding: 0.5))
    async with shown(Groups) as pilot:
        session = pilot.app.query_one(Groups).session
        assert len(brought) == 1
        exchanges = [await session.exchange(number) for number in brought[0]]
        assert {each.client_id for each in exchanges} == {"m1", "m2", "m3", "m4"}
        assert len(exchanges) == 167 + 56 + 55 + 40  # all of theirs, as the view of clients has them
        assert column(pilot, "rebalances") == ["8"]


async def test_lanes_and_stories_go_together() -> None:
    async with shown(Groups) as pilot:
        lanes(pilot).focus()
        await press(pilot, "left", "left", "left")
        assert table(pilot, 1).selected.key == 4  # type: ignore[union-attr]
        assert "m3 was removed" in said(pilot)
        assert "process died" in said(pilot)
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
