"""The lane of the UI in a real browser: ``kproxy serve`` and ``kproxy proxy --web`` in Chromium, with key presses.

    python -m tests.lanes.browser [PICTURE.png]

Chromium has to be installed (Debian: ``apt-get install chromium``). The lane controls it through the Chrome DevTools
Protocol, and reads the content of a page from its web socket with a terminal emulator. With a file name, it writes the
screenshot of the documentation.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import aiohttp
import pyte

from dissectors.api_keys import ApiKey
from tests.lanes.tools import CannotRun, free_ports

_SAMPLE = Path(__file__).parents[2] / "captures" / "samples" / "rebalance.pcap"
_PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_SIZE = "1400,860"
_PATIENCE = 40.0
_CODES = {"\r": ("Enter", 13), "\x1b": ("Escape", 27)}


class Page:
    """A page of the browser.

    :param connection: its DevTools protocol connection
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
        """Call a DevTools method and return its result."""
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
        """Wait until a condition holds."""
        for _ in range(int(_PATIENCE * 5)):
            if fits():
                return
            await asyncio.sleep(0.2)
        raise AssertionError(f"the page does not show {what}:\n" + "\n".join(self._screen.display))

    def says(self, text: str) -> bool:
        """Return whether the page shows a text."""
        return any(text in line for line in self._screen.display)

    async def shows(self, text: str) -> None:
        """Wait until the page shows a text."""
        await self.until(lambda: self.says(text), text)

    async def picture(self, path: Path) -> None:
        """Write a screenshot."""
        found = await self.call("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(found["data"]))


async def _page(session: aiohttp.ClientSession, port: int) -> Page:
    """Return the first page of a starting browser."""
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


async def _another_page(session: aiohttp.ClientSession, port: int, url: str) -> Page:
    """Open an address in another page."""
    async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as answer:
        page = Page(await session.ws_connect((await answer.json())["webSocketDebuggerUrl"], max_msg_size=0))
    await _open(page, url)
    return page


async def _open(page: Page, url: str) -> None:
    await page.call("Network.enable")
    await page.call("Page.enable")
    await page.call("Emulation.setFocusEmulationEnabled", enabled=True)
    await page.call("Page.navigate", url=url)


async def _try(url: str, port: int, folder: Path, picture: Path | None) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(url.partition("?")[0]) as answer:
            assert answer.status == 403, "a page without the token"
        page = await _page(session, port)
        await page.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
        await _open(page, url)
        await page.shows("402 exchanges")
        await page.press("7")
        await page.shows("REBALANCE_IN_PROGRESS")
        await page.press("1r")
        await page.shows("this UI is read-only")
        await page.press("w")
        await page.shows("write exchanges to a file")
        await page.press("\r")
        await page.shows("402 exchanges written to exchanges.pcapng")
        written = folder / "exchanges.pcapng"
        await page.until(written.exists, "the download")
        assert written.read_bytes()[:4] == b"\x0a\x0d\x0d\x0a", "the download is no pcapng"
        await page.press("5")
        await page.shows("gr2-java_eager_range")
        await page.shows("The group has no members left")
        other = await _another_page(session, port, url)
        await other.shows("402 exchanges")
        await other.press("fapi == JoinGroup\r")
        await other.shows("16 shown")
        await page.press("1")
        await page.shows("✓ ok")
        assert not page.says("16 shown"), "pages share a filter"
        await page.press("5")
        await page.shows("The group has no members left")
        if picture is not None:
            await page.press("\thhh")
            await page.shows("m3 died and was removed after 6 s")
            await page.shows("generation   4 → 5")
            await page.picture(picture)


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Act as a broker that answers every request with the body of ApiVersions v0: no error, no APIs."""
    with contextlib.suppress(asyncio.IncompleteReadError):
        while True:
            request = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
            writer.write(_framed(request[4:8] + bytes(6)))
    writer.close()


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(4) + message


def _api_versions(correlation_id: int) -> bytes:
    return _framed(struct.pack(">hhih4s", ApiKey.API_VERSIONS, 0, correlation_id, 4, b"page"))


async def _try_live(port: int, folder: Path) -> None:
    """Check that two pages show the traffic of a proxy."""
    broker = await asyncio.start_server(_answer, "127.0.0.1", 0)
    address = "{}:{}".format(*broker.sockets[0].getsockname())
    (listen,) = free_ports(1)
    command = [sys.executable, "-m", "kproxy", "proxy", "-b", address, "--listen", f"127.0.0.1:{listen}"]
    command += ["--no-ui", "--web", "127.0.0.1:0", "-w", str(folder / "live.pcapng")]
    proxy = await asyncio.create_subprocess_exec(*command, stdout=DEVNULL, stderr=PIPE)
    assert proxy.stderr is not None
    try:
        said = b""
        while not (found := re.search(rb"http://\S+token=\S+", said)):
            line = await asyncio.wait_for(proxy.stderr.readline(), _PATIENCE)
            assert line, said.decode()
            said += line
        url = found[0].decode()
        async with aiohttp.ClientSession() as session:
            pages = [await _another_page(session, port, url) for _ in range(2)]
            for page in pages:
                await page.shows("0 exchanges")
            reader, writer = await asyncio.open_connection("127.0.0.1", listen)
            for correlation_id in range(3):
                writer.write(_api_versions(correlation_id))
                await asyncio.wait_for(reader.readexactly(14), _PATIENCE)
            for page in pages:
                await page.shows("3 exchanges")
                await page.shows("ApiVersions v0")
            await pages[0].press("i")
            await pages[0].shows("this UI is read-only")
            await pages[0].press("3")
            await pages[0].shows("page")
            assert pages[1].says("following"), "pages share a view"
            writer.close()
    finally:
        proxy.terminate()
        await proxy.wait()
        broker.close()


def lane(picture: Path | None) -> None:
    """Run the lane; failures are assertion errors."""
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
            asyncio.run(_try_live(port, Path(folder)))
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
