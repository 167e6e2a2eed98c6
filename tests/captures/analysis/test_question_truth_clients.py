"""The reconstruction of ``kproxy clients --settings``, against the actual settings of clients of five libraries."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from tests.captures.analysis.groups import truth as groups
from tests.captures.analysis.question_truth import (
    CRASH,
    JOURNEYS,
    RETRIES,
    SETTINGS,
    TRANSACTIONS,
    Worker,
    truth,
)

WORKERS = truth(SETTINGS).workers
#: they do not affect the wire as long as nothing goes wrong
INVISIBLE = {"auto.offset.reset", "delivery.timeout.ms"}
#: tolerance of estimates: a busy client is late
TOLERANCE = 0.1
#: back-offs are randomly up to a fifth longer or shorter (KIP-580), and the request itself takes time
BACK_OFF = 0.5
#: librdkafka 2.16 sends heartbeats when it wakes up: 1.3 s become 1.34 and 1.66 alternately, or have no rhythm at all
LATE_MS = 500


@cache
def read(path: str) -> dict[str, dict[str, Any]]:
    ran = CliRunner().invoke(main, ["clients", "--settings", "--json", path])
    assert ran.exit_code in (0, 3), ran.output
    return {each["client_id"]: each for each in json.loads(ran.stdout)["clients"]}


def clients() -> dict[str, dict[str, Any]]:
    return read(truth(SETTINGS).path)


def told(name: str) -> dict[str, dict[str, Any]]:
    """Return the settings of a client by name, in Java's notation and in its library's."""
    settings = clients()[name]["settings"]
    return {each["key"]: each for each in settings} | {each["name"]: each for each in settings}


def plain(text: str) -> str:
    """Return a value without its unit, as a number where possible."""
    number = text.removesuffix("ms")
    return number if number.isdigit() else text.lower()


def late(worker: Worker, key: str) -> bool:
    return worker.library.startswith("librdkafka") and key == "heartbeat.interval.ms"


def near(worker: Worker, key: str, value: int) -> Any:
    """Return a value to compare with an estimate."""
    if late(worker, key):
        return pytest.approx(value + LATE_MS / 2, abs=LATE_MS / 2)
    return pytest.approx(value, rel=BACK_OFF if "backoff" in key else TOLERANCE, abs=10)


def visible(name: str) -> dict[str, str]:
    settings = WORKERS[name].settings
    return {key: value for key, value in settings.items() if key.replace("_", ".") not in INVISIBLE}


def test_all_clients_are_there_with_their_library_and_its_release():
    assert set(clients()) == set(WORKERS)
    for name, worker in WORKERS.items():
        library, release = worker.library.replace(",", "").split()[:2]
        found = clients()[name]["library"]
        assert (found["name"], found["release"], found["told"]) == (library, release, True), name


def test_what_they_do_is_told():
    roles = {
        name: {"produce": "producer", "consume": "consumer"}[each.role] for name, each in WORKERS.items()
    }
    assert {name: each["roles"] for name, each in clients().items()} == {
        name: [role] for name, role in roles.items()
    }


@pytest.mark.parametrize("name", WORKERS)
def test_each_setting_is_reconstructed_or_said_to_be_no_more_than_a_bound(name):
    for key, value in visible(name).items():
        setting = told(name)[key]
        if late(WORKERS[name], key) and setting["how"] == "not seen":
            continue
        if setting["how"] == "read":
            assert plain(setting["text"]) == plain(value), key
        elif key.replace("_", ".") == "batch.size":
            assert setting["value"] <= int(value)
            assert setting["at_least"] is True
        elif plain(value).isdigit():
            assert setting["how"] == "estimated", key
            assert setting["value"] == near(WORKERS[name], key, int(value)), key
        elif setting["value"] is not None:
            assert plain(setting["text"]) == plain(value), key


@pytest.mark.parametrize("name", WORKERS)
def test_what_is_read_has_exchanges_to_look_at(name):
    for setting in clients()[name]["settings"]:
        if setting["how"] == "not seen":
            assert setting["value"] is None
            assert setting["note"], setting["key"]
        elif setting["key"] != "client.id":
            assert setting["exchanges"], setting["key"]


@pytest.mark.parametrize("name", [name for name, each in WORKERS.items() if each.role == "consume"])
def test_of_consumers_all_that_was_set_is_told(name):
    seen = {key for key in visible(name) if told(name)[key]["how"] != "not seen"}
    assert seen | {key for key in visible(name) if late(WORKERS[name], key)} == set(visible(name))


# ---------------------------------------------------------------- clients with a few settings only
OTHERS = [
    (name, worker) for name in (JOURNEYS, RETRIES, TRANSACTIONS, CRASH) for worker in truth(name).workers
]


@pytest.mark.parametrize(("name", "worker"), OTHERS)
def test_settings_are_right_as_far_as_a_few_seconds_show_them(name, worker):
    found = read(truth(name).path)[worker]
    told = {each["key"]: each for each in found["settings"]} | {
        each["name"]: each for each in found["settings"]
    }
    for key, value in truth(name).workers[worker].settings.items():
        setting = told.get(key.removeprefix("producer."))
        if setting is None or setting["how"] == "not seen":
            continue
        if setting["how"] == "read":
            assert plain(setting["text"]) == plain(value), key
        elif plain(value).isdigit():
            assert setting["value"] == near(truth(name).workers[worker], key, int(value)), key


# ---------------------------------------------------------------- recordings of groups
#: the recorded settings of members; their other settings are unknown
GIVEN = ("group.instance.id", "group.protocol", "partition.assignment.strategy", "max.poll.interval.ms")


def given(name: str) -> dict[str, dict[str, set[str]]]:
    """Return the settings of members by client ID: all values, if several processes had the name."""
    found: dict[str, dict[str, set[str]]] = {}
    for event in groups.read(name).events:
        config = event.get("config")
        lines = config if isinstance(config, list) else ()
        for key, _, value in (each.partition("=") for each in lines):
            if key in GIVEN:
                found.setdefault(event["who"], {}).setdefault(key, set()).add(value)
    return found


NAMES = sorted(
    path.stem
    for path in (groups.FOLDER / "truth").glob("*.json")
    if "streams" not in path.stem and "connect" not in path.stem and given(path.stem)
)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", NAMES)
def test_what_members_of_groups_were_given_is_read(name):
    found = read(str(groups.FOLDER / f"{name}.pcap.zst"))
    compared = 0
    for who, settings in given(name).items():
        if who not in found:
            continue
        told = {each["key"]: each for each in found[who]["settings"]}
        for key, values in settings.items():
            assert told[key]["how"] == "read", (who, key)
            # the last value on the wire may have been given first
            assert told[key]["text"] in values or {each["text"] for each in told[key]["others"]} & values, (
                who,
                key,
            )
            compared += 1
    assert compared


NEWER = ("kip848", "share", "streams_protocol")
"""Groups whose sessions are configured in the coordinator, not in clients (KIP-848, KIP-932, KIP-1071)."""

SESSIONS = sorted(
    path.stem
    for path in (groups.FOLDER / "truth").glob("[34]*.json")
    if not any(kind in path.stem for kind in NEWER)
)


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", SESSIONS)
def test_session_timeouts_of_classic_members_are_read(name):
    truth = groups.read(name)
    read_settings = [
        {setting["key"]: setting["value"] for setting in client["settings"] if setting["how"] == "read"}
        for client in read(str(groups.FOLDER / f"{name}.pcap.zst")).values()
    ]
    of_group = [each for each in read_settings if each.get("group.id") == truth.group]
    timeouts = {each["session.timeout.ms"] for each in of_group if "session.timeout.ms" in each}
    assert timeouts == {truth.session_timeout * 1000}
