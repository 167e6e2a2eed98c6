from __future__ import annotations

import ast
import subprocess
import sys
from random import Random

import pytest

from captures.interventions import comment_content
from dissectors import wire
from dissectors.apis import NAMES
from kproxy.proxy.rules import Inspection
from kproxy.proxy.verdicts import UNCHANGED, Ending, Frame, Verdict
from tests.kproxy.proxy.rules.frames import FETCH, PEERS, SECOND, Clock, request, response


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def inspection(clock: Clock) -> Inspection:
    return Inspection(clock, Random("inspection"))


@pytest.fixture
def fetch() -> Frame:
    return request("Fetch", 4, FETCH)


def test_active_follows_rules_and_holds(inspection: Inspection, clock: Clock) -> None:
    assert not inspection.active
    inspection.rules.add("api == Fetch => drop, for=5s")
    assert inspection.active
    inspection.holds.set_filter("api == Metadata")
    clock.forward(5)
    inspection.tick(clock())
    assert inspection.active
    inspection.holds.clear_filter()
    assert not inspection.active


def test_what_is_wanted_is_what_either_wants(inspection: Inspection) -> None:
    inspection.rules.add("api == Fetch => drop")
    inspection.holds.set_filter("response: api == Heartbeat")
    requests = {key for key in range(len(NAMES)) if inspection.wants("request", key, 0, PEERS)}
    responses = {key for key in range(len(NAMES)) if inspection.wants("response", key, 0, PEERS)}
    assert (requests, responses) == ({1, 12}, {12})


def test_names_are_learned_while_a_filter_asks_for_topics(inspection: Inspection) -> None:
    inspection.rules.add("api == Fetch and topic == orders => drop")
    assert inspection.wants("response", 3, 12, PEERS)
    topic_id = wire.uuid_text(bytes(range(16)))
    told = {"topics": [{"name": "orders", "topic_id": topic_id, "partitions": []}], "brokers": []}
    assert inspection.decide(response("Metadata", 12, told)) is UNCHANGED
    body = FETCH | {"topics": [{"topic_id": topic_id, "partitions": [{"partition": 0}]}]}
    assert inspection.decide(request("Fetch", 13, body)).ending is Ending.CLOSE


def test_what_was_held_is_looked_at_by_the_rules_as_it_goes_on(
    inspection: Inspection, fetch: Frame, clock: Clock
) -> None:
    inspection.holds.set_filter("api == Fetch")
    inspection.rules.add("topic == other => delay 1s")
    released: list[Verdict] = []
    for number, changes in ((1, None), (2, {"topics[0].topic": "other"})):
        hold = inspection.decide(fetch).hold
        assert hold is not None
        hold.release = released.append
        if changes is None:
            inspection.holds.release(number)
        else:
            inspection.holds.edit(number, changes=changes)
    plain, edited = released
    assert (plain.delay, plain.data) == (0, None)
    assert edited.delay == SECOND
    assert edited.data is not None
    held, ruled = map(comment_content, edited.comments)
    assert held is not None
    assert ruled is not None
    assert held.released_by == "edited"
    assert ruled.action == "delayed by 1s"


def test_nobody_is_there_any_more(inspection: Inspection, fetch: Frame) -> None:
    inspection.rules.add("api == Fetch => delay 1s")
    inspection.holds.set_filter("api == Fetch")
    hold = inspection.decide(fetch).hold
    assert hold is not None
    released: list[Verdict] = []
    hold.release = released.append
    inspection.release_all()
    assert len(released) == 1
    said = comment_content(released[0].comments[0])
    assert said is not None
    assert said.released_by == "detached"
    assert inspection.decide(fetch).hold is None
    assert inspection.active  # rules still apply


def test_a_hold_is_released_by_the_tick(inspection: Inspection, fetch: Frame, clock: Clock) -> None:
    inspection.holds.set_filter("api == Fetch")
    hold = inspection.decide(fetch).hold
    assert hold is not None
    released: list[Verdict] = []
    hold.release = released.append
    clock.forward(24)
    inspection.tick(clock())
    assert len(released) == 1


@pytest.mark.slow
def test_importing_the_package_costs_the_data_plane_nothing() -> None:
    source = (
        "import sys, kproxy.proxy.rules\n"
        "print([name for name in sys.modules if name.startswith(('numpy', 'captures.', 'click', 'textual'))])"
    )
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    light = {
        "captures.interventions",
        "captures.json_objects",
        "captures.time_format",
    }  # the standard library and msgspec
    assert set(ast.literal_eval(done.stdout)) <= light
