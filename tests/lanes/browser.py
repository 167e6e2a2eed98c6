"""The lane of the UI in a real browser: ``kproxy serve``, Chromium, keys, and what the page shows.

    python -m tests.lanes.browser [PICTURE.png]

Chromium has to be installed (Debian: ``apt-get install chromium``). It is driven through the Chrome DevTools Protocol;
what the page shows is what its web socket receives, as a terminal understands it. With a file name, the lane writes the
picture of the documentation.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pyte

from tests.lanes.tools import CannotRun, free_ports

_SAMPLE = Path(__file__).parents[2] / "captures" / "samples" / "rebalance.pcap"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SIZE = "1400,860"
_PATIENCE = 40.0
_CODES = {"\r": ("Enter", 13), "\x1b": ("Escape", 27)}


class Page:
    """A page of the browser.

    :param connection: to it, by the DevTools protocol
    """

    def __init__(self, connection: aiohttp.ClientWebSocketResponse) -> None:
        self._connection = connection
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._screen = pyte.Screen(80, 24)
        self._stream = pyte.ByteStream(self._screen)
        self._listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for message in self._connection:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            elif told["method"] == "Network.webSocketFrameReceived":
                frame = told["params"]["response"]
                if frame["opcode"] == 2:
                    self._stream.feed(base64.b64decode(frame["payloadData"]))
            elif told["method"] == "Network.webSocketFrameSent":
                sent = json.loads(told["params"]["response"]["payloadData"])
                if sent[0] == "resize":
                    self._screen.resize(sent[1]["height"], sent[1]["width"])
            elif told["method"] == "Network.webSocketCreated":
                self._screen.reset()
                width, height = re.findall(r"=(\d+)", told["params"]["url"])
                self._screen.resize(int(height), int(width))

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Have the browser do something; return what it answers."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._connection.send_json({"id": self._number, "method": method, "params": parameters})
        told = await asyncio.wait_for(answer, _PATIENCE)
        assert "error" not in told, (method, told)
        found: dict[str, Any] = told["result"]
        return found

    async def press(self, text: str) -> None:
        """Type characters; ``\\r`` is enter, ``\\x1b`` escape."""
        for character in text:
            key, code = _CODES.get(character, (character, ord(character.upper())))
            typed = {} if character == "\x1b" else {"text": character}
            for kind in ("keyDown", "keyUp"):
                await self.call(
                    "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **typed
                )
                typed = {}

    async def until(self, fits: Callable[[], object], what: str) -> None:
        """Wait until something holds."""
        for _ in range(int(_PATIENCE * 5)):
            if fits():
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"the page does not show {what}:\n" + "\n".join(self._screen.display))

    async def shows(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until(lambda: any(text in line for line in self._screen.display), text)

    async def picture(self, path: Path) -> None:
        """Write what the page looks like."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


async def _page(session: aiohttp.ClientSession, port: int) -> Page:
    """Return the first page of a browser that is starting."""
    for _ in range(100):
        try:
            async with session.get(f"http://127.0.0.1:{port}/json") as answer:
                urls = [
                    each["webSocketDebuggerUrl"] for each in await answer.json() if each["type"] == "page"
                ]
            return Page(await session.ws_connect(urls[0], max_msg_size=0))
        except (aiohttp.ClientError, IndexError):
            await asyncio.sleep(0.2)
    raise CannotRun("the browser does not answer")


async def _try(url: str, port: int, folder: Path, picture: Path | None) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(url.partition("?")[0]) as answer:
            assert answer.status == 403, "a page without the token"
        page = await _page(session, port)
        await page.call("Network.enable")
        await page.call("Page.enable")
        await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        await page.call("Page.navigate", url=url)
        await page.shows("402 exchanges")
        await page.press("7")
        await page.shows("REBALANCE_IN_PROGRESS")
        await page.press("1r")
        await page.shows("this UI only shows")
        await page.press("w")
        await page.shows("write exchanges to a file")
        await page.press("\r")
        await page.shows("402 exchanges written to exchanges.pcapng")
        written = folder / "exchanges.pcapng"
        await page.until(written.exists, "the download")
        assert written.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a", "the download is no pcapng"
        await page.press("5")
        await page.shows("gr2-java_eager_range")
        await page.shows("Nobody is left in the group")
        if picture is not None:
            await page.press("\thhh")
            await page.shows("m3 was removed after 6 s")
            await page.shows("generation   4 → 5")
            await page.picture(picture)


def lane(picture: Path | None) -> None:
    """Run it; an assertion says what was wrong."""
    program = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if program is None:
        raise CannotRun("there is no Chromium (Debian: chromium)")
    (port,) = free_ports(1)
    serve = [sys.executable, "-m", "kproxy", "serve", "--listen", "127.0.0.1:0", "--utc", str(_SAMPLE)]
    with tempfile.TemporaryDirectory(prefix="kproxy-browser-") as folder:
        browse = [program, "--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={_SIZE}"]
        browse += [f"--remote-debugging-port={port}", f"--user-data-dir={folder}/profile", "about:blank"]
        server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
        browser = subprocess.Popen(browse, stderr=subprocess.DEVNULL)
        try:
            assert server.stderr is not None
            (url,) = re.findall(r"http://\S+", server.stderr.readline())
            asyncio.run(_try(url, port, Path(folder), picture))
        finally:
            server.terminate()
            browser.terminate()
            assert server.wait(10) == 0, "the server does not end in order"
            browser.wait(10)


def main() -> None:
    """Run the lane."""
    try:
        lane(Path(sys.argv[1]) if sys.argv[1:] else None)
    except CannotRun as why:
        sys.exit(f"cannot run here: {why}")
    except AssertionError as wrong:
        sys.exit(f"wrong: {wrong}")
    sys.stdout.write("the page showed the UI, and what it may do\n")


if __name__ == "__main__":
    main()
