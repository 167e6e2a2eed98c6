"""Records of journeys in a broker's log, against the dump of Kafka's own tool."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from captures.analysis.journey.hops import hops
from captures.analysis.journey.model import Journey, LogPlace
from captures.analysis.journey.record_query import RecordQuery
from captures.analysis.journey.stored_records import unseen, with_logs
from captures.log_segments import LogSurvey, partition_logs
from dissectors.records import Record
from tests.kafka_dumps import dumped

DATA = Path(__file__).parents[3] / "data" / "log_segments"


def _journey(offset: int | None, record: Record | None = None) -> Journey:
    [journey] = unseen(RecordQuery("prices", 0, 0))
    return replace(journey, offset=offset, record=record)


def _places(offset: int | None, folder: Path, record: Record | None = None) -> list[LogPlace]:
    surveys = [LogSurvey(log) for log in partition_logs([str(folder)])]
    [journey] = with_logs([_journey(offset, record)], surveys)
    return journey.logs


def test_every_record_is_found_where_kafkas_tool_has_it() -> None:
    surveys = [LogSurvey(log) for log in partition_logs([str(DATA / "prices-0")])]
    there = {
        record.offset: (batch.file, int(batch.fields["position"]))
        for batch in dumped((DATA / "prices-0.dump").read_text())
        for record in batch.records
    }
    # journeys are in the order of the output
    for offset, journey in zip(
        reversed(range(580)), with_logs([*map(_journey, reversed(range(580)))], surveys), strict=True
    ):
        [place] = journey.logs
        assert place.absent == (offset not in there)
        if not place.absent:
            assert place.file is not None
            found = "/".join(Path(place.file).parts[-2:]), place.position
            assert found == there[offset]
            assert not place.reason
        else:
            before, after = offset < 113, offset > 566
            assert ("first batch" if before else "ends before" if after else "compaction") in place.reason


def test_what_is_not_known_is_said_to_be_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "prices-0"
    shutil.copytree(DATA / "prices-0", folder)
    segment = folder / "00000000000000000339.log"
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1  # the checksum of the last batch no longer matches
    segment.write_bytes(content)
    [damaged] = _places(500, folder)
    assert damaged.absent is None
    assert "damaged" in damaged.reason
    assert _places(None, folder)[0].absent is None
    assert not with_logs([_journey(466)], [])[0].logs


def test_another_record_at_the_offset_is_told() -> None:
    [place] = _places(467, DATA / "prices-0", Record(467, 0, b"other", b"record"))
    assert place.absent is False
    assert "another record" in place.reason
    surveys = [LogSurvey(log) for log in partition_logs([str(DATA / "prices-0")])]
    [journey] = with_logs([_journey(467)], surveys)
    [hop] = hops(journey)
    assert hop.name == "in the log"
    assert "byte" in hop.text
