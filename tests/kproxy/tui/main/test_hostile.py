"""Data on the wire cannot harm the screen: with any names and values, every line stays aligned and inert."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest
from rich.cells import cell_len

from dissectors.apis import api
from tests.captures.exchanges.talk import Talk, packets
from tests.captures.packets.kit import pcap
from tests.dissectors.conversation.streams import METADATA
from tests.dissectors.test_printable import HOSTILE
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines

pytestmark = pytest.mark.slow

NAMES = [
    *HOSTILE.values(),
    "[bold red]markup[/]",
    "[@click=app.quit]click[/]",
    "注文トピック" * 8,
    "طلبات" * 20,
    "x" * 5_000,
]
SENDABLE = [name.encode(errors="surrogatepass") for name in NAMES]


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    talk = Talk(0)
    request, response = api(METADATA).request[1], api(METADATA).response[1]  # type: ignore[union-attr]
    for number, name in enumerate(NAMES):
        text = name.encode(errors="replace").decode()
        talk.ask(number, request.build({"topics": [{"name": text}]}), client_id=text[:200])
        topic = {"error_code": 3, "name": text, "is_internal": False, "partitions": []}
        talk.answer(response.build({"brokers": [], "controller_id": 1, "topics": [topic]}))
    path = tmp_path / "\x1b[31mhostile.pcap"
    path.write_bytes(pcap(packets(talk, Random(0)), nano=True))
    return path


@pytest.mark.parametrize("size", [(80, 24), (160, 45)], ids=["small", "large"])
async def test_every_view_stays_aligned_and_inert(size: tuple[int, int], capture: Path) -> None:
    async with opened(capture, size) as pilot:
        assert main_of(pilot).session.status.exchanges == len(NAMES)
        for view in "12345678R0W":
            await pilot.press(view)
            await settled(pilot)
            for _ in range(len(NAMES) if view == "1" else 2):
                for line in shown_lines(pilot):
                    assert line.isprintable(), ascii(line)
                    assert cell_len(line) == size[0], ascii(line)
                await pilot.press("j")
                await settled(pilot)
