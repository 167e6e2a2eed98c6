"""The exchanges that columns select where a position may not have advanced."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from captures.analysis.decision_columns import DecisionColumns
from captures.analysis.findings.unchanged_positions import StuckPositions
from captures.exchanges.columns import ExchangeColumns
from dissectors.apis import api
from tests.captures.analysis.findings.record_kit import batch
from tests.captures.exchanges.talk import Talk, capture_of, mixed, packets


def talked(talk: Talk, key: int, version: int, request: Any, response: Any) -> None:
    known = api(key)
    assert known is not None
    number = len(talk.messages)
    talk.ask(number, known.request[version].build(request), key=key, version=version)
    talk.answer(known.response[version].build(response))


def committed(talk: Talk, offset: int) -> None:
    asked = {
        "partition_index": 0, "committed_offset": offset, "committed_leader_epoch": -1, "committed_metadata": None,
    }  # fmt: skip
    request = {
        "group_id": "billing", "generation_id_or_member_epoch": 1, "member_id": "m", "group_instance_id": None,
        "topics": [{"name": "orders", "partitions": [asked]}],
    }  # fmt: skip
    told = [{"name": "orders", "partitions": [{"partition_index": 0, "error_code": 0}]}]
    talked(talk, 8, 7, request, {"throttle_time_ms": 0, "topics": told})


def produced(talk: Talk, base: int, count: int) -> None:
    sent = [{"name": "orders", "partition_data": [{"index": 0, "records": batch(count)}]}]
    stored = {
        "index": 0, "error_code": 0, "base_offset": base, "log_append_time_ms": -1, "log_start_offset": 0,
        "record_errors": [], "error_message": None,
    }  # fmt: skip
    response = {
        "responses": [{"name": "orders", "partition_responses": [stored]}],
        "throttle_time_ms": 0,
    }
    request = {"transactional_id": None, "acks": -1, "timeout_ms": 1_000, "topic_data": sent}
    talked(talk, 0, 8, request, response)


@pytest.mark.parametrize(("offset", "chosen"), [(14, [0, 1, 2]), (15, [])])
def test_records_that_are_produced_tell_the_end(offset: int, chosen: list[int], tmp_path: Path) -> None:
    talk = Talk(0)
    produced(talk, 10, 5)
    committed(talk, offset)
    committed(talk, offset)
    capture = capture_of(tmp_path, mixed([packets(talk, Random(1))], Random(1)))
    standing = StuckPositions(DecisionColumns(ExchangeColumns(capture)), times=2)
    assert standing.committed(0).nonzero()[0].tolist() == chosen
    assert not standing.committed(10**18).any()


def test_an_end_that_is_told_later_makes_no_earlier_commit_stand(tmp_path: Path) -> None:
    talk = Talk(0)
    committed(talk, 14)
    committed(talk, 14)
    produced(talk, 10, 5)
    capture = capture_of(tmp_path, mixed([packets(talk, Random(1))], Random(1)))
    standing = StuckPositions(DecisionColumns(ExchangeColumns(capture)), times=1)
    assert not standing.committed(0).any()
    assert not standing.fetched(0).any()
