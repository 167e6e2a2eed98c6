"""Questions about recordings that begin in the middle: the answers are shorter, but still true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from tests.captures.analysis.groups.cut import cut
from tests.captures.analysis.question_truth import (
    CRASH,
    FOLDER,
    JOURNEYS,
    RETRIES,
    SETTINGS,
    TRANSACTIONS,
    Place,
    truth,
)
from tests.captures.analysis.test_question_truth_clients import near, plain, visible
from tests.captures.analysis.test_question_truth_journey import offsets, place

PARTS = [(name, part) for name in (JOURNEYS, RETRIES, TRANSACTIONS, CRASH) for part in (0.3, 0.5, 0.7)]


def asked(*arguments: str) -> str:
    ran = CliRunner().invoke(main, list(arguments))
    assert ran.exit_code in (0, 3), ran.output
    return ran.stdout


@pytest.fixture
def later(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The rest of a recording from some part of its time on."""
    name, part = request.param
    times = [each["t"] for each in truth(name).events] or [0]
    since = times[0] + (times[-1] - times[0]) * part
    return cut(str(FOLDER / name), tmp_path / "later.pcapng", since=since / 1_000_000)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("name", "later"), [(each[0], each) for each in PARTS], indirect=["later"])
def test_each_hop_that_is_told_of_a_record_happened(name, later):
    happened = truth(name)
    told = json.loads(asked("journey", "--all", "--json", "--contains", "value of", later))["journeys"]
    places = {where: key for key, stored in happened.stored.items() for where in stored}
    compared = 0
    for journey in told:
        # a topic whose name came before the cut goes by its ID
        if journey["offset"] is not None and journey["topic"].startswith("t-"):
            key = places[place(journey)]
            check_groups(name, journey)
            check_transaction(name, journey, key)
            assert {each["client"] for each in journey["attempts"]} <= {happened.written[key].worker}
            compared += 1
    assert compared or name in (JOURNEYS, TRANSACTIONS)  # whose last records come early


def check_groups(name: str, journey: dict[str, Any]) -> None:
    for stop in journey["groups"]:
        had = truth(name).received.get(stop["group"], {})
        clients = {each.worker for each in had.get(place(journey), ())}
        aborted = stop["group"] in (None, "g-java-committed", "g-rd-committed", "g-copier")
        assert aborted or {each["client"] for each in stop["deliveries"]} <= clients
        if stop["commit"] is not None:
            assert stop["commit"]["offset"] > journey["offset"]


def check_transaction(name: str, journey: dict[str, Any], key: str) -> None:
    record, told = truth(name).written[key], journey["transaction"]
    if record.transaction is None:
        assert told is None
    elif told is not None and told["committed"] is not None:
        assert told["committed"] is truth(name).committed(record)


@pytest.mark.parametrize(
    "later", [(JOURNEYS, 0.3), (JOURNEYS, 0.5), (CRASH, 0.3), (CRASH, 0.5)], indirect=True
)
def test_nothing_is_said_to_be_skipped_or_delivered_again_that_was_not(later, request):
    name, _ = request.node.callspec.params["later"]
    happened = truth(name)
    waits = json.loads(asked("journey", "--json", "--topic", happened.topic, later))["waits"]
    everything = {each.place for each in happened.written.values()}
    for group in waits["groups"]:
        had: dict[Place, Any] = happened.received.get(group["group"], {})
        again = {where for where, received in had.items() if len(received) > 1}
        if group["group"] is not None:
            assert offsets(group["delivered_again"]) <= again
            assert offsets(group["skipped"]) <= everything - set(had)


@pytest.mark.sample(2)
@pytest.mark.parametrize(("name", "later"), [(each[0], each) for each in PARTS], indirect=["later"])
def test_parties_can_be_followed(name, later):
    clients = {each["client_id"] for each in json.loads(asked("clients", "--json", later))["clients"]}
    assert clients
    for client in clients & set(truth(name).workers):
        party, *lines = map(json.loads, asked("follow", client, "--json", later).splitlines())
        assert party["client_ids"] == [client]
        assert lines[-1]["what"] == "end"


@pytest.mark.parametrize("later", [(SETTINGS, 0.4), (SETTINGS, 0.7)], indirect=True)
def test_settings_that_are_still_told_are_right(later):
    known = 0
    for client in json.loads(asked("clients", "--settings", "--json", later))["clients"]:
        told = {each["key"]: each for each in client["settings"]}
        told |= {each["name"]: each for each in client["settings"]}
        for key, value in visible(client["client_id"]).items():
            setting = told.get(key)
            if setting is None or setting["how"] == "not seen" or key.replace("_", ".") == "batch.size":
                continue
            known += 1
            if setting["how"] == "read":
                assert plain(setting["text"]) == plain(value), (client["client_id"], key)
            elif plain(value).isdigit():
                worker = truth(SETTINGS).workers[client["client_id"]]
                assert setting["value"] == near(worker, key, int(value)), (worker.name, key)
    assert known > 30
