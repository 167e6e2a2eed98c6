"""The web server: access control, and the messages to a page. No page here runs the UI."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import CookieJar
from aiohttp.test_utils import TestClient, TestServer

from kproxy import browser
from kproxy.browser import Browsers

_NOTHING = ("--version",)


Make = Callable[..., Browsers]


@pytest.fixture
def make() -> Iterator[Make]:
    """Return a function that creates servers; their sockets are closed after the test."""
    made: list[Browsers] = []

    def new(**options: Any) -> Browsers:
        made.append(Browsers(_NOTHING, title="kproxy: a.pcap", **{"listen": ("127.0.0.1", 0), **options}))
        return made[-1]

    yield new
    for each in made:
        each._socket.close()


async def _client(browsers: Browsers) -> TestClient[Any, Any]:
    """Return a browser client for the pages; its requests consist of a path only."""
    server = TestServer(await browsers._make_app())
    client: TestClient[Any, Any] = TestClient(server, cookie_jar=CookieJar(unsafe=True))
    await client.start_server()
    return client


def _token(browsers: Browsers) -> str:
    (token,) = re.findall(r"\?token=(\S{20,})", browsers.url)
    return str(token)


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/ws", "/static/js/textual.js", "/download/1"]
)
async def test_nobody_gets_in_without_the_token(make: Make, path: str) -> None:
    client = await _client(make())
    answer = await client.get(path)
    assert answer.status == 403
    assert "open the URL that kproxy printed" in await answer.text()
    await client.close()


async def test_the_token_gets_in_once_and_stays_in_a_cookie(make: Make) -> None:
    browsers = make()
    client = await _client(browsers)
    first = await client.get(f"/?token={_token(browsers)}", allow_redirects=False)
    assert (first.status, first.headers["Location"]) == (302, "/")
    assert "HttpOnly" in first.headers["Set-Cookie"]
    page = await client.get("/")
    assert page.status == 200
    assert "kproxy: a.pcap" in await page.text()
    assert "connect-src 'self'" in page.headers["Content-Security-Policy"]
    assert (await client.get("/static/js/textual.js")).status == 200
    await client.close()


async def test_servers_at_other_ports_have_other_tokens_and_cookies(make: Make) -> None:
    one, other = make(), make()
    assert _token(one) != _token(other)
    assert one._cookie != other._cookie


async def test_without_a_token_everybody_gets_in(make: Make) -> None:
    browsers = make(guarded=False)
    assert browsers.url.endswith("/")
    client = await _client(browsers)
    assert (await client.get("/")).status == 200
    await client.close()


@pytest.mark.parametrize(("forwarded", "scheme"), [({}, "ws"), ({"X-Forwarded-Proto": "https"}, "wss")])
async def test_a_page_finds_the_server_by_the_name_that_the_browser_has_for_it(
    make: Make, forwarded: dict[str, str], scheme: str
) -> None:
    client = await _client(make(guarded=False))
    page = await client.get("/", headers={"Host": "incident.example:8443", **forwarded})
    assert f'"{scheme}://incident.example:8443/ws"' in await page.text()
    await client.close()


async def test_pages_of_other_sites_are_kept_out(make: Make) -> None:
    client = await _client(make(guarded=False))
    for origin in ("http://127.0.0.1:3000", "https://example.com", "null"):
        answer = await client.get("/ws", headers={"Origin": origin})
        assert answer.status == 403, origin
    await client.close()


async def test_there_are_never_more_pages_than_the_limit(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(browser, "MOST_PAGES", 0)
    client = await _client(make(guarded=False))
    answer = await client.get("/ws")
    assert answer.status == 503
    assert "pages are open already" in await answer.text()
    await client.close()


def test_an_address_without_a_host_is_this_machine_alone(make: Make) -> None:
    assert make(listen=("", 0)).url.startswith("http://127.0.0.1:")


def test_an_address_that_is_taken_is_named(make: Make) -> None:
    taken = make()
    port = taken.port
    with pytest.raises(OSError, match="in use") as caught:
        make(listen=("127.0.0.1", port))
    assert (caught.value.errno, caught.value.filename) == (errno.EADDRINUSE, f"127.0.0.1:{port}")
