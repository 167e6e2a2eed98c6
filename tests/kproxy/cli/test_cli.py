"""The command line as a whole: help, version, start-up, and modules that it must not import."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest
from click.testing import CliRunner

from kproxy.cli import main

HEAVY = ("numpy", "textual", "pyspark", "scapy", "construct", "msgspec")


@pytest.mark.parametrize("arguments", [["--help"], ["read", "--help"], ["completion", "--help"]])
def test_help_teaches(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0
    assert "Usage:" in result.output


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"kproxy {version('kproxy')}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_for_the_shell(shell: str) -> None:
    result = CliRunner().invoke(main, ["completion", shell])
    assert result.exit_code == 0
    assert "_KPROXY_COMPLETE" in result.output


@pytest.mark.slow
def test_help_imports_nothing_heavy() -> None:
    # start-up time is spent on imports: modules that are not imported cannot slow it down
    code = (
        "import sys\nfrom kproxy.cli import main\n"
        "try:\n    main(['--help'])\nexcept SystemExit:\n    pass\n"
        f"print('loaded:', *[name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"


@pytest.mark.slow
def test_reading_a_pipe_imports_neither_textual_nor_spark_nor_scapy() -> None:
    code = (
        "import sys\nfrom kproxy.cli import main\n"
        "try:\n    main(['read', '-c', '1', 'captures/samples/rebalance.pcap'])\nexcept SystemExit:\n    pass\n"
        "print('loaded:', *[name for name in ('textual', 'pyspark', 'scapy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "loaded:"
