"""The commands of the control socket over HTTP: ``kproxy proxy --control-http``.

``GET /status`` carries out a command that changes nothing, ``POST /add_rule`` one that changes something, with its
parameters as JSON, ``GET /events`` streams events. Every path but ``/health`` needs the token, as ``Authorization:
Bearer TOKEN``. ``/openapi.json`` is made from the control socket's description of its commands.

The server has a thread of its own, in the process beside the data plane, and talks to the control socket as ``kproxy
ctl`` does: the forwarding loop sees no HTTP.
"""

from __future__ import annotations

import logging
import secrets
import socket
import ssl
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import BoundedSemaphore, Thread
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from kproxy.addresses import Address
from kproxy.export_files import write_private
from kproxy.proxy.control import MOST_CONNECTIONS, MOST_LINE, CommandError, ControlClient

_TOKEN_BYTES = 24
_IDLE_SECONDS = 30.0
_LOOK = 0.1  # seconds
MOST_STREAMS = MOST_CONNECTIONS // 4
"""Streams of events at once: each has a connection to the control socket, whose others are for commands."""
_SILENCE = 10.0  # seconds without an event, then an empty line shows whether the client is still there
_MOST_BODY = MOST_LINE - 4096  # the line has the command's name, too
_MOST_REFUSED_BODY = 1 << 16  # bytes that are read without the token, so that the client reads the answer
_LONGEST_LENGTH = 20  # digits; int() refuses thousands
_log = logging.getLogger(__name__)


class _Answer(NamedTuple):
    """A response: its status, and a value for JSON."""

    status: HTTPStatus
    value: Any


class ControlHttp:
    """An HTTP server in a thread.

    :param address: to listen at; port 0 is any free one
    :param control_socket: of the data plane
    :param token: file with the token, created unless it exists
    :param certificate: PEM file with a certificate chain and its key, None for no TLS
    :raises OSError: if the address cannot be listened at, or a file cannot be read, used or written
    """

    def __init__(
        self, address: Address, control_socket: Path, token: Path, certificate: Path | None = None
    ) -> None:
        context = None if certificate is None else _tls_context(certificate)
        handler = partial(_Handler, control_socket, _token(token), BoundedSemaphore(MOST_STREAMS))
        self._server = _Server(address, handler)
        if context is not None:  # handshakes take place in the threads of connections
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self._thread = Thread(target=self._server.serve_forever, args=(_LOOK,), name="control", daemon=True)
        self._thread.start()

    def __enter__(self) -> ControlHttp:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def port(self) -> int:
        return self._server.server_port


def _token(path: Path) -> bytes:
    """Return the token in a file; an empty or missing file gets a new one.

    :raises OSError: if it cannot be read or written
    """
    token = path.read_bytes().strip() if path.exists() else b""
    if not token:
        token = secrets.token_urlsafe(_TOKEN_BYTES).encode()
        write_private(path, token + b"\n")
    return token


def _tls_context(certificate: Path) -> ssl.SSLContext:
    """Return a context for a server.

    :raises OSError: if the file cannot be read, or has no certificate with an unencrypted key
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        context.load_cert_chain(certificate, password="")
    except ssl.SSLError as error:
        why = f"no certificate with an unencrypted key, in PEM: {error.reason or error}"
        raise OSError(error.errno, why, str(certificate)) from None
    return context


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: Address, handler: Any) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, *_: object) -> None:
        """Ignore clients that leave early; other errors are answered."""


class _Handler(BaseHTTPRequestHandler):
    """Answers the requests of one connection."""

    protocol_version = "HTTP/1.1"
    server_version = "kproxy"
    sys_version = ""
    timeout = _IDLE_SECONDS

    def __init__(
        self, control_socket: Path, token: bytes, streams: BoundedSemaphore, *arguments: Any
    ) -> None:
        self._control_socket = control_socket
        self._token = token
        self._streams = streams
        super().__init__(*arguments)

    def do_GET(self) -> None:  # called by its base class
        self._respond(changes=False)

    def do_POST(self) -> None:  # called by its base class
        self._respond(changes=True)

    def log_message(self, *_: object) -> None:
        """Print nothing: the terminal shows exchanges."""

    def _respond(self, *, changes: bool) -> None:
        try:
            answer = self._answer(changes=changes)
        except CommandError as error:
            answer = _error(HTTPStatus.BAD_REQUEST, str(error))
        except OSError as error:  # the data plane has ended, is ending, or does not answer
            answer = _error(HTTPStatus.SERVICE_UNAVAILABLE, f"the proxy does not answer: {error}")
        except Exception as error:
            _log.exception("a control request failed")
            answer = _error(HTTPStatus.INTERNAL_SERVER_ERROR, f"failed: {type(error).__name__}: {error}")
        if answer is None:
            return
        body = msgspec.json.encode(answer.value) + b"\n"
        self.send_response(answer.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if answer.status == HTTPStatus.UNAUTHORIZED:
            self.send_header("WWW-Authenticate", "Bearer")
        self.end_headers()
        self.wfile.write(body)

    def _answer(self, *, changes: bool) -> _Answer | None:
        """Carry out the request; return None if the response was a stream.

        :raises CommandError: if the data plane refuses, or parameters cannot be read
        :raises OSError: if the data plane does not answer
        """
        is_allowed = self._is_allowed()
        most = _MOST_BODY if is_allowed else _MOST_REFUSED_BODY
        body = self._body(most)
        if body is None:
            return _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"send a Content-Length of at most {most:,}")
        try:
            url = urlsplit(self.path)
        except ValueError as error:
            raise CommandError(str(error)) from None
        name = url.path.strip("/")
        asks_health = name == "health" and not changes
        if not (is_allowed or asks_health):
            return _error(HTTPStatus.UNAUTHORIZED, "send the token as Authorization: Bearer TOKEN")
        if name == "events" and not changes:
            return self._stream()
        # not lasting: held messages do not depend on this connection
        with ControlClient(self._control_socket, changes, lasting=False) as client:
            if asks_health:
                return _Answer(HTTPStatus.OK, {"forwarding": client.call("status")["forwarding"]})
            commands = client.call("commands")
            if name == "openapi.json":
                return _Answer(HTTPStatus.OK, openapi(commands))
            if name not in commands:
                return _error(HTTPStatus.NOT_FOUND, f"there is no command {name!r}; see /openapi.json")
            if commands[name]["changes"] != changes:
                method = "GET" if changes else "POST"
                return _error(HTTPStatus.METHOD_NOT_ALLOWED, f"{name} needs {method}")
            parameters = _parameters(body) if changes else dict(map(_decoded, parse_qsl(url.query)))
            for reserved in {"do", "id"} & parameters.keys():  # of the line on the control socket
                raise CommandError(f"{reserved!r} is not a parameter of {name}")
            return _Answer(HTTPStatus.OK, client.call(name, **parameters))

    def _stream(self) -> _Answer | None:
        """Send events, a line each, until one side has gone.

        :returns: None after that; an error if there are too many streams
        """
        if not self._streams.acquire(blocking=False):
            why = f"{MOST_STREAMS} streams of events are open already"
            return _error(HTTPStatus.TOO_MANY_REQUESTS, why)
        try:
            with ControlClient(self._control_socket, lasting=False) as client:
                client.call("subscribe")
                with suppress(OSError):
                    self.send_response(HTTPStatus.OK)
                    self.send_header("Content-Type", _LINES)
                    self.send_header("Connection", "close")
                    self.end_headers()
                    while True:
                        for event in client.events(_SILENCE):
                            self.wfile.write(msgspec.json.encode(event) + b"\n")
                        self.wfile.write(b"\n")
        finally:
            self._streams.release()
        return None

    def _body(self, most: int) -> bytes | None:
        """Return the request's body, None if it is longer than `most` bytes.

        :raises CommandError: if it ends early
        """
        length = self.headers.get("Content-Length", "0")
        is_length = length.isdecimal() and len(length) <= _LONGEST_LENGTH
        if not is_length or int(length) > most or "Transfer-Encoding" in self.headers:
            self.close_connection = True
            return None
        body = b""
        with suppress(TimeoutError):
            body = self.rfile.read(int(length))
        if len(body) < int(length):
            self.close_connection = True
            raise CommandError(f"the body has fewer than {length} bytes")
        return body

    def _is_allowed(self) -> bool:
        scheme, _, token = self.headers.get("Authorization", "").partition(" ")
        # http.server decodes headers as ISO-8859-1
        return scheme.lower() == "bearer" and secrets.compare_digest(token.encode("latin-1"), self._token)


def _error(status: HTTPStatus, text: str) -> _Answer:
    return _Answer(status, {"error": text})


def _parameters(body: bytes) -> dict[str, Any]:
    """Return the parameters in a body.

    :raises CommandError: if it is not a JSON object
    """
    try:
        return msgspec.json.decode(body or b"{}", type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CommandError(f"the body is not a JSON object of parameters: {error}") from None


def _decoded(parameter: tuple[str, str]) -> tuple[str, Any]:
    name, text = parameter
    try:
        return name, msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError):
        return name, text


def openapi(commands: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the OpenAPI description of commands.

    :param commands: what the control socket answers to ``commands``
    """
    health = {
        "operationId": "health",
        "summary": "Return whether the proxy answers.",
        "security": [],
        "responses": _RESPONSES,
    }
    answers = {"200": {"description": _STREAM, "content": {_LINES: {}}}, "default": _RESPONSES["default"]}
    events = {"operationId": "events", "summary": "Stream events.", "responses": answers}
    paths = {f"/{name}": _operation(name, command) for name, command in commands.items()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "kproxy", "version": "1"},
        "security": [{"token": []}],
        "components": {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
        "paths": {"/health": {"get": health}, "/events": {"get": events}, **paths},
    }


_JSON = "application/json"
_LINES = "application/x-ndjson"
_STREAM = "JSON objects, a line each; empty lines while nothing happens. docs/ctl.md describes the events."
_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_RESPONSES = {
    "200": {"description": "Done; docs/ctl.md describes the answers.", "content": {_JSON: {}}},
    "default": {"description": "Not done.", "content": {_JSON: {"schema": _ERROR}}},
}


def _operation(name: str, command: dict[str, Any]) -> dict[str, Any]:
    """Return the path item of a command."""
    schema = command["parameters"]
    operation = {"operationId": name, "summary": command["about"], "responses": _RESPONSES}
    if command["changes"]:
        required = bool(schema.get("required"))
        return {
            "post": {
                **operation,
                "requestBody": {"required": required, "content": {_JSON: {"schema": schema}}},
            }
        }
    parameters = [
        {"name": each, "in": "query", "required": each in schema.get("required", ()), "schema": type_}
        for each, type_ in schema["properties"].items()
    ]
    return {"get": {**operation, "parameters": parameters}}
