from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli import main
from tests.kproxy.cli.terminal import Terminal
from tests.kproxy.tui.kit import REBALANCE
from tests.waiting import PATIENCE


def test_on_a_terminal_it_is_the_ui_until_it_is_left(tmp_path: Path) -> None:
    with Terminal(["open", str(REBALANCE)], tmp_path) as terminal:
        terminal.until("402 exchanges")
        terminal.until("confluent-python")
        terminal.type("q")
        assert terminal.end() == 0
        assert "\x1b[8l" in terminal.said.decode(errors="replace")
        assert "\x1b[8h" in terminal.said.decode(errors="replace")


@pytest.mark.slow
def test_a_capture_in_a_pipe_leaves_the_keys_to_the_terminal(tmp_path: Path) -> None:
    with REBALANCE.open("rb") as file:
        sender = subprocess.Popen(["cat"], stdin=file, stdout=subprocess.PIPE)
        with Terminal(["open", "-"], tmp_path, stdin=sender.stdout) as terminal:
            terminal.until("402 exchanges")
            terminal.type("q")
            assert terminal.end() == 0
        assert sender.stdout is not None
        sender.stdout.close()
        sender.wait()


@pytest.mark.slow
def test_the_ui_is_drawn_on_the_terminal_where_errors_go_elsewhere(tmp_path: Path) -> None:
    with (tmp_path / "errors").open("wb") as errors:
        with Terminal(["open", str(REBALANCE)], tmp_path, stderr=errors) as terminal:
            terminal.until("402 exchanges")
            terminal.type("q")
            assert terminal.end() == 0
    assert (tmp_path / "errors").read_bytes() == b""


@pytest.mark.slow
def test_it_ends_when_its_terminal_is_closed(tmp_path: Path) -> None:
    with Terminal(["open", str(REBALANCE)], tmp_path) as terminal:
        terminal.until("confluent-python")
        terminal.hang_up()
        terminal.process.wait(PATIENCE)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_when_it_is_asked_to(number: int, tmp_path: Path) -> None:
    with Terminal(["open", str(REBALANCE)], tmp_path) as terminal:
        terminal.until("confluent-python")
        terminal.process.send_signal(number)
        assert terminal.end() == 0


@pytest.mark.slow
def test_a_terminal_that_can_show_nothing_gets_lines(tmp_path: Path) -> None:
    with Terminal(["open", str(REBALANCE)], tmp_path, term="dumb") as terminal:
        terminal.until("402 exchanges of 6 clients")
        assert terminal.end() == 0
        assert b"\x1b" not in terminal.said


@pytest.mark.slow
def test_without_the_ui_it_prints_on_a_terminal(tmp_path: Path) -> None:
    with Terminal(["open", "--no-ui", str(REBALANCE)], tmp_path) as terminal:
        terminal.until("402 exchanges of 6 clients")
        assert terminal.end() == 0


@pytest.mark.slow
def test_without_a_terminal_it_prints() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "kproxy", "open", str(REBALANCE)], capture_output=True, text=True, check=True
    )
    read = subprocess.run(
        [sys.executable, "-m", "kproxy", "read", str(REBALANCE)], capture_output=True, text=True, check=True
    )
    assert printed.stdout == read.stdout
    assert printed.stderr == read.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["nothing.pcap"], [__file__]], ids=["missing", "no capture"])
def test_what_cannot_be_opened_is_said_before_any_ui(arguments: list[str], tmp_path: Path) -> None:
    with Terminal(["open", *arguments], tmp_path) as terminal:
        assert terminal.end() == 1
        assert "kproxy:" in terminal.text
        assert "?1049h" not in terminal.said.decode(errors="replace")


def test_a_filter_that_makes_no_sense_is_said_before_any_ui() -> None:
    result = CliRunner().invoke(main, ["open", "-Y", "api == ", str(REBALANCE)])
    assert result.exit_code == 2
    assert "invalid filter" in result.output


@pytest.mark.slow
def test_printing_does_not_import_the_ui() -> None:
    code = (
        "import sys; from click.testing import CliRunner; from kproxy.cli import main;"
        f"CliRunner().invoke(main, ['read', {str(REBALANCE)!r}]);"
        "CliRunner().invoke(main, ['--help']);"
        "print([name for name in sys.modules"
        " if name.split('.')[0] in ('textual', 'rich') or name.startswith('kproxy.tui')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
