"""Requests to servers that the user named."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from ssl import SSLContext
from threading import Event, Timer
from typing import Any
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    Request,
    build_opener,
)


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirects: they could lead anywhere, with the credentials."""

    def redirect_request(self, *_: Any) -> None:
        return None


@contextmanager
def opener_within(seconds: float, context: SSLContext | None = None) -> Iterator[OpenerDirector]:
    """Yield an opener without redirects whose connections end after `seconds`, however the answers arrive.

    A timeout of a socket starts anew with each byte.

    :raises TimeoutError: if it took longer
    """
    handler, over = _Limited(context), Event()

    def end() -> None:
        over.set()
        handler.shut_down()

    timer = Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield build_opener(_NoRedirects, handler)
    finally:
        timer.cancel()
        if over.is_set():
            raise TimeoutError(f"no answer in {seconds:g} s") from None


class _Limited(HTTPHandler, HTTPSHandler):
    """Opens connections that another thread can end."""

    def __init__(self, context: SSLContext | None) -> None:
        HTTPSHandler.__init__(self, context=context)
        self._sockets: list[socket.socket] = []

    def do_open(self, http_class: Callable[..., HTTPConnection], req: Request, **args: Any) -> HTTPResponse:
        def made(*given: Any, **more: Any) -> HTTPConnection:
            connection = http_class(*given, **more)
            connect = connection.connect

            def connected() -> None:
                connect()
                self._sockets.append(connection.sock)

            connection.connect = connected  # type: ignore[method-assign]
            return connection

        return super().do_open(made, req, **args)

    def shut_down(self) -> None:
        for each in self._sockets:
            with suppress(OSError):
                socket.socket.shutdown(
                    each, socket.SHUT_RDWR
                )  # TLS's own would take the session from its reader
