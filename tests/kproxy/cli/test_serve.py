"""``kproxy serve``, and ``--web`` of the live commands. ``tests/kproxy/test_browser.py`` tests the server itself."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from click.testing import CliRunner

from kproxy.cli import main, serve
from kproxy.cli.command import arguments_of
from kproxy.cli.open import OpenOptions, ViewOptions, open_
from kproxy.cli.ui import pages_beside
from tests.kproxy.tui.kit import REBALANCE
from tests.waiting import PATIENCE


def _served(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> tuple[list[str], dict[str, Any]]:
    """Return the command that a page of ``kproxy serve`` runs, and the settings of the server."""
    seen: list[tuple[list[str], dict[str, Any]]] = []
    monkeypatch.setattr(serve, "serve_ui", lambda command, **options: seen.append((list(command), options)))
    result = CliRunner().invoke(main, ["serve", *arguments])
    assert result.exit_code == 0, result.output
    return seen[0]


def _parsed(arguments: Sequence[str]) -> Any:
    """Return the options of ``kproxy open`` for the arguments."""
    context = open_.make_context("open", list(arguments))
    return OpenOptions(**context.params)


def test_a_page_opens_what_serve_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    given = [
        "--utc",
        "-Y",
        "api == Fetch",
        "--hosts",
        "a",
        "--hosts",
        "b c",
        "--spool",
        "1GiB",
        "-F",
        "x.pcap",
        "--y",
    ]
    command, how = _served(monkeypatch, *given[:-1], "--", given[-1])
    assert command[0] == "open"
    options = _parsed(command[1:])
    assert options.files == ("x.pcap", "--y")
    assert (options.utc, options.follow, options.show_secrets) == (True, True, False)
    assert (options.wanted, options.hosts, options.spool) == ("api == Fetch", ("a", "b c"), 1 << 30)
    assert options.read_only
    assert how == {"title": "x.pcap, --y", "listen": ("127.0.0.1", 8000), "guarded": True}


def test_control_and_no_token_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    command, how = _served(monkeypatch, "--control", "--no-token", "--listen", "9000", "x.pcap")
    assert not _parsed(command[1:]).read_only
    assert (how["listen"], how["guarded"]) == (("", 9000), False)


def test_options_that_are_off_stay_off_whatever_the_configuration_of_the_page_says() -> None:
    options = ViewOptions(files=("x.pcap",))
    assert "--no-show-secrets" in arguments_of(ViewOptions, options)


@pytest.mark.parametrize("source", ["-", "tcp://127.0.0.1:57012", "tcp-listen://:57012"])
def test_what_comes_once_cannot_be_read_by_every_page(source: str) -> None:
    result = CliRunner().invoke(main, ["serve", source])
    assert result.exit_code == 2
    assert "each page reads the capture anew" in result.output


def test_without_its_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kproxy.browser", None)
    result = CliRunner().invoke(main, ["serve", "x.pcap"])
    assert result.exit_code == 1
    assert "pip install 'kproxy[web]'" in result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["sniff", "--web", "8000"], "say where with --ring SIZE or -w FILE"),
        (["proxy", "-b", "a:1", "--detach", "--web", "8000"], "use kproxy attach --web"),
        (["proxy", "-b", "a:1", "--web-control"], "--web-control needs --web"),
        (["proxy", "-b", "a:1", "--no-capture", "--web", "8000"], "--no-capture has nothing to show"),
    ],
)
def test_live_commands_refuse_what_has_no_page(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.slow
async def test_a_page_shows_the_capture_and_ends_with_its_browser() -> None:
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "kproxy", "serve", "--listen", "0", str(REBALANCE)), stderr=subprocess.PIPE
    )
    assert server.stderr is not None
    (url,) = re.findall(r"http://\S+", (await server.stderr.readline()).decode())
    shown = b""
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as browser:
        await browser.get(url)
        async with browser.ws_connect(f"{url.partition('?')[0]}ws?width=120&height=40") as page:
            async with asyncio.timeout(PATIENCE):
                while b"402 exchanges" not in shown:
                    shown += (await page.receive()).data
                await page.send_json(["stdin", "7"])
                while b"REBALANCE_IN_PROGRESS" not in shown:
                    shown += (await page.receive()).data
                await page.send_json(["stdin", "r"])
                while b"this UI is read-only" not in shown:
                    shown += (await page.receive()).data
    server.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE):
        assert await server.wait() == 0


@pytest.mark.slow
def test_a_page_ends_with_its_server() -> None:
    """The other end of the pipes is closed, as if the server had been killed."""
    page = subprocess.Popen(
        [sys.executable, "-m", "kproxy", "open", str(REBALANCE)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"},
    )
    assert page.stdin is not None
    assert page.stdout is not None
    shown = b""
    while b"402 exchanges" not in shown:
        data = os.read(page.stdout.fileno(), 65_536)
        assert data, shown
        shown += data
    page.stdin.close()
    page.stdout.read()
    page.stdout.close()
    assert page.wait(PATIENCE) == 0


def test_what_cannot_be_started_ends_no_capture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.touch(mode=0o600)
    monkeypatch.setattr(sys, "executable", str(python))
    with pages_beside(["serve", "kafka.pcap"]):
        said = capsys.readouterr().err
    assert said == f"kproxy: no pages for browsers: {python} cannot be started here: Permission denied\n"
