"""The tap device, with a program that prints recorded bpftrace output."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from captures.live.device import DeviceError, NotPermittedError, Settings
from captures.live.taps import device
from captures.live.taps.device import TlsTap
from captures.live.taps.libraries import Library, libraries_of
from captures.live.taps.script import program
from tests.lanes.taps import DATA, exchanges
from tests.waiting import wait_until

LIBRARY = Library("/lib/libssl.so.3", frozenset({"SSL_read", "SSL_write", "SSL_free"}))


def imitate(monkeypatch: pytest.MonkeyPatch, folder: Path, commands: str) -> None:
    """Put a shell script in place of bpftrace."""
    script = folder / "bpftrace"
    script.write_text(f"#!/bin/sh\n{commands}\n")
    script.chmod(0o700)
    monkeypatch.setattr(device, "obstacles", list)
    monkeypatch.setattr(device, "bpftrace_path", lambda: str(script))
    monkeypatch.setattr(device, "libraries_of", lambda *_: [LIBRARY])
    monkeypatch.setattr(device, "_now", lambda: 0)
    monkeypatch.setattr(device, "_FIRST_NAMESPACE", Path("/proc/self/ns/pid").stat().st_ino)


def test_what_is_printed_becomes_a_capture(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    printed = tmp_path / "printed"
    text = gzip.decompress((DATA / "taps_kcat_13.txt.gz").read_bytes()).decode()
    end = "".join(f"b {cpu} {1 << 62}\n" * 2 for cpu in range(64) if f"b {cpu} " in text)
    printed.write_text(text + end)
    imitate(
        monkeypatch, tmp_path, f"echo Lost 3 events >&2; echo Lost 4 events; cat {printed}; exec sleep 600"
    )
    tap = TlsTap(Settings("process 1"), [os.getpid()])
    path = tmp_path / "calls.pcap"
    with path.open("wb") as file:
        tap.write_to(file.fileno())
        written = []

        def pumped() -> bool:
            written.append(tap.pump(10))
            assert written[-1] <= 10
            tap.flush()
            return len(written) > 1 and sum(written) > 0 and not written[-1]

        wait_until(pumped)
    assert len(exchanges(path, None)) > 10
    assert (tap.counts().dropped, tap.counts().received) == (7, sum(written) + 7)
    tap.close()


def test_a_program_that_is_refused_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    said = "ERROR: RLIMIT_MEMLOCK\nERROR: Error loading program: uprobe:x"
    imitate(monkeypatch, tmp_path, f"printf '{said}\\n' >&2; exit 1")
    with pytest.raises(DeviceError, match="bpftrace has ended: ERROR: Error loading program: uprobe:x"):
        TlsTap(Settings("process 1"), [os.getpid()])


def test_without_a_library_there_is_nothing_to_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    imitate(monkeypatch, tmp_path, "exit 1")
    monkeypatch.setattr(device, "libraries_of", lambda *_: [])
    with pytest.raises(DeviceError, match="no TLS library whose functions have names"):
        TlsTap(Settings("process 1"), [os.getpid()])
    with pytest.raises(DeviceError, match="there is no process 4194305"):  # beyond the largest pid_max
        TlsTap(Settings("process 1"), [4_194_305])


def test_process_ids_of_a_container_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    imitate(monkeypatch, tmp_path, "exit 1")
    monkeypatch.setattr(device, "_FIRST_NAMESPACE", 1)
    with pytest.raises(DeviceError, match="--pid=host"):
        TlsTap(Settings("process 1"), [os.getpid()])


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(device, "bpftrace_path", lambda: None)
    monkeypatch.setattr(device, "_KERNEL_TYPES", Path("/nowhere/vmlinux"))
    with pytest.raises(
        NotPermittedError, match=r"takes root; bpftrace is not installed; .*CONFIG_DEBUG_INFO_BTF"
    ):
        TlsTap(Settings("process 1"), [])


def test_only_functions_that_are_there_are_probed_and_only_in_named_processes() -> None:
    text = program([LIBRARY], [7, 8])
    assert 'uprobe:"/lib/libssl.so.3":SSL_read /pid == 7 || pid == 8/' in text
    assert "SSL_read_ex" not in text
    assert 'uprobe:"/lib/libssl.so.3":SSL_free /1/' in program([LIBRARY], [])


def test_files_with_the_functions_names_are_found_once(tmp_path: Path) -> None:
    """bpftrace is asked for the functions of each file that this process executes and that names ``SSL_write``."""
    import ssl  # noqa: F401  # loads the library

    script = tmp_path / "bpftrace"
    script.write_text('#!/bin/sh\necho "$2" | sed "s/SSL_.*/SSL_write/"\n')
    script.chmod(0o700)
    found = libraries_of([os.getpid(), os.getpid()], str(script))
    assert found
    assert len({each.path for each in found}) == len(found)
    assert all(each.functions == {"SSL_write"} for each in found)
