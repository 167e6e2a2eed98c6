"""A second opinion: the bytes of every stream as tshark reassembles them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.captures.packets.kit import CaptureContent, read

pytestmark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

DATA = Path(__file__).parents[2] / "data" / "captures"


def followed(path: Path, streams: int) -> list[dict[str, bytes]]:
    """The payload of each connection in order, by the endpoint that sent it."""
    ask = [part for number in range(streams) for part in ("-z", f"follow,tcp,raw,{number}")]
    done = subprocess.run(["tshark", "-r", path, "-q", *ask], capture_output=True, text=True, check=True)
    found = []
    for shown in done.stdout.split("Follow: tcp,raw\n")[1:]:
        ends = re.findall(r"^Node [01]: (.+)$", shown, re.MULTILINE)
        sides: tuple[list[str], list[str]] = ([], [])
        for line in re.findall(r"^\t?[0-9a-f]+$", shown, re.MULTILINE):
            sides[line.startswith("\t")].append(line.strip())
        found.append({end: bytes.fromhex("".join(side)) for end, side in zip(ends, sides, strict=True)})
    return found


def ours(got: CaptureContent) -> list[dict[str, bytes]]:
    connections, text = got.assembler.connections, got.reader.addresses.text
    return [
        {
            text(int(end)): got.stream(2 * number + side)
            for side, end in enumerate((connections.a[number], connections.b[number]))
        }
        for number in range(len(connections))
    ]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.pcap*")))
def test_streams_are_what_tshark_follows(name: str) -> None:
    got = read(DATA / name)
    mine = ours(got)
    theirs = {frozenset(each): each for each in followed(DATA / name, len(mine))}
    assert len(theirs) == len(mine)
    lossy = {gap[0] >> 1 for gap in got.gaps()}  # where bytes are missing, tshark puts text in their place
    for number, each in enumerate(mine):
        assert number in lossy or theirs[frozenset(each)] == each
