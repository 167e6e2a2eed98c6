"""All views of a group agree: the command, the UI's list and stories, the tables, filters and journeys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from captures.analysis.groups.facts import members_now
from captures.analysis.groups.model import GroupTimeline
from captures.analysis.groups.vocabulary import Kind, Phase
from captures.analysis.incidents.history import IncidentHistories
from captures.exchanges import ExchangeReader, open_capture
from captures.filters.groups import GroupInference
from captures.json_objects import to_json
from captures.tables.whole_rows import WholeTables
from kproxy.cli import main
from kproxy.tui.views.groups import GroupDetail, Groups
from kproxy.tui.widgets.table_rows import text_of
from tests.captures.analysis.groups.truth import FOLDER
from tests.kproxy.tui.kit import read_session

RECORDINGS = sorted(FOLDER.glob("*.pcap*"))
TITLES = [column.title for column in Groups.COLUMNS]


class RecordingResults(NamedTuple):
    """The timelines of a recording, the state of filters, and its table of rebalances."""

    path: Path
    timelines: list[GroupTimeline]
    inference: GroupInference
    rows: list[dict[str, Any]]


@pytest.fixture(scope="module", params=RECORDINGS, ids=lambda path: str(path.name).partition(".")[0])
def recording(request: pytest.FixtureRequest) -> RecordingResults:
    """Each recording, read once for all comparisons."""
    return told(request.param)


def told(path: Path) -> RecordingResults:
    """Read a recording."""
    capture = open_capture(str(path))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    reader.learn(len(reader))
    names = reader.knowledge.topic_name
    histories, inference = IncidentHistories(names, capture), GroupInference(names)
    tables = WholeTables(capture, names, ["rebalances"], run=0)
    for exchange in reader:
        histories.add(exchange)
        inference.observe(exchange)
        tables.add(exchange)
    rows = dict(tables.batches()).get("rebalances")
    return RecordingResults(path, histories.result(), inference, [] if rows is None else rows.to_pylist())


@pytest.mark.sample(1)
def test_command_and_tables_tell_the_rebalances_of_the_timelines(recording: RecordingResults) -> None:
    path, timelines, _, rows = recording
    assert any(timeline.members for timeline in timelines)
    stories = sorted(
        (story for timeline in timelines for story in timeline.rebalances), key=lambda story: story.time
    )
    printed = CliRunner().invoke(main, ["groups", "--json", str(path)])
    assert printed.exit_code in (0, 3)  # 3: the output has gaps
    assert [json.loads(line) for line in printed.stdout.splitlines()] == [
        json.loads(json.dumps(to_json(story))) for story in stories
    ]
    assert Counter(
        (row["group"], row["generation"], row["trigger"], row["size"], tuple(row["members"] or ()))
        for row in rows
    ) == Counter(
        (
            story.group,
            None if story.generation < 0 else story.generation,
            story.trigger,
            story.size,
            tuple(story.members),
        )
        for story in stories
    )


@pytest.mark.sample(1)
async def test_the_list_and_the_stories_of_the_ui_tell_the_timelines(recording: RecordingResults) -> None:
    timelines = recording.timelines
    async with read_session(recording.path) as session:
        view = Groups(session)
        view.on_shown()
        await session.idle()
        rows = {row.key: row for row in await view._folding.read(view.rows)}
        for timeline in timelines:
            cells = [text_of(cell) for cell in rows["", timeline.group].cells]
            of = dict(zip(TITLES, cells, strict=True))
            assert of["kind"] == timeline.kind
            assert of["state"] == timeline.state
            assert int(of["members"] or 0) == members_now(timeline)
            assert int(of["rebalances"] or 0) == len(timeline.rebalances)
            assert of["gen"] == ("" if timeline.generation < 0 else f"{timeline.generation}")
            detail = await view._folding.read(
                lambda fold, access, key=("", timeline.group): view.detail(fold, access, key)
            )
            assert isinstance(detail, GroupDetail)
            stories, members = detail.tables
            assert [text_of(row.cells[5]) for row in stories] == [
                each.sentence for each in timeline.rebalances
            ]
            assert {row.key for row in members} == {member.member for member in timeline.members}
        view.on_hidden()


@pytest.mark.sample(1)
def test_filters_and_journeys_know_the_partitions_that_members_have(recording: RecordingResults) -> None:
    _, timelines, inference, _ = recording
    for timeline in timelines:
        for member in timeline.members:
            had = {
                place
                for span in member.spans
                if span.phase is Phase.STABLE and timeline.kind is not Kind.STREAMS
                for place in span.assigned or ()
            }
            last = member.spans[-1].assigned if member.spans else None
            if not member.connections or member.left is not None or timeline.kind is Kind.STREAMS:
                continue
            client = member.client if member.client != member.host else None
            by_client = inference._assigned.get(((client, member.host), timeline.group), set())
            if not member.former:  # another process may have had the partitions of a static member
                assert had <= by_client
            for place in last or ():
                assert inference.member_of(timeline.group, client, member.host, place) == member.member


def test_tasks_of_streams_members_are_partitions_of_the_topics_they_read() -> None:
    _, timelines, inference, _ = told(FOLDER / "21_k430_streams_kip1071.pcap.zst")
    (timeline,) = [timeline for timeline in timelines if timeline.kind is Kind.STREAMS]
    member = next(member for member in timeline.members if member.spans[-1].assigned)
    known = inference._assigned[(member.client, member.host), timeline.group]
    tasks = {task.partition for span in member.spans for task in span.assigned or ()}
    assert {partition for _, partition in known} == tasks
    sources = {topic for topic, _ in known if not topic.endswith("-repartition")}
    assert sources == {*member.subscription}
