"""The modes of the proxy are the same in the command, the settings and the data plane."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from inspect import isabstract
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner

from kproxy.cli import main
from kproxy.cli.proxy import proxy as proxy_command
from kproxy.proxy.modes import MODES, Mode, reference
from kproxy.proxy.settings import Settings
from tests.kproxy.fake_broker import METADATA, FakeBroker
from tests.kproxy.proxy.planes import Client, running
from tests.waiting import PATIENCE, until

ALL_TOPICS: dict[str, Any] = {"topics": None, "allow_auto_topic_creation": False}
BROKERS = (("127.0.0.1", 9092),)
GIVEN: dict[str, dict[str, Any]] = {
    "sni": {"sni": "b{node_id}.kafka.test"},
    "allowed_brokers": {"allowed_brokers": ("10.0.0.0/8",)},
    "mapped": {"mapped": ("kafka-1:9092=127.0.0.1:29092",)},
    "ports": {"ports": "any"},
    "tproxy": {"tproxy": True},
    "keep_client_address": {"tproxy": True, "keep_client_address": True},
}
"""Settings that use an option of a single mode, by the option's field."""


def test_what_the_command_offers_is_what_there_is() -> None:
    option = next(each for each in proxy_command.params if each.name == "mode")
    assert isinstance(option, click.Option)
    assert isinstance(option.type, click.Choice)
    assert list(option.type.choices) == list(MODES)
    assert option.help is not None
    for mode in MODES.values():
        assert f"{mode.name}: {mode.summary}" in option.help
        assert f"| `--mode {mode.name}` | {mode.summary} | {mode.needs} |" in reference()


def test_every_mode_is_whole_and_every_class_of_one_is_offered() -> None:
    assert {mode for mode in Mode.__subclasses__() if mode.__module__ == Mode.__module__} == set(
        MODES.values()
    )
    for name, mode in MODES.items():
        assert mode.name == name
        assert not isabstract(mode)


def test_a_mode_without_a_way_to_brokers_cannot_be_made() -> None:
    class Socks5(Mode):
        name = "socks5"
        summary = needs = ""

    with pytest.raises(TypeError, match=r"abstract method '?route"):
        Socks5(None)  # type: ignore[abstract, arg-type]


@pytest.mark.slow
def test_a_mode_that_is_not_there_runs_nowhere(tmp_path: Path) -> None:
    refused = CliRunner().invoke(main, ["proxy", "-b", "127.0.0.1:9", "--mode", "socks5"])
    assert refused.exit_code == 2
    with pytest.raises(ValueError, match="no mode 'socks5'"):
        Settings("", mode="socks5")
    settings = {"run_folder": str(tmp_path), "bootstrap": BROKERS, "mode": "socks5"}
    with pytest.raises(msgspec.ValidationError, match="no mode 'socks5'"):
        msgspec.json.decode(json.dumps(settings), type=Settings)
    ended = subprocess.run(
        [sys.executable, "-m", "kproxy.proxy.plane"],
        input=json.dumps(settings) + "\n",
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert ended.returncode == 1
    assert "no mode 'socks5'" in json.loads(ended.stdout)["text"]


@pytest.mark.parametrize("name", MODES)
def test_an_option_of_one_mode_is_refused_in_the_others(name: str) -> None:
    mode = MODES[name]
    assert mode.refusal(Settings("", BROKERS, mode=name)) == ""
    for other in MODES.values():
        for field, option in other.options.items():
            refusal = mode.refusal(Settings("", BROKERS, mode=name, **GIVEN[field]))
            if other is mode:
                assert refusal == ""
            else:
                assert refusal.endswith(f"is for --mode {other.name}")
                assert option in refusal or field == "keep_client_address"


@pytest.mark.parametrize("name", MODES)
def test_without_a_broker_only_modes_start_that_need_none(name: str) -> None:
    mode = MODES[name]
    assert bool(mode.refusal(Settings("", mode=name))) is mode.needs_bootstrap
    assert mode.refusal(Settings("", mode=name, forward=False)) == ""


HEARD = {
    "rewrite": "the proxy's port",
    "passthrough": "the broker's port",
    "transparent": "refused: not redirected",
}
"""The address that a client learns for a broker through a proxy in each mode."""


@pytest.mark.parametrize("name", MODES)
def test_each_mode_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    async def test() -> None:
        async with FakeBroker() as broker:
            async with running(tmp_path, ("127.0.0.1", broker.port), mode=name) as proxy:
                if HEARD[name].startswith("refused"):
                    async with await Client.connect(proxy.address):
                        await until(lambda: bool(proxy.told.of("warning")))
                    assert "kproxy's own address" in proxy.told.of("warning")[0]["text"]
                    return
                async with await Client.connect(proxy.address) as client:
                    got = await client.ask(METADATA, 12, ALL_TOPICS)
                ports = {each["port"] for each in got["brokers"]}
                behind = {place.listens for place in proxy.cluster.brokers}
                assert ports == (behind if HEARD[name] == "the proxy's port" else {broker.port})

    asyncio.run(test())
