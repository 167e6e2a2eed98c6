"""The terminal UI in browsers: Textual's server, which runs a UI process for each open page.

A page shows what a terminal would. So it is reserved for users with the token, which the server prints as part of its
URL: it is taken from the URL once and kept in a cookie after that. Pages of other sites are rejected even if the
browser has the cookie, by the header ``Origin`` (RFC 6455, 10.2).
"""

from __future__ import annotations

import secrets
import shlex
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from aiohttp import web
from textual_serve.server import Server

from kproxy.addresses import LOOPBACK, Address, address_text
from kproxy.output import notice

MOST_PAGES = 16
"""Open pages; each has a process that reads the capture."""

_TOKEN_BYTES = 18
_HEADERS = {
    # the page of textual-serve loads a font from a third-party host
    "Content-Security-Policy": "default-src 'self' data:; script-src 'self' 'unsafe-inline'; "
    "style-src 'self' 'unsafe-inline'; connect-src 'self' ws: wss:; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_FOCUS = """<script>
  const wait = setInterval(() => {
    const keys = document.querySelector(".xterm-helper-textarea");
    if (keys) { keys.focus(); clearInterval(wait); }
  }, 50);
</script></body>"""
"""Focuses the terminal, so that keys work before the page is clicked."""
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Browsers(Server):
    """A server of the UI.

    :param command: arguments of kproxy that a page runs, such as ``open kafka.pcap``
    :param title: of the page
    :param listen: an empty host is the loopback address, port 0 any free one
    :param guarded: whether a page needs the token
    :raises OSError: if the address cannot be listened on; ``filename`` is the address
    :ivar url: to be opened in a browser
    """

    def __init__(self, command: Sequence[str], *, title: str, listen: Address, guarded: bool = True) -> None:
        self._socket = _listening(listen[0] or LOOPBACK, listen[1])
        host, port = self._socket.getsockname()[:2]
        process = shlex.join([sys.executable, "-P", "-m", "kproxy", *command])
        super().__init__(f"exec {process}", host=host, port=port, title=title)
        self._token = secrets.token_urlsafe(_TOKEN_BYTES) if guarded else ""
        self._cookie = f"kproxy-{port}"  # browsers share cookies between all ports of a host
        self._pages = 0
        self.url = f"http://{address_text(host, port)}/{f'?token={self._token}' if guarded else ''}"

    def serve(self, debug: bool = False) -> None:
        """Serve until a signal ends it."""
        web.run_app(self._make_app(), sock=self._socket, print=None, access_log=None)

    async def _make_app(self) -> web.Application:
        app = await super()._make_app()
        app.middlewares.append(self._guard)
        return app

    async def on_startup(self, app: web.Application) -> None:
        """Print the URL."""
        notice(f"open {self.url} in a browser; Ctrl-C ends it")

    @web.middleware
    async def _guard(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        given = request.query.get("token", "")
        if self._token and not self._is_token(given or request.cookies.get(self._cookie, "")):
            raise web.HTTPForbidden(text="kproxy: open the URL that kproxy printed, with its token\n")
        if given:  # keeps it out of the history and of screenshots
            found = web.HTTPFound(request.path)
            found.set_cookie(self._cookie, given, httponly=True, samesite="Lax")
            raise found
        response = await handler(request)
        if not response.prepared:
            response.headers.update(_HEADERS)
        return response

    def _is_token(self, given: str) -> bool:
        return secrets.compare_digest(given.encode(), self._token.encode())

    async def handle_index(self, request: web.Request) -> Any:
        """Return the page, which connects to the server by the name that the browser used."""
        scheme = request.headers.get("X-Forwarded-Proto", request.scheme)
        self.public_url = f"{'https' if scheme == 'https' else 'http'}://{request.host}"
        response: Any = await super().handle_index(
            request
        )  # textual-serve's decorator makes a response of its dict
        response.text = response.text.replace("</body>", _FOCUS)
        return response

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run the UI on a page."""
        origin = request.headers.get("Origin", "")
        if origin and origin.partition("://")[2] != request.host:
            raise web.HTTPForbidden(text="kproxy: this is not a page of kproxy\n")
        if self._pages >= MOST_PAGES:
            raise web.HTTPServiceUnavailable(text=f"kproxy: {MOST_PAGES} pages are open already\n")
        self._pages += 1
        try:
            return await super().handle_websocket(request)
        finally:
            self._pages -= 1


def _listening(host: str, port: int) -> socket.socket:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server((host, port), family=found[0][0])
    except OSError as error:
        raise OSError(error.errno, error.strerror, address_text(host, port)) from None
