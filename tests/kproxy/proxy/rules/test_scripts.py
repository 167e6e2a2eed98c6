"""Scripts: a rule passes frames to a Python file in a separate process."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from captures.filters import FilterError
from dissectors.frames import decode_request, decode_response
from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from kproxy.proxy.rules import scripts
from kproxy.proxy.rules.actions import Script as ScriptAction
from kproxy.proxy.rules.completion import complete_rule
from kproxy.proxy.rules.parser import parse_rule
from kproxy.proxy.rules.script_process import Script
from kproxy.proxy.rules.scripts import ScriptProcess, ScriptReply
from kproxy.proxy.verdicts import Frame
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.proxy.planes import Client, running
from tests.kproxy.proxy.planes import run as run_plane
from tests.kproxy.proxy.rules.frames import FETCH, request, response
from tests.waiting import PATIENCE, until

HEARTBEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}
ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "edit.py"


def decided(file: Path, source: str, frame: Frame) -> ScriptReply:
    file.write_text(source)
    return Script(file).reply(frame)


def body_of(data: bytes | None) -> dict[str, Any]:
    assert data is not None
    value = decode_request(data[4:]).value
    assert value is not None
    return value


# ---------------------------------------------------------------- capabilities of scripts
def test_a_script_changes_a_request(file: Path) -> None:
    source = """
def request(exchange):
    assert (exchange.api, exchange.version, exchange.client_id) == ("Fetch", 4, "app-1")
    exchange.request["max_wait_ms"] = 7
"""
    reply = decided(file, source, request("Fetch", 4, FETCH))
    assert reply.failure == ""
    assert body_of(reply.data)["max_wait_ms"] == 7
    assert (reply.words, [change.path for change in reply.changed]) == ("edit.py: changed", ["max_wait_ms"])


def test_a_frame_that_a_script_leaves_alone_keeps_its_bytes(file: Path) -> None:
    reply = decided(file, "def request(exchange):\n    print(exchange.api)", request("Fetch", 4, FETCH))
    assert reply == ScriptReply("edit.py: left unchanged", printed="Fetch")


def test_text_in_place_of_bytes_is_encoded(file: Path) -> None:
    records = build_batch([Record(0, 1_000, b"k", b"old", (("h", b"1"),))], producer_id=7)
    topics = [{"name": "orders", "partition_data": [{"index": 0, "records": records}]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
    source = """
def request(exchange):
    for topic in exchange.request["topic_data"]:
        for partition in topic["partition_data"]:
            for batch in partition["records"]:
                for record in batch["records"]:
                    record["value"] = "test"  # which is valid base64, too
                    record["headers"].append({"key": "by", "value": "kproxy"})
"""
    reply = decided(file, source, request("Produce", 9, body))
    assert reply.failure == ""
    (batch,) = record_set(body_of(reply.data)["topic_data"][0]["partition_data"][0]["records"]).batches
    (record,) = batch.records()
    assert (batch.crc_valid, batch.producer_id, record.value) == (True, 7, b"test")
    assert record.headers == (("h", b"1"), ("by", b"kproxy"))


def test_a_script_answers_a_request(file: Path) -> None:
    source = """
def request(exchange):
    exchange.delay = 0.5
    exchange.response = {"error_code": 27}
"""
    reply = decided(file, source, request("Heartbeat", 4, HEARTBEAT))
    assert (reply.data, reply.delay, reply.words) == (b"", 0.5, "edit.py: answered, delayed by 500ms")
    assert reply.answer is not None
    answer = decode_response(reply.answer[4:], 12, 4)
    assert (answer.value, answer.header["correlation_id"]) == ({"throttle_time_ms": 0, "error_code": 27}, 42)


def test_a_script_reports_an_error_to_the_client(file: Path) -> None:
    source = "def request(exchange):\n    exchange.error = 'REBALANCE_IN_PROGRESS'"
    reply = decided(file, source, request("Heartbeat", 4, HEARTBEAT))
    assert reply.answer is not None
    assert (decode_response(reply.answer[4:], 12, 4).value or {})["error_code"] == 27


def test_a_script_changes_a_response_and_sees_its_request(file: Path) -> None:
    source = """
def response(exchange):
    exchange.response["throttle_time_ms"] = exchange.request["generation_id"]
    exchange.error = 27
"""
    asked = request("Heartbeat", 4, HEARTBEAT)
    frame = response("Heartbeat", 4, {"throttle_time_ms": 0, "error_code": 0}, to=asked)
    reply = decided(file, source, frame)
    assert reply.data is not None
    assert decode_response(reply.data[4:], 12, 4).value == {"throttle_time_ms": 1, "error_code": 27}
    assert {change.path for change in reply.changed} == {"throttle_time_ms", "error_code"}


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("def request(exchange):\n    exchange.nothing", "edit.py, line 2: AttributeError: "),
        ("def request(exchange):\n    exchange.request['what'] = 1", "edit.py: this is not a FetchRequest v4: "),
        ("def request(exchange):\n    exchange.request = 7", "edit.py: this is not a FetchRequest v4: "),
        ("def request(exchange):\n    exchange.response = {'what': 1}", "edit.py: this is not a FetchResponse v4: "),
        ("def request(exchange):\n    exchange.error = 'NO_SUCH'", "edit.py: there is no error NO_SUCH"),
        ("def request(exchange):\n    raise SystemExit", "edit.py, line 2: SystemExit"),
        ("def response(exchange):\n    pass", "edit.py: there is no function request"),
        ("import no_such_module", "edit.py, line 1: ModuleNotFoundError: "),
    ],
)  # fmt: skip
def test_errors_name_the_line_and_change_nothing(file: Path, source: str, failure: str) -> None:
    reply = decided(file, source, request("Fetch", 4, FETCH))
    assert reply.failure.startswith(failure)
    assert (reply.data, reply.answer) == (None, None)


def test_a_script_may_have_dataclasses_and_any_file_name(tmp_path: Path) -> None:
    source = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Seen:
    count: int = 0

def request(exchange):
    exchange.request["max_wait_ms"] = Seen(7).count
"""
    reply = decided(tmp_path / "edit", source, request("Fetch", 4, FETCH))
    assert reply.failure == ""
    assert body_of(reply.data)["max_wait_ms"] == 7


def test_an_incomplete_record_is_refused(file: Path) -> None:
    topics = [
        {
            "name": "orders",
            "partition_data": [{"index": 0, "records": build_batch([Record(0, 0, b"k", b"v")])}],
        }
    ]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 30_000, "topic_data": topics}
    source = """
def request(exchange):
    exchange.request["topic_data"][0]["partition_data"][0]["records"][0]["records"].append({"value": "v"})
"""
    assert "a record has offset, timestamp, key" in decided(file, source, request("Produce", 9, body)).failure


# ---------------------------------------------------------------- rules
def test_a_file_with_one_function_implies_the_side(file: Path) -> None:
    file.write_text("def response(exchange): ...")
    rule = parse_rule(f"api == Fetch => script {file}, count=1")
    assert (rule.condition.side, str(rule)) == ("response", f"api == Fetch => script {file}, count=1")
    file.write_text("def response(exchange): ...\ndef request(exchange): ...")
    assert parse_rule(f"api == Fetch => script {file}").condition.side == "request"
    assert parse_rule(f"response: api == Fetch => script {file}").condition.side == "response"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (None, "cannot be read: No such file"),
        ("def request(", "is not a Python file: "),
        ("x = 1", "has neither a function request nor a function response"),
    ],
)
def test_files_without_functions_are_refused(file: Path, source: str | None, message: str) -> None:
    if source is not None:
        file.write_text(source)
    with pytest.raises(FilterError, match=message):
        parse_rule(f"api == Fetch => script {file}")
    with pytest.raises(FilterError, match="the file is missing"):
        parse_rule("api == Fetch => script")


def test_scripts_of_the_folder_are_offered(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file.write_text("")
    monkeypatch.chdir(file.parent)
    assert [each.text for each in complete_rule("api == Fetch => script e")] == ["edit.py"]
    assert list(ScriptAction.offers()) == ["edit.py"]


# ---------------------------------------------------------------- frames in transit
@pytest.fixture(autouse=True)
def _own_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(scripts, "TIME_LIMIT", PATIENCE)


@pytest.mark.slow
def test_both_functions_share_a_process_that_follows_its_file(tmp_path: Path, file: Path) -> None:
    file.write_text("""
seen = []

def request(exchange):
    seen.append(exchange.correlation_id)

def response(exchange):
    exchange.response["cluster_id"] = f"after {seen}"
""")

    async def test() -> None:
        rules = (f"api == Metadata => script {file}", f"response: api == Metadata => script {file}")
        async with (
            FakeBroker() as broker,
            running(tmp_path, ("127.0.0.1", broker.port), faults=rules) as proxy,
            await Client.connect(proxy.address) as client,
        ):
            assert (await client.ask(METADATA, 12, ALL_TOPICS, 4))["cluster_id"] == "after [4]"
            assert (await client.ask(METADATA, 12, ALL_TOPICS, 5))["cluster_id"] == "after [4, 5]"
            file.write_text(f"{file.read_text()}\nseen.append('anew')")
            proxy.plane.inspection.rules.scripts.refresh()
            assert (await client.ask(METADATA, 12, ALL_TOPICS, 6))["cluster_id"] == "after ['anew', 6]"
            shown = proxy.plane.inspection.rules.to_json()
            assert [(each["hits"], each["failure"]) for each in shown] == [(3, None), (3, None)]

    run_plane(test)


@pytest.mark.slow
def test_failures_are_shown_and_the_frame_goes_on_unchanged(
    tmp_path: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("""
import os, time

def response(exchange):
    match exchange.correlation_id:
        case 1:
            raise ValueError("no")
        case 2:
            os._exit(3)
        case 3:
            time.sleep(1000)
    exchange.response["cluster_id"] = "changed"
""")

    async def test() -> None:
        rules = (f"api == Metadata => script {file}",)
        async with (
            FakeBroker() as broker,
            running(tmp_path, ("127.0.0.1", broker.port), faults=rules) as proxy,
            await Client.connect(proxy.address) as client,
        ):
            failures = []
            for number in (1, 2, 3):
                answer = await client.ask(METADATA, 12, ALL_TOPICS, number)
                assert answer["cluster_id"] == broker.cluster_id
                failures.append(proxy.plane.inspection.rules.to_json()[0]["failure"])
                if number == 2:
                    assert (await client.ask(METADATA, 12, ALL_TOPICS, 4))["cluster_id"] == "changed"
                    monkeypatch.setattr(scripts, "TIME_LIMIT", 0.5)
            assert failures == [
                "edit.py, line 7: ValueError: no",
                "the process of edit.py ended unexpectedly",
                "edit.py took longer than 0.5 s",
            ]
            warned = [event["text"] for event in proxy.told.of("warning")]
            assert warned == [f"rule 1 failed, the frame was forwarded: {text}" for text in failures]
            monkeypatch.setattr(scripts, "TIME_LIMIT", PATIENCE)
            assert (await client.ask(METADATA, 12, ALL_TOPICS, 4))["cluster_id"] == "changed"

    run_plane(test)


@pytest.mark.slow
def test_a_released_frame_goes_to_the_script_with_its_edits(tmp_path: Path, file: Path) -> None:
    file.write_text("""
def request(exchange):
    exchange.request["allow_auto_topic_creation"] = exchange.request["topics"] == []
""")

    async def test() -> None:
        options = {"faults": (f"api == Metadata => script {file}, count=1",), "hold": "api == Metadata"}
        async with (
            FakeBroker() as broker,
            running(tmp_path, ("127.0.0.1", broker.port), **options) as proxy,
            await Client.connect(proxy.address) as client,
        ):
            before = len(broker.of(METADATA))
            client.send(request("Metadata", 12, ALL_TOPICS).data)
            holds = proxy.plane.inspection.holds
            await until(lambda: len(holds.to_json()["held"]) == 1)
            holds.edit(1, changes={"topics": []})
            await client.response(METADATA, 12)
            body = broker.of(METADATA)[before].body
            assert body is not None
            assert (body["topics"], body["allow_auto_topic_creation"]) == ([], True)

    run_plane(test)


# ---------------------------------------------------------------- the process
@pytest.mark.slow
def test_the_process_ends_with_the_data_plane_despite_threads(file: Path) -> None:
    file.write_text("import threading\nthreading.Thread(target=threading.Event().wait).start()")
    command = [sys.executable, "-m", "kproxy.proxy.rules.script_process", str(file)]
    assert subprocess.run(command, stdin=subprocess.DEVNULL, check=False, timeout=PATIENCE).returncode == 0


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.mark.slow
def test_children_that_keep_the_pipes_open_do_not_stop_it_from_ending(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("""
import os, time

if child := os.fork():
    def request(exchange):
        print(child)

    def response(exchange):
        os._exit(3)
else:
    time.sleep(1000)
""")

    async def test() -> None:
        process = ScriptProcess(file)
        asked = request("Fetch", 4, FETCH)
        child = int((await process.ask(asked)).printed)
        monkeypatch.setattr(scripts, "TIME_LIMIT", 0.1)
        async with asyncio.timeout(PATIENCE):
            assert (
                "took longer"
                in (await process.ask(response("Fetch", 4, {"responses": []}, to=asked))).failure
            )
            os.kill(child, signal.SIGKILL)
            monkeypatch.setattr(scripts, "TIME_LIMIT", PATIENCE)
            child = int((await process.ask(asked)).printed)
            await process.close()
        await until(lambda: has_ended(child))

    run_plane(test)
