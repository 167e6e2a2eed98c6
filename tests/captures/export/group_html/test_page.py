"""The page: its content and completeness, and that nothing from a capture becomes markup."""

from __future__ import annotations

import re
from datetime import UTC
from html.parser import HTMLParser
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree

import pytest

from captures.analysis.groups.model import (
    AwaitedMember,
    CommitFailure,
    GroupTimeline,
    ObservedCoordinator,
    Rebalance,
    Span,
)
from captures.analysis.groups.vocabulary import Phase, Trigger
from captures.export.group_html import page
from captures.export.group_html.picture import MOST_LANES
from captures.export.markup import Markup, on_lines, tag, together
from captures.names import Names
from tests.captures.analysis.groups.kit import at, cause, member, places, rebalance, timeline

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"><script>alert(1)</script>\x1b[31m\u202e&amp;'"


class Tags(HTMLParser):
    """Checks that every element is closed, and collects the elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def written(*told: GroupTimeline, **options: Any) -> str:
    return page(
        [(each, each.rebalances) for each in told], names=Names(), zone=UTC, source="x.pcap", **options
    )


def parsed(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    assert found.open == []
    return found


def pictures(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def classes(picture: ElementTree.Element) -> list[str]:
    return [name for each in picture.iter() if (name := each.get("class"))]


def joined() -> GroupTimeline:
    m1 = member(
        "m1",
        spans=[
            Span(at(0), at(10), Phase.STABLE, 1, 3, places("orders", 0, 1)),
            Span(at(10), at(13), Phase.JOINING, 2, 19),
            Span(at(13), at(60), Phase.STABLE, 2, 20, places("orders", 0)),
        ],
    )
    m2 = member(
        "m2",
        first=10,
        left=at(60),
        spans=[
            Span(at(10), at(13), Phase.JOINING, 2, 17),
            Span(at(13), at(50), Phase.STABLE, 2, 21, places("orders", 1)),
            Span(at(50), at(60), Phase.SILENT, 2, 40),
        ],
    )
    failure = CommitFailure(55, at(11), "m1-id", 27, "REBALANCE_IN_PROGRESS")
    return timeline(rebalance(commit_failures=[failure]), members=[m1, m2])


def test_the_page_is_whole_and_stands_alone() -> None:
    found = parsed(written(joined()))
    assert not {name for name, _ in found.seen} & {"script", "link", "img", "iframe", "object"}
    for _, attributes in found.seen:
        assert (attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in written(joined())


def test_what_members_did_is_in_their_lanes() -> None:
    (picture,) = pictures(written(joined()))
    found = classes(picture)
    assert [found.count(name) for name in ("stable", "joining", "silent", "band", "cause", "fail")] == [
        *(3, 2, 1),
        *(1, 1, 1),
    ]
    texts = [each.text for each in picture.iter(f"{SVG}text") if each.get("class") == "has"]
    assert texts == ["0-1", "0", "1"]
    labels = [each[0].tail for each in picture.iter(f"{SVG}text") if each.get("class") == "label"]
    assert labels == ["m1", "m2"]


def test_boxes_are_where_their_time_is() -> None:
    (picture,) = pictures(written(joined()))
    left, width = 165, 960
    boxes = [
        (float(each.attrib["x"]), float(each.attrib["width"]))
        for each in picture.iter(f"{SVG}rect")
        if each.get("class") == "joining"
    ]
    assert boxes == [pytest.approx((left + width / 6, 3 / 60 * width), abs=0.1)] * 2


def test_numbers_lead_to_stories() -> None:
    text = written(joined())
    places_ = {attributes["id"] for _, attributes in parsed(text).seen if "id" in attributes}
    links = {attributes["href"] for name, attributes in parsed(text).seen if name == "a"}
    assert links
    assert {link.removeprefix("#") for link in links if link} <= places_


def test_the_story_is_told() -> None:
    text = written(joined())
    for said in (
        "m2 joined; all members joined anew.",
        "1. member_joined m2",
        "14:13:30.000 generation 1 → 2, took 3 s",
        "REBALANCE_IN_PROGRESS",
        "Commits that failed",
        "partitions of orders",
    ):
        assert said in text


def test_a_running_rebalance_is_open_to_the_end() -> None:
    running = rebalance(begin=50, end=None, running=True, awaited=[AwaitedMember("m2-id", "m2", at(50))])
    text = written(timeline(running))
    (picture,) = pictures(text)
    (band,) = [each for each in picture.iter(f"{SVG}rect") if each.get("class") == "band running"]
    assert float(band.attrib["width"]) == pytest.approx(160, abs=1)
    assert "has not ended after 10 s" in text


def test_a_coordinator_that_moved_is_marked() -> None:
    moved = [ObservedCoordinator(at(0), "10.0.0.1:9092", 3), ObservedCoordinator(at(30), "10.0.0.2:9092", 90)]
    text = written(timeline(rebalance(), coordinators=moved))
    assert "coordinator" in classes(pictures(text)[0])
    assert "then 14:13:50.000 10.0.0.2:9092" in text


def test_storms_are_folded_and_all_of_them_are_there() -> None:
    storm = [
        rebalance(begin=10 + index, end=10.5 + index, storm=5, causes=[cause(client="crash")])
        for index in range(5)
    ]
    found = parsed(written(timeline(*storm)))
    assert sum(name == "details" for name, _ in found.seen) == 1
    assert sum(name == "article" for name, _ in found.seen) == 5


def test_quiet_hours_are_folded() -> None:
    day = 24 * 3600
    told = [rebalance(begin=hour * 3600, end=hour * 3600 + 3) for hour in range(1, 24)]
    lanes = [member("m1", last=day, spans=[Span(at(0), at(day), Phase.STABLE, 1, 1, places("orders", 0))])]
    text = written(timeline(*told, members=lanes, last=at(day)))
    found = pictures(text)
    assert len(found) > 1
    assert sum(classes(each).count("fold") for each in found) == 24
    assert "2026-09-22 14:13:20.000" in text  # spans over midnight show dates


def test_a_picture_of_part_of_the_time() -> None:
    (picture,) = pictures(written(joined(), begin=at(30), end=at(55)))
    assert picture.get("aria-label") == "14:13:50.000 to 14:14:15.000"
    assert "joining" not in classes(picture)


def test_nothing_of_a_capture_becomes_markup() -> None:
    hostile = cause(Trigger.MEMBER_LEFT, sentence=HOSTILE, member=HOSTILE, client=HOSTILE)
    told = rebalance(
        group=HOSTILE,
        causes=[hostile],
        sentence=HOSTILE,
        alternatives=[HOSTILE],
        protocol=HOSTILE,
        commit_failures=[CommitFailure(1, at(1), HOSTILE, 27, HOSTILE)],
    )
    evil = member(
        HOSTILE,
        member=HOSTILE,
        host=HOSTILE,
        instance=HOSTILE,
        rack=HOSTILE,
        subscription=(HOSTILE,),
        spans=[Span(at(0), at(60), Phase.STABLE, 1, 1, places(HOSTILE, 0))],
    )
    text = page(
        [(timeline(told, group=HOSTILE, members=[evil], seen=[HOSTILE], protocol=HOSTILE), [told])],
        names=Names(),
        zone=UTC,
        source=HOSTILE,
    )
    found = parsed(text)
    assert "script" not in {name for name, _ in found.seen}
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert pictures(text)


def test_groups_without_anything() -> None:
    empty = GroupTimeline(group="silent", kind=timeline().kind)
    text = written(empty, joined())
    parsed(text)
    assert "No rebalance was seen." in text
    assert "No group was seen" in page([], names=Names(), zone=UTC, source="x.pcap")


def test_markup_escapes() -> None:
    assert tag("b", "<i>", tag("i", "&"), title='"') == '<b title="&#34;">&lt;i&gt;<i>&amp;</i></b>'
    assert tag("rect", x=1.25, width=2.0, class_="a", rx=None) == '<rect x="1.2" width="2" class="a"></rect>'
    assert together("a\tb\nc") == Markup("a\ufffdb\ufffdc")
    assert on_lines(["<a>", "b\nc"]) == Markup("&lt;a&gt;\nb\ufffdc")


@pytest.mark.slow
def test_of_members_by_the_hundred_those_are_drawn_to_whom_something_happened() -> None:
    many = [member(f"m{number}") for number in range(300)]
    told: list[Rebalance] = [
        rebalance(
            begin=second / 10, end=second / 10 + 0.01, causes=[cause(member="m299-id", time=at(second / 10))]
        )
        for second in range(500)
    ]
    text = written(timeline(*told, members=many))
    parsed(text)
    for each in pictures(text):
        labels = [text[0].tail for text in each.iter(f"{SVG}text") if text.get("class") == "label"]
        assert len(labels) == MOST_LANES
        assert labels[-1] == "m299"
        assert "+ 240 more members" in [text.text for text in each.iter(f"{SVG}text")]


# a letter takes 5.7 units: a twelfth of the row for a time with milliseconds, a seventh for one with its date
@pytest.mark.parametrize("length", [1.304, 86_400 * 1.1])
def test_times_do_not_run_into_each_other(length: float) -> None:
    told = timeline(
        rebalance(begin=length * 0.1, end=length * 0.9),
        members=[member(last=length)],
        first=at(0),
        last=at(length),
    )
    svg = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", written(told), re.DOTALL)[0])
    times = [each for each in svg.iter(f"{SVG}text") if each.get("class") == "time"]
    assert len(times) > 5
    ends = [(float(each.get("x", 0)), 5.7 * len(each.text or "") / 2) for each in times]
    assert all(x + half <= later - its_half for (x, half), (later, its_half) in pairwise(ends))
