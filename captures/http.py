"""Requests to servers that the user named."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPResponse
from ssl import SSLContext
from threading import Lock, Timer
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

    :raises TimeoutError: if a connection was ended before its answer was complete
    """
    handler = _DeadlineHandler(context)
    timer = Timer(seconds, handler.end)
    timer.daemon = True
    timer.start()
    try:
        yield build_opener(_NoRedirects, handler)
    finally:
        timer.cancel()
        with handler.ending:
            cut = handler.cut
        if cut:
            raise TimeoutError(f"no answer in {seconds:g} s") from None


class _DeadlineHandler(HTTPHandler, HTTPSHandler):
    """Opens connections that another thread can end.

    :ivar ending: held while connections are being ended, since their reader wakes up before `cut` is set
    :ivar cut: whether it has ended one that was in use
    """

    def __init__(self, context: SSLContext | None) -> None:
        HTTPSHandler.__init__(self, context=context)
        self._sockets: list[socket.socket] = []
        self._ended = self.cut = False
        self.ending = Lock()

    def do_open(self, http_class: Callable[..., HTTPConnection], req: Request, **args: Any) -> HTTPResponse:
        def made(*given: Any, **more: Any) -> HTTPConnection:
            connection = http_class(*given, **more)
            connect = connection.connect

            def connected() -> None:
                connect()
                self._sockets.append(connection.sock)
                if self._ended:
                    self.end()

            connection.connect = connected  # type: ignore[method-assign]
            return connection

        return super().do_open(made, req, **args)

    def end(self) -> None:
        """End all connections, also those that are being opened."""
        with self.ending:
            self._ended = True
            for each in self._sockets:
                with suppress(OSError):  # closed after a complete answer
                    # TLS's own would take the session from its reader
                    socket.socket.shutdown(each, socket.SHUT_RDWR)
                    self.cut = True
