"""The lanes of members."""

from __future__ import annotations

from captures.analysis.groups.labels import Labels
from captures.export.group_html.picture import PictureRow, lanes
from tests.captures.analysis.groups.kit import at, member, timeline


def drawn(*members: object) -> list[PictureRow]:
    group = timeline(members=list(members))
    return lanes(group, Labels(group))


def crash(first: float, last: float) -> object:
    return member("crash", member=f"id-{first}", first=first, last=last, spans=[])


def test_each_member_has_a_lane_in_the_order_of_appearance() -> None:
    assert [lane.label for lane in drawn(member("b", first=5), member("a", first=1))] == ["a", "b"]


def test_members_of_one_name_that_followed_each_other_share_a_lane() -> None:
    (lane,) = drawn(crash(0, 5), crash(5, 10), crash(12, 20))
    assert lane.label == "crash id-0 +2"
    assert len(lane.members) == 3


def test_members_of_one_name_at_the_same_time_do_not() -> None:
    found = drawn(crash(0, 6), crash(5, 10), crash(7, 20))
    assert [[each.member for each in lane.members] for lane in found] == [["id-0", "id-7"], ["id-5"]]


def test_what_is_in_a_row() -> None:
    (lane,) = drawn(member("m1", first=10, last=20))
    assert lane.within(at(15), at(60))
    assert not lane.within(at(61), at(70))
    assert len(lane.spans(at(0), at(12))) == 1
    assert lane.spans(at(0), at(9)) == []
