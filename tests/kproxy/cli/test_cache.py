"""``--cache``: the output of commands is the same as without it, on the first run and the next."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from captures.exchanges import Capture, capture_cache, parallel
from kproxy.cli import main
from kproxy.user_folders import user_folder
from tests.captures.recorded import FOLDER
from tests.kproxy.tui.kit import REBALANCE

RECORDINGS = (REBALANCE, FOLDER / "09_snaplen128.pcap", FOLDER / "22_k430_java_commit_abort.pcap")
COMMANDS = {
    "read": ["read", "--utc"],
    "read, the first": ["read", "--utc", "-c", "10"],
    "read --json": ["read", "--json", "-Y", "topic ~ r or error"],
    "stats": ["stats", "--utc", "--all"],
    "groups": ["groups", "--utc"],
    "lag": ["lag", "--utc"],
    "api-versions": ["api-versions"],
    "diagnose": ["diagnose", "--utc"],
    "clients": ["clients", "--settings"],
    "records": ["records", "--utc"],
    "export": ["export", "--format", "csv", "--columns", "all", "-o", "-"],
}


@pytest.fixture(autouse=True)
def any_capture_is_worth_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "WORTH_PROCESSES", 0)
    monkeypatch.setattr(capture_cache, "_AT_REST", 0)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def cache_folder() -> Path:
    return user_folder("XDG_CACHE_HOME") / "captures"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)


def outcome(result: Result) -> tuple[bytes, str, int]:
    return result.stdout_bytes, result.stderr, result.exit_code


@pytest.mark.sample(3)
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.name)
def test_commands_print_the_same(path: Path, command: list[str]) -> None:
    without = outcome(run(*command, path))
    assert not cache_folder().exists()
    assert outcome(run(*command, "--cache", path)) == without
    assert list(cache_folder().iterdir())
    assert outcome(run(*command, "--cache", path)) == without


def test_the_second_command_does_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    first = run("groups", "--cache", REBALANCE)
    monkeypatch.setattr(Capture, "take", lambda *_: pytest.fail("it is read"))
    assert outcome(run("groups", "--cache", REBALANCE)) == outcome(first)
    assert run("diagnose", "--cache", REBALANCE).exit_code == 0


def test_the_configuration_file_sets_it_and_an_option_takes_it_back(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.toml"
    file.write_text("[common]\ncache = true\n")
    run("--config", file, "read", "--no-cache", REBALANCE)
    assert not cache_folder().exists()
    run("--config", file, "read", REBALANCE)
    assert list(cache_folder().iterdir())
