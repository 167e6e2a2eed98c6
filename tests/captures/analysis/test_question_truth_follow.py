"""The answers of ``kproxy follow`` about a client, against the client's own notes (``question_truth``)."""

from __future__ import annotations

import json
import re
from datetime import datetime
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from tests.captures.analysis.question_truth import CRASH, JOURNEYS, RETRIES, TRANSACTIONS, truth

ALL = [JOURNEYS, RETRIES, TRANSACTIONS, CRASH]
PARTIES = [(name, worker) for name in ALL for worker in truth(name).workers]
Line = dict[str, Any]

_RECORDS = re.compile(r"([\d,]+) records?\b")
_ENDED = re.compile(r"(\d+) transactions? of (\S+) (committed|aborted)")


@cache
def log(name: str, worker: str) -> tuple[Line, list[Line]]:
    """Return the party and the lines of its log."""
    ran = CliRunner().invoke(main, ["follow", worker, "--json", truth(name).path])
    assert ran.exit_code == 0, ran.output
    party, *lines = (json.loads(line) for line in ran.stdout.splitlines())
    return party, lines


def of(name: str, worker: str, *what: str) -> list[Line]:
    return [each for each in log(name, worker)[1] if each["what"] in what]


def records(lines: list[Line]) -> int:
    found = (_RECORDS.search(each["text"]) for each in lines)
    return sum(int(each[1].replace(",", "")) for each in found if each)


def micros(line: Line, key: str = "time") -> int:
    whole, _, fraction = line[key].removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * 1_000_000 + int(fraction[:6])


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "worker"), PARTIES)
def test_it_is_this_client_and_nobody_else(name, worker):
    party, lines = log(name, worker)
    settings = truth(name).workers[worker].settings
    group, transactional = truth(name).workers[worker].group, settings.get("transactional.id")
    assert party["client_ids"] == [worker]
    assert party["groups"] == ([] if group is None else [group])
    if transactional is not None:
        assert party["transactional_ids"] == [transactional]
    assert {each["client"] for each in lines} <= {worker, None}


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "worker"), PARTIES)
def test_its_log_is_in_the_order_of_time_and_begins_with_a_connection_before_its_first_record(name, worker):
    _, lines = log(name, worker)
    mine = [each for each in truth(name).events if each["who"] == worker]
    first = next((each["t"] for each in mine if each["what"] in ("sent", "received")), None)
    assert lines[0]["what"] == "connection_opened"
    assert first is None or micros(lines[0]) < first
    assert lines[-1]["what"] == "end"
    assert [micros(each) for each in lines] == sorted(map(micros, lines))


@pytest.mark.parametrize(("name", "worker"), PARTIES)
def test_it_fetched_no_fewer_records_than_its_application_had_and_as_many_where_nothing_was_aborted(
    name, worker
):
    received = [each for each in truth(name).events if (each["who"], each["what"]) == (worker, "received")]
    fetched = records(of(name, worker, "fetches"))
    assert fetched >= len(received)
    if name in (JOURNEYS, CRASH):
        assert fetched == len(received)


@pytest.mark.parametrize(("name", "worker"), [each for each in PARTIES if each[0] != RETRIES])
def test_it_produced_as_many_records_as_its_application_sent(name, worker):
    # aborted records may never have been sent
    sent = [each for each in truth(name).written.values() if each.worker == worker]
    assert records(of(name, worker, "produces")) == len(sent)


@pytest.mark.parametrize("worker", [each for name, each in PARTIES if name == TRANSACTIONS])
def test_its_transactions_ended_as_it_says(worker):
    told = {"committed": 0, "aborted": 0}
    for line in of(TRANSACTIONS, worker, "transaction"):
        found = _ENDED.search(line["text"])
        assert found, line["text"]
        told[found[3]] += int(found[1])
    ends = [each.end for (who, _), each in truth(TRANSACTIONS).transactions.items() if who == worker]
    assert told == {"committed": ends.count("commit"), "aborted": ends.count("abort")}


@pytest.mark.parametrize("worker", [each for name, each in PARTIES if name == CRASH])
def test_a_crash_is_told_from_an_orderly_end(worker):
    (end,) = of(CRASH, worker, "end")
    killed = truth(CRASH).moments(worker, "SIGKILL")
    assert ("did not leave its group" in end["text"]) is bool(killed)
    if killed:
        closed = of(CRASH, worker, "connection_closed")
        last = micros(closed[-1])
        assert abs(last - killed[0]) < 1_000_000
        # kafka-python and librdkafka close their bootstrap connection
        assert sum(last - micros(each) < 1_000_000 for each in closed) >= 2
        assert end["certainty"] == "inferred"
    elif truth(CRASH).workers[worker].group:
        assert len(of(CRASH, worker, "leave")) == 1


@pytest.mark.parametrize("worker", ["java-idem", "java-plain", "rd-idem", "kp-plain"])
def test_a_broker_that_stands_still_and_dies_is_seen_as_requests_without_an_answer_and_closed_connections(
    worker,
):
    happened = truth(RETRIES)
    (stopped,), (goes_on,) = happened.moments("broker", "SIGSTOP"), happened.moments("broker", "SIGCONT")
    (killed,), (started,) = happened.moments("broker", "SIGKILL"), happened.moments("broker", "started")
    silent = of(RETRIES, worker, "unanswered")
    assert any(stopped - 1_000_000 < micros(each) < goes_on for each in silent)
    closed = of(RETRIES, worker, "connection_closed")
    assert any(stopped < micros(each) < goes_on for each in closed)
    assert any(killed - 100_000 < micros(each) < started for each in closed)


def test_a_seek_and_a_reset_are_told_where_they_happened():
    (skipped,) = truth(JOURNEYS).moments("seeker", "skipped")
    moves = of(JOURNEYS, "seeker", "position_back", "position_ahead")
    assert moves
    assert all(skipped < micros(each) < skipped + 1_000_000 for each in moves)
    for quiet in ("java-taker", "rd-taker", "kp-taker"):
        assert not of(JOURNEYS, quiet, "position_back", "position_ahead")
