"""``--keylog``: output for TLS connections that are decrypted, decrypted in part, or opaque."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main
from tests.lanes.tls import CAPTURES

PCAP = CAPTURES / "tls_kcat_13.pcap"
KEYLOG = CAPTURES / "tls_kcat_13.keylog"
LINES = 22  # tls_clients.json


def run(*arguments: object, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [*map(str, arguments)], input=stdin, catch_exceptions=False)


def test_with_its_key_log_a_connection_is_shown_like_any_other() -> None:
    result = run("read", "--keylog", KEYLOG, PCAP)
    assert len(result.stdout.splitlines()) == 1 + LINES
    assert "TLS" not in result.stderr
    assert result.exit_code == 0


def test_connections_that_stay_opaque_are_named_once_for_all() -> None:
    result = run("read", PCAP)
    (opaque, closing) = result.stderr.splitlines()
    assert "and 2 more connections are TLS 1.3, TLS_AES_256_GCM_SHA384, SNI localhost" in opaque
    assert opaque.endswith("not decrypted: no key log was given")
    assert closing == "No Kafka exchanges."
    assert result.exit_code == 3


def test_a_connection_that_is_read_in_part_says_so(tmp_path: Path) -> None:
    lacking = tmp_path / "keys"
    lines = KEYLOG.read_text().splitlines(keepends=True)
    lacking.write_text("".join(line for line in lines if not line.startswith("SERVER_TRAFFIC")))
    result = run("read", "--keylog", lacking, PCAP)
    notes = [line for line in result.stderr.splitlines() if "is TLS 1.3" in line]
    assert len(notes) == 3
    assert all("no SERVER_TRAFFIC_SECRET_0 in the key log for client random" in line for line in notes)
    assert result.exit_code == 3


def test_a_key_log_that_is_not_there(tmp_path: Path) -> None:
    result = run("read", "--keylog", tmp_path / "none", PCAP)
    assert result.exit_code == 2
    assert f"the key log {tmp_path}/none cannot be read: No such file or directory" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("command", ["read", "stats"])
def test_a_pipe_may_be_ahead_of_its_key_log(command: str, tmp_path: Path) -> None:
    keylog = tmp_path / "keys"
    kproxy = [sys.executable, "-m", "kproxy", command, "--json", "--keylog", keylog, "-"]
    with subprocess.Popen(
        kproxy, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        assert b"does not exist yet: kproxy reads it as soon as it does" in process.stderr.readline()
        keylog.write_bytes(KEYLOG.read_bytes())
        output, _ = process.communicate(PCAP.read_bytes())
    found = [json.loads(line) for line in output.splitlines()]
    seen = len(found) if command == "read" else found[0]["exchanges"]
    assert seen == LINES
