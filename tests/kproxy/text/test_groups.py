"""Groups in text."""

from __future__ import annotations

from datetime import UTC

import pytest

from captures.analysis.groups.model import GroupTimeline, ObservedCoordinator, Span, Stop, TopicPartition
from captures.analysis.groups.vocabulary import Certainty, Phase, Trigger
from captures.names import Names
from kproxy.text.blocks import text_lines
from kproxy.text.groups import GroupText
from tests.captures.analysis.groups.kit import SECOND, at, cause, member, places, rebalance, timeline


def lines(group: GroupTimeline, width: int | None = None, *, show_all: bool = False) -> list[str]:
    text = GroupText(UTC, Names(), show_all=show_all)
    return list(text_lines(text.blocks(group, group.rebalances), width))


def test_a_group() -> None:
    assert lines(timeline(rebalance(cooperative=False))) == [
        "orders  classic group, range, Stable, generation 2, 2 members",
        "    coordinator 10.0.0.1:9092",
        "    time        14:13:20.000 to 14:14:20.000 UTC",
        "    rebalances  1, 3 s in all",
        "",
        "Members",
        "  member  host      assigned    from          to",
        "  m1      10.0.0.9  orders 0-1  14:13:20.000  14:14:20.000",
        "  m2      10.0.0.9  orders 0-1  14:13:30.000  14:14:20.000",
        "",
        "  14:13:30.000  generation 1 → 2  took 3 s  member_joined m2  eager",
        "    m2 joined; all members joined anew.",
        "    evidence    #17 #19",
    ]


def test_what_is_not_all_of_it_is_said() -> None:
    moved = [ObservedCoordinator(at(0), "10.0.0.1:9092", 3), ObservedCoordinator(at(30), "10.0.0.2:9092", 90)]
    text = lines(timeline(seen=["requests of 1 of 3 members were captured"], coordinators=moved))
    assert "    coordinator 14:13:20.000 10.0.0.1:9092, then 14:13:50.000 10.0.0.2:9092" in text
    assert "    seen        requests of 1 of 3 members were captured" in text
    assert text[-1] == "  no rebalance was seen"


def test_doubt_is_beside_the_trigger() -> None:
    told = rebalance(
        causes=[cause(Trigger.UNKNOWN, Certainty.POSSIBLE)], end=None, previous_generation=-1, emptied=True
    )
    assert "  14:13:30.000  generation ? → 2 (now empty)  end not seen  unknown  possible" in lines(
        timeline(told)
    )


def test_what_a_member_does_now() -> None:
    busy = member("m1", spans=[Span(at(50), at(60), Phase.NOT_JOINING, 2, 9)])
    idle = member("m2", spans=[Span(at(0), at(60), Phase.STABLE, 2, 9, places("orders"))])
    gone = member("m3", left=at(20))
    text = lines(timeline(members=[busy, idle, gone]))
    rows = {line.split()[0]: line for line in text if line.startswith("  m")}
    assert rows["m1"].endswith("not joining")
    assert " none " in rows["m2"]
    assert rows["m3"].endswith("14:13:40.000  gone")


def test_what_goes_over_midnight_has_dates() -> None:
    text = lines(timeline(rebalance(begin=12 * 3600, end=12 * 3600 + 1), last=at(13 * 3600)))
    assert any(line.startswith("  2026-09-22 02:13:20.000  generation") for line in text)


def test_a_storm_is_one_block_unless_all_is_shown() -> None:
    storm = [
        rebalance(
            begin=10 + index, end=10.5 + index, previous_generation=index, generation=index + 1, storm=4
        )
        for index in range(4)
    ]
    text = lines(timeline(*storm))
    assert "  14:13:30.000 to 14:13:33.500  generation 0 → 4  storm of 4 rebalances: member_joined m2" in text
    assert "    --all shows each of them" in text
    assert sum("member_joined" in line for line in lines(timeline(*storm), show_all=True)) == 4


@pytest.mark.parametrize("width", [80, 100, 200])
def test_lines_fit_the_terminal(width: int) -> None:
    stops = [
        Stop(TopicPartition(f"topic-with-a-long-name-{number}", 0), number * SECOND, True, 1, 2)
        for number in range(30)
    ]
    told = rebalance(sentence="word " * 60, stopped=stops, evidence=list(range(400)))
    members = [member("a-client-id-that-is-long", subscription=("orders",) * 9)] * 3
    for show_all in (False, True):
        assert max(map(len, lines(timeline(told, members=members), width, show_all=show_all))) <= width


@pytest.mark.usefixtures("colors")
def test_colour_marks_what_is_wrong() -> None:
    told = rebalance(causes=[cause(Trigger.SESSION_TIMEOUT)])
    assert any("\x1b[31m" in line for line in lines(timeline(told)))
    assert not any("\x1b[31m" in line for line in lines(timeline(rebalance())))


def test_names_from_the_wire_cannot_drive_the_terminal() -> None:
    evil = "\x1b]0;x\x07\n"
    told = rebalance(
        group=evil, sentence=evil, causes=[cause(sentence=evil, client=evil), cause(sentence=evil)]
    )
    group = timeline(
        told, group=evil, members=[member(evil, rack=evil, instance=evil)], seen=[evil], protocol=evil
    )
    assert all(line.isprintable() for line in lines(group))


def test_members_beyond_a_screen_are_counted() -> None:
    group = timeline(members=[member(f"m{number}", last=number) for number in range(50)])
    assert "  … 30 more, --all shows them" in lines(group)
    assert any(line.startswith("  m49 ") for line in lines(group))
    assert not any(line.startswith("  m3 ") for line in lines(group))
    assert any(line.startswith("  m3 ") for line in lines(group, show_all=True))
