"""Working features are recognized, and for others there is an error with a remedy."""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from cryptography.exceptions import UnsupportedAlgorithm

from captures.live.device import NetworkInterface, NotPermittedError
from captures.packets.tls.suites import CODES, suite
from dissectors.errors import DecodeError
from dissectors.records import InflatedBytes
from kproxy.doctor import State, core, extras, live_capture, proxy, tls
from kproxy.doctor.packages import Requirement


def raising(error: BaseException) -> Callable[..., object]:
    def fail(*_: object, **__: object) -> object:
        raise error

    return fail


# ------------------------------------------------------------ the core
@pytest.mark.slow
def test_the_core_works_here() -> None:
    assert {check.name: check.state for check in core.checks()} == dict.fromkeys(
        ("Python", "packages", "reading", "codecs"), State.OK
    )
    assert "402 exchanges" in core.reading().found


def test_an_old_python_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 13))
    assert core.python().state is State.BROKEN


def test_a_package_that_is_missing_or_old_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (Requirement("click", "<8", None), Requirement("kproxy-no-such", ">=1", None))
    monkeypatch.setattr(core, "requirements", lambda: asked)
    check = core.packages()
    assert check.state is State.BROKEN
    assert "kproxy-no-such missing (needs >=1)" in check.found
    assert check.command.endswith("install 'click<8' 'kproxy-no-such>=1'")


def test_a_codec_that_corrupts_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dissectors.records.codecs.inflate", lambda *_: InflatedBytes(b"something else"))
    assert core.codecs().state is State.BROKEN
    monkeypatch.setattr(
        "dissectors.records.codecs.inflate", lambda *_: InflatedBytes(b"", DecodeError("no", 0))
    )
    assert core.codecs().found.startswith("gzip, snappy, lz4 and zstd does not")


def test_a_sample_that_does_not_decode_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # half of the sample: its last packet is truncated
    sample = Path("captures/samples/rebalance.pcap").read_bytes()
    (tmp_path / "samples").mkdir()
    (tmp_path / "samples" / "rebalance.pcap").write_bytes(sample[: len(sample) // 2 + 1])
    monkeypatch.setattr(core, "files", lambda _: tmp_path)
    assert core.reading().state is State.BROKEN


# ------------------------------------------------------------ TLS
def test_all_suites_are_decrypted_by_a_whole_library() -> None:
    known = [found for code in CODES if (found := suite(code))]
    assert len(known) > 50
    assert tls.captured().found.startswith(f"{len(known)} of {len(known)} cipher suites: AES-GCM, ")
    assert tls.own().state is State.OK


@pytest.mark.parametrize("name", ["AESCCM", "AESGCM", "ChaCha20Poly1305", "Cipher"])
def test_a_library_without_an_algorithm(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    # raised by cryptography in a build restricted to FIPS 140
    monkeypatch.setattr(f"captures.packets.tls.ciphers.{name}", raising(UnsupportedAlgorithm("not here")))
    check = tls.captured()
    assert check.state is State.LIMITED
    assert "stay encrypted: TLS_" in check.about
    missing = {"AESCCM": "AES-CCM", "AESGCM": "AES-GCM", "Cipher": "AES-CBC"}.get(name, "ChaCha20")
    assert missing not in check.found


# ------------------------------------------------------------ live capture
def test_without_the_privilege_there_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.live.devices.open_device", raising(NotPermittedError("any: no")))
    monkeypatch.setattr("captures.live.devices.interfaces", lambda: [NetworkInterface("eth0")])
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    check = live_capture.privilege()
    assert check.state is State.MISSING
    assert check.command.startswith("sudo ")
    assert check.command.endswith(" sniff")


@pytest.mark.skipif(sys.platform != "linux", reason="capabilities are Linux's")
def test_root_without_the_capability_is_in_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.live.devices.open_device", raising(NotPermittedError("any: no")))
    monkeypatch.setattr("captures.live.devices.interfaces", lambda: [NetworkInterface("eth0")])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    check = live_capture.privilege()
    assert "--cap-add NET_RAW" in check.about
    assert check.command == ""


def test_with_the_privilege_the_interfaces_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = []

    class FakeDevice:
        def __init__(self, settings: object) -> None: ...

        def close(self) -> None:
            closed.append(self)

    monkeypatch.setattr("captures.live.devices.open_device", FakeDevice)
    monkeypatch.setattr(
        "captures.live.devices.interfaces", lambda: [NetworkInterface("any"), NetworkInterface("eth0")]
    )
    assert live_capture.privilege().found == "permitted on eth0"
    assert len(closed) == 1


def test_without_libpcap_there_is_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.live.pcap.libpcap", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "dnf" else None)
    check = live_capture.library()
    assert check.state is not State.OK
    assert check.command == "sudo dnf install libpcap"


def test_without_taps_the_other_ways_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("captures.live.taps.device.obstacles", lambda: ["bpftrace is not installed"])
    monkeypatch.setattr("captures.live.taps.device.bpftrace_path", lambda: None)
    monkeypatch.setattr("shutil.which", lambda name: name if name == "dnf" else None)
    check = live_capture.tls_calls()
    assert (check.state, check.found) == (State.MISSING, "bpftrace is not installed")
    assert "key log" in check.about
    assert "request log" in check.about
    assert check.command == ("sudo dnf install bpftrace" if sys.platform == "linux" else "")
    monkeypatch.setattr("captures.live.taps.device.obstacles", list)
    monkeypatch.setattr("captures.live.taps.device.trial", lambda: ["bpftrace: no"])
    assert live_capture.tls_calls().found == "bpftrace: no"
    monkeypatch.setattr("captures.live.taps.device.trial", list)
    assert live_capture.tls_calls().state is State.OK


def test_processes_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("psutil.net_connections", raising(psutil.AccessDenied()))
    assert live_capture.processes().state is State.LIMITED


def test_little_room_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("captures.packets.spool.spool_directory", lambda: str(tmp_path))
    monkeypatch.setattr("captures.packets.spool.spare_bytes", lambda _: 1 << 30)
    check = live_capture.spool()
    assert (check.state, check.found) == (State.LIMITED, f"1.0 GiB to spare in {tmp_path}")
    monkeypatch.setattr("captures.packets.spool.spare_bytes", lambda _: 100 << 30)
    assert live_capture.spool().state is State.OK
    monkeypatch.setattr("captures.packets.spool.spare_bytes", raising(OSError(errno.ENOENT, "gone")))
    assert live_capture.spool().state is State.MISSING


# ------------------------------------------------------------ the proxy and extras
def test_the_proxy_can_run_here() -> None:
    assert proxy.loop().state is State.OK


@pytest.mark.parametrize(
    ("hard", "state"),
    [(resource.RLIM_INFINITY, State.OK), (20_000, State.OK), (4096, State.LIMITED)],
)
def test_open_files(monkeypatch: pytest.MonkeyPatch, hard: int, state: State) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    check = proxy.descriptors()
    assert check.state is state
    assert ("about 2,048 connections" in check.about) == (state is State.LIMITED)


def test_extras(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (
        Requirement("click", ">=8", "parquet"),
        Requirement("kproxy-no-such", ">=1", "metrics"),
        Requirement("click", ">=99", "new"),
        Requirement("kproxy-no-such", ">=1", "jdk"),
    )
    monkeypatch.setattr(extras, "requirements", lambda: asked)
    found = {check.name: check for check in extras.checks()}
    assert {name: check.state for name, check in found.items()} == {
        "parquet": State.OK,
        "metrics": State.MISSING,
        "new": State.MISSING,
    }
    assert found["metrics"].command.endswith("install 'kproxy[metrics]'")
    assert "click has to be >=99" in found["new"].about


def test_each_extra_is_told_for_what_it_is() -> None:
    asked = {each.extra for each in extras.requirements() if each.extra}
    assert asked == set(extras.PURPOSES)
