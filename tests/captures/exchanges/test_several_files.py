"""A capture gives the same exchanges in one file and in several, however it is split."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.exchanges import Capture, open_capture
from captures.packets import open_source
from captures.packets.tls import KeyLog
from tests.captures.exchanges.talk import capture_of, exchanges, mixed, outcome, packets, random_talk
from tests.captures.packets.kit import CLIENT, Record, pcap

pytestmark = pytest.mark.slow

DATA = Path(__file__).parents[2] / "data" / "captures"
SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"

needs_wireshark = pytest.mark.skipif(
    shutil.which("editcap") is None or shutil.which("tshark") is None,
    reason="editcap or tshark is not installed",
)

BLOCKS = (1000, 4000, 1 << 22)


def talks(seed: int, count: int) -> list[Record]:
    rng = Random(seed)
    made = [random_talk(rng, number) for number in range(count)]
    return mixed([packets(talk, rng, most=rng.choice((50, 400, 1448))) for talk in made], rng)


def folder_of(folder: Path, files: list[list[Record]], rng: Random) -> Capture:
    """Write files with meaningless names, and open the folder."""
    inside = folder / "files"
    inside.mkdir()
    for number, records in zip(rng.sample(range(1000), len(files)), files, strict=True):
        (inside / f"{number}").write_bytes(pcap(list(records), nano=True))
    return open_capture(str(inside), rng.choice(BLOCKS))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3), cuts=st.integers(1, 12))
def test_cut_anywhere(seed: int, count: int, cuts: int) -> None:
    records = talks(seed, count)
    rng = Random(seed)
    edges = sorted(rng.sample(range(1, len(records)), min(cuts, len(records) - 1)))
    files = [records[low:high] for low, high in zip([0, *edges], [*edges, len(records)], strict=True)]
    with TemporaryDirectory() as name:
        capture = folder_of(Path(name), files, rng)
        capture.read()
        assert outcome(capture) == outcome(capture_of(Path(name), records))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 3), by_direction=st.booleans())
def test_split_by_direction_or_at_random(seed: int, count: int, by_direction: bool) -> None:
    records = talks(seed, count)
    rng = Random(seed)
    client = bytes(map(int, CLIENT[0].split(".")))
    files: list[list[Record]] = [[], []]
    for record in records:
        from_client = record.frame[26:30] == client  # the source address of IPv4 in Ethernet
        files[from_client if by_direction else rng.random() < 0.5].append(record)
    with TemporaryDirectory() as name:
        capture = folder_of(Path(name), [file for file in files if file], rng)
        capture.read()
        assert outcome(capture) == outcome(capture_of(Path(name), records))


def read(paths: str | list[str], keylog: Path | None = None) -> Capture:
    capture = open_capture(paths, keylog=KeyLog(str(keylog)) if keylog else None)
    capture.read()
    return capture


RECORDED = [
    SAMPLE,
    DATA / "09_pcapng_dumpcap.pcapng",
    DATA / "09_any_sll2.pcap",
    DATA / "24_k430_tls13_franz.pcap",
    DATA / "36_k251_sweep.pcap.zst",
]


@needs_wireshark
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_recorded_captures_that_were_cut_or_split(path: Path, tmp_path: Path) -> None:
    keylog = path.with_suffix(".keylog") if path.with_suffix(".keylog").exists() else None
    whole = read(str(path), keylog)
    assert len(whole.table) > 10
    plain = tmp_path / "plain"
    with open_source(path) as source:  # editcap may not have been built with zstd
        plain.write_bytes(source.read(0, source.expected or 1 << 26))
    for way in ("cut", "split"):
        (tmp_path / way).mkdir()
    subprocess.run(["editcap", "-c", "100", plain, tmp_path / "cut" / "part.pcapng"], check=True)
    port = whole.endpoints(0)[1].rpartition(":")[2]
    for name, packets_of in (("to", f"tcp.dstport == {port}"), ("from", f"not tcp.dstport == {port}")):
        out = tmp_path / "split" / name
        subprocess.run(["tshark", "-r", plain, "-Y", packets_of, "-w", out], check=True, capture_output=True)
    assert outcome(read(str(tmp_path / "cut" / "part*.pcapng"), keylog)) == outcome(whole)
    assert exchanges(read(str(tmp_path / "split"), keylog)) == exchanges(whole)
