"""Dropping privileges, in child processes that have some; and messages for users who lack them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from captures.live.privileges import PrivilegeError, User, advice, may_read, successor
from tests.captures.live.kit import needs_root

ROOT = Path(__file__).parents[3]
COMMAND = ["kproxy", "sniff", "-i", "eth0", "-Y", "api == Fetch"]


@pytest.fixture
def as_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    for name in ("SUDO_UID", "SUDO_GID", "SUDO_USER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("as_root")
def test_who_called_sudo_is_who_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "1234")
    monkeypatch.setenv("SUDO_GID", "5678")
    monkeypatch.setenv("SUDO_USER", "alice")
    assert successor(None) == User("alice", 1234, 5678, chosen=True)


@pytest.mark.usefixtures("as_root")
def test_root_without_sudo_goes_on_as_nobody() -> None:
    found = successor(None)
    assert found is not None
    assert (found.name, found.chosen) == ("nobody", False)


@pytest.mark.usefixtures("as_root")
def test_root_may_stay_root() -> None:
    assert successor("root") is None


@pytest.mark.usefixtures("as_root")
def test_a_user_that_does_not_exist() -> None:
    with pytest.raises(PrivilegeError, match="there is no user gregor-samsa"):
        successor("gregor-samsa")


def test_only_root_becomes_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert successor(None) is None
    with pytest.raises(PrivilegeError, match="only root"):
        successor("nobody")


def in_child(code: str) -> dict[str, str]:
    """Run code in a child process; return its status in /proc afterwards."""
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nprint(open('/proc/self/status').read())"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    return dict(line.split(":\t", 1) for line in done.stdout.splitlines() if ":\t" in line)


@needs_root
def test_another_user_has_no_capabilities_left() -> None:
    status = in_child(
        "from captures.live.privileges import *\nbecome(User('nobody', 65534, 65534, chosen=False))"
    )
    assert status["Uid"].split() == ["65534"] * 4
    assert status["Gid"].split() == ["65534"] * 4
    assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_capabilities_are_given_up_for_good() -> None:
    status = in_child("from captures.live.privileges import *\ngive_up_capabilities()")
    assert int(status["CapPrm"], 16) == int(status["CapEff"], 16) == int(status["CapInh"], 16) == 0
    assert status["NoNewPrivs"] == "1"


def test_what_gives_privileges_up_imports_no_package_with_threads() -> None:
    code = (
        "import captures.live.device, captures.live.pcap, captures.live.packet_socket, captures.live.privileges, sys\n"
        "print('heavy:', *[name for name in ('numpy', 'construct', 'captures.packets') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout == "heavy:\n"


@needs_root
def test_what_another_user_may_read(tmp_path: Path) -> None:
    nobody = User("nobody", 65534, 65534, chosen=False)
    path = tmp_path / "secret"
    path.write_text("")
    path.chmod(0o600)
    assert not may_read(nobody, path)
    assert may_read(nobody, Path("/etc/passwd"))


@pytest.mark.skipif(sys.platform != "linux", reason="the advice for Linux")
def test_the_advice_has_lines_to_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    lines = [line.strip() for line in advice("eth0", "tcp port 9092", COMMAND).splitlines()]
    assert "CAP_NET_RAW" in lines[0]
    assert "sudo kproxy sniff -i eth0 -Y 'api == Fetch'" in lines
    assert "sudo tcpdump -i eth0 -U -w - 'tcp port 9092' | kproxy read -" in lines
    assert "dumpcap -i eth0 -q -w - -f 'tcp port 9092' | kproxy read -" in lines
    assert f"sudo setcap cap_net_raw=ep {Path(sys.executable).resolve()}" in lines


@pytest.mark.skipif(sys.platform != "linux", reason="the advice for Linux")
def test_root_in_a_container_is_told_what_the_container_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    text = advice("eth0", "", COMMAND)
    assert "--cap-add NET_RAW" in text
    assert "sudo" not in text
