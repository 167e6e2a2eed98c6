"""``kproxy replay`` against fake brokers, which run in a thread with their own event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dissectors.apis import keys_by_name
from kproxy.cli.replay import replay
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.replay.recording import Recording
from tests.waiting import PATIENCE

KEYS = keys_by_name()
METADATA, HEARTBEAT, CREATE_TOKEN = 3, 12, KEYS["createdelegationtoken"]
BEAT = {"group_id": "g", "generation_id": 1, "member_id": "m"}


@contextmanager
def running(broker: FakeBroker) -> Iterator[str]:
    """Run a broker; yield its address."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(broker.start(), loop).result(PATIENCE)
        yield f"{broker.host}:{broker.port}"
    finally:
        asyncio.run_coroutine_threadsafe(broker.stop(), loop).result(PATIENCE)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()


@pytest.fixture
def broker() -> FakeBroker:
    made = FakeBroker(cluster_id="recorded")
    made.topic("orders", partitions=2)
    return made


@pytest.fixture
def capture(tmp_path: Path, broker: FakeBroker) -> str:
    """Return a capture of a Metadata and a Heartbeat on two connections."""
    recording = Recording()
    topics = {"topics": [{"name": "orders"}]}
    told = broker.metadata(topics, 9)
    recording.connection("lister").exchange(10, METADATA, 9, topics, told)
    recording.connection("member").exchange(20, HEARTBEAT, 3, BEAT, {})
    return str(recording.write(tmp_path / "recorded.pcap"))


def run(*arguments: str) -> Result:
    return CliRunner().invoke(replay, arguments)


def asked(broker: FakeBroker, key: int) -> list[str | None]:
    return [each.client_id for each in broker.of(key) if each.client_id != "kproxy"]


def test_without_yes_only_the_plan_is_shown(capture: str, broker: FakeBroker) -> None:
    with running(broker) as address:
        result = run(capture, "-b", address)
    assert result.exit_code == 4
    assert "1 request of 1 connection sent in" in result.stdout
    assert "writes: needs --allow" in result.stdout
    assert "--yes" in result.stderr
    assert asked(broker, METADATA) == []


def test_nothing_to_send(capture: str, broker: FakeBroker) -> None:
    with running(broker) as address:
        result = run(capture, "-b", address, "--yes", "--connection", "1")
    assert result.exit_code == 4
    assert "nothing is sent" in result.stdout


def test_all_as_recorded(capture: str, broker: FakeBroker) -> None:
    with running(broker) as address:
        result = run(capture, "-b", address, "--yes", "--speed", "max", "--allow", "heartbeat")
    assert result.exit_code == 0, result.output
    assert "2 requests sent: 2 answered as recorded, 0 otherwise, 0 not" in result.stdout
    assert asked(broker, METADATA) == ["lister"]
    assert asked(broker, HEARTBEAT) == ["member"]


def test_differences(capture: str, broker: FakeBroker) -> None:
    broker.answers[HEARTBEAT] = lambda body, version: {"error_code": 27}
    with running(broker) as address:
        result = run(capture, "-b", address, "--yes", "-V", "--allow", "Heartbeat")
    assert result.exit_code == 3
    assert "error_code: 0 → 27" in result.stdout
    assert "recorded" in result.stdout
    assert "REBALANCE_IN_PROGRESS" in result.stdout
    assert "2 requests sent: 1 answered as recorded, 1 otherwise, 0 not" in result.stdout


@pytest.mark.parametrize(
    "choice",
    [["--connection", "0"], ["-Y", "api == Metadata"], ["-Y", "client_id == lister"], ["--to", "15ms"]],
)
def test_selections(capture: str, broker: FakeBroker, choice: list[str]) -> None:
    with running(broker) as address:
        result = run(capture, "-b", address, "--allow", "Heartbeat", *choice)
    assert "1 request of 1 connection" in result.stdout
    assert "Heartbeat" not in result.stdout


def test_json(capture: str, broker: FakeBroker) -> None:
    broker.answers[HEARTBEAT] = lambda body, version: {"error_code": 27}
    with running(broker) as address:
        result = run(capture, "-b", address, "--yes", "--json", "--allow", "Heartbeat")
    assert result.exit_code == 3
    plan, *exchanges, summary = map(json.loads, result.stdout.splitlines())
    assert (plan["type"], plan["requests"], plan["left_out"], plan["duration_ns"]) == (
        "plan",
        2,
        0,
        10_000_000,
    )
    assert [row["api"] for row in plan["rows"]] == ["Metadata", "Heartbeat"]
    first, second = sorted(exchanges, key=lambda each: each["number"])
    assert first["same"] is True
    assert first["new"]["topics"][0]["name"] == "orders"
    assert second["differences"] == [{"path": "error_code", "field": "error_code", "recorded": 0, "new": 27}]
    assert (second["recorded_errors"], second["errors"]) == ([], [27])
    assert (summary["type"], summary["planned"], summary["sent"], summary["differing"]) == (
        "summary",
        2,
        2,
        1,
    )
    documented = (Path(__file__).resolve().parents[3] / "docs" / "replay.md").read_text()
    for shape in (plan, plan["rows"][0], second, second["differences"][0], summary, summary["apis"][0]):
        for name in shape:
            assert f"`{name}`" in documented, name


def test_json_shows_no_secrets(tmp_path: Path, broker: FakeBroker) -> None:
    recording = Recording()
    token = {"token_id": "t", "hmac": b"recorded-secret"}
    recording.connection().exchange(10, CREATE_TOKEN, 1, {"renewers": [], "max_lifetime_ms": -1}, token)
    broker.answers[CREATE_TOKEN] = lambda body, version: token | {"hmac": b"live-secret"}
    path = str(recording.write(tmp_path / "token.pcap"))
    with running(broker) as address:
        result = run(path, "-b", address, "--yes", "--json", "--allow", "CreateDelegationToken")
    assert result.exit_code == 0, result.output
    _, exchange, _ = map(json.loads, result.stdout.splitlines())
    assert (exchange["recorded"]["hmac"], exchange["new"]["hmac"]) == (None, None)


def test_a_cluster_that_is_not_there(capture: str, broker: FakeBroker) -> None:
    with running(broker) as address:
        pass
    result = run(capture, "-b", address, "--yes")
    assert result.exit_code == 1
    assert address in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--allow", "Produced"], "'Produced' is not a Kafka API"),
        (["--allow", "SaslAuthenticate"], "never replayed"),
        (["--speed", "0"], "not a speed"),
        (["--speed", "fast"], "not a speed"),
        (["-b", "broker:port"], "'broker:port' is not an address"),
        (["-b", ""], "not the address of a broker"),
        (["-Y", "api =="], "invalid filter"),
    ],
)
def test_wrong_usage(capture: str, arguments: list[str], message: str) -> None:
    result = run(capture, "-b", "127.0.0.1:1", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


def test_client_properties(capture: str, broker: FakeBroker, tmp_path: Path) -> None:
    config = tmp_path / "client.properties"
    config.write_text("security.protocol=NONE\n")
    result = run(capture, "-b", "127.0.0.1:1", "--command-config", str(config))
    assert result.exit_code == 2
    assert "security.protocol=NONE" in result.stderr


def test_tls_by_client_properties(capture: str, broker: FakeBroker, tmp_path: Path) -> None:
    from kproxy.proxy.tls.authority import Authority
    from kproxy.proxy.tls.contexts import server_context

    authority = Authority.open(tmp_path / "authority")
    broker.tls = server_context(authority.identity("127.0.0.1"))
    trusted, config = tmp_path / "ca.pem", tmp_path / "client.properties"
    trusted.write_text(authority.certificate)
    config.write_text(f"security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location={trusted}\n")
    with running(broker) as address:
        result = run(capture, "-b", address, "--command-config", str(config), "--yes", "--allow", "Heartbeat")
    assert result.exit_code == 0, result.output
