"""The control socket: how other processes query and control the data plane.

A Unix stream socket that only its user may open, with one JSON object per line in both directions:

* ``{"id": 1, "do": "status"}`` is answered by ``{"id": 1, "ok": {...}}`` or ``{"id": 1, "error": "..."}``; the other
  keys of a request are the command's parameters;
* ``{"do": "hello", "control": true}`` makes the connection a controller; other connections may not run commands that
  change something. With ``"lasting": false`` it may run them without counting as a controller: it is about to leave
  again;
* ``{"do": "commands"}`` is answered by descriptions of all commands;
* ``{"do": "subscribe"}`` asks for events, which arrive between answers as ``{"event": "...", ...}``.

The server runs on the forwarding loop, so nothing here blocks: a client that does not read its events loses them (and
gets their number, ``{"event": "lost", "count": 3}``), and kproxy does not read from a client that does not read its
answers.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property
from inspect import signature
from pathlib import Path
from struct import Struct
from types import TracebackType
from typing import Any, cast

import msgspec

PROTOCOL = 1
"""Version of the protocol on the socket."""

MOST_LINE = 16 << 20
"""Bytes of a line; it may contain an edited frame."""
MOST_WAITING = 1 << 20
"""Unsent bytes of a connection beyond which its events are dropped."""
MOST_CONNECTIONS = 64
_LONGEST_PATH = 100  # sun_path has 108 bytes on Linux, 104 elsewhere (unix(7))
_TAKE = 1 << 16
_CREDENTIALS = Struct("3i")  # struct ucred: pid, uid, gid (unix(7))

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode
_log = logging.getLogger(__name__)


class CommandError(Exception):
    """A command cannot be carried out; the message is for its sender."""


class ClosedError(ConnectionError):
    """The data plane has closed the connection, or no longer runs."""


class Command:
    """A command that a function carries out.

    :param function: its arguments are the command's parameters; it returns a value for JSON, and raises CommandError
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _parameters(self) -> type[msgspec.Struct]:
        """The parameters; made when the command is first used, because most runs use few."""
        fields = [
            (each.name, each.annotation, *([] if each.default is each.empty else [each.default]))
            for each in signature(self._function, eval_str=True).parameters.values()
        ]
        return msgspec.defstruct(self._function.__name__, fields, forbid_unknown_fields=True)

    def __call__(self, values: dict[str, Any]) -> Any:
        """Carry it out.

        :raises CommandError: if parameters are missing, unknown or of another type, and for the user's mistakes: the
            LookupErrors and ValueErrors of the function. Its KeyErrors and IndexErrors are bugs, and pass
        """
        try:
            return self._function(**msgspec.structs.asdict(msgspec.convert(values, self._parameters)))
        except (KeyError, IndexError):  # LookupErrors, too, but of a bug
            raise
        except (msgspec.ValidationError, LookupError, ValueError) as error:
            # a FilterError renders its position; importing the class would import all code for rules
            render = getattr(error, "render", None)
            raise CommandError(str(error) if render is None else render()) from None

    def description(self, *, changes: bool) -> dict[str, Any]:
        """Return what it does and a JSON Schema of its parameters.

        :param changes: whether it changes something
        """
        schema = msgspec.json.schema(self._parameters)["$defs"][self._parameters.__name__]
        return {"about": self._function.__doc__, "changes": changes, "parameters": schema}


def by_name(*functions: Callable[..., Any]) -> dict[str, Command]:
    """Return commands by the names of their functions."""
    return {each.__name__: Command(each) for each in functions}


class ControlServer:
    """Answers commands and publishes events, on the loop that :meth:`start` was called in.

    :param path: of the socket, in a folder that only its user may enter
    :param commands: by name, in addition to ``commands``, ``hello`` and ``subscribe``
    :param changing: names of the commands that change something
    :param on_last_controller: called when the last lasting controller leaves
    :param prepare: called in a thread when the first controller connects; commands of controllers wait for it
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        commands: Mapping[str, Command],
        changing: frozenset[str] = frozenset(),
        on_last_controller: Callable[[], None] = lambda: None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self._path = Path(path)
        self._commands = commands
        self._changing = changing
        self._on_last_controller = on_last_controller
        self._prepare = prepare
        self._prepared: asyncio.Future[None] | None = None
        self._server: asyncio.AbstractServer | None = None
        self._connections: set[_Connection] = set()
        self._subscribers: set[_Connection] = set()

    async def start(self) -> None:
        """Open the socket.

        :raises OSError: if it cannot be created
        """
        made = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(self._path) as name:
                made.bind(name)
            self._path.chmod(0o600)
            made.setblocking(False)
            self._server = await asyncio.get_running_loop().create_unix_server(
                lambda: _Connection(self), sock=made
            )
        except BaseException:
            made.close()
            raise

    async def close(self) -> None:
        """Close the socket and all connections, without calling `on_last_controller`."""
        if self._server is not None:
            self._on_last_controller = lambda: None
            self._server.close()
            for connection in list(self._connections):
                connection.end()
            await self._server.wait_closed()
            self._server = None
            self._path.unlink(missing_ok=True)

    @property
    def controllers(self) -> int:
        """The number of lasting controllers."""
        return sum(connection.control and connection.lasting for connection in self._connections)

    def publish(self, event: Mapping[str, Any]) -> None:
        """Send an event, ``{"event": "...", ...}``, to all subscribers that keep up with theirs."""
        if self._subscribers:
            line = _encode(event) + b"\n"
            for connection in self._subscribers:
                connection.push(line)

    # ------------------------------------------------------------ called by connections
    def _admit(self, connection: _Connection, transport: asyncio.Transport) -> str:
        """Register a connection; return why it is refused, empty if it is accepted."""
        self._connections.add(connection)
        if len(self._connections) > MOST_CONNECTIONS:
            return f"there are {MOST_CONNECTIONS} control connections already"
        user = _peer(transport.get_extra_info("socket"))
        if user is not None and user not in (0, os.geteuid()):
            return f"the proxy belongs to another user than {user}"
        return ""

    def _gone(self, connection: _Connection) -> None:
        self._connections.discard(connection)
        self._subscribers.discard(connection)
        if connection.control and connection.lasting and not self.controllers:
            self._on_last_controller()

    def _answer(self, connection: _Connection, line: bytes) -> bytes:
        """Carry out the command in `line`; return the answer as a line."""
        number: Any = None
        try:
            request = _decode(line)
            number = request.pop("id", None)
            return _encode({"id": number, "ok": self._do(connection, request)}) + b"\n"
        except CommandError as error:
            text = str(error)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            text = f"not understood: {error}"
        except Exception as error:
            _log.exception("a control command failed")
            text = f"failed: {type(error).__name__}: {error}"
        return _encode({"id": number, "error": text}) + b"\n"

    def _do(self, connection: _Connection, request: dict[str, Any]) -> Any:
        name = request.pop("do", None)
        if name == "hello":
            return self._hello(connection, request)
        if name == "subscribe":
            self._subscribers.add(connection)
            return {}
        if name == "commands":
            return {
                name: command.description(changes=name in self._changing)
                for name, command in self._commands.items()
            }
        command = self._commands.get(name) if isinstance(name, str) else None
        if command is None:
            known = ", ".join(sorted((*self._commands, "commands", "hello", "subscribe")))
            raise CommandError(f"there is no command {name!r}; there are {known}")
        if name in self._changing and not connection.control:
            raise CommandError(f"{name} changes something, and this connection may only look")
        return command(request)

    def _hello(self, connection: _Connection, request: dict[str, Any]) -> dict[str, Any]:
        was = connection.control and connection.lasting
        connection.control = request.get("control") is True
        connection.lasting = request.get("lasting", True) is not False
        if was and not self.controllers:
            self._on_last_controller()
        if connection.control and self._prepare is not None:
            if self._prepared is None:
                loop = asyncio.get_running_loop()
                self._prepared = loop.run_in_executor(None, self._prepare)
            connection.wait_for(self._prepared)
        return {"protocol": PROTOCOL, "control": connection.control, "controllers": self.controllers}


class _Connection(asyncio.Protocol):
    """A connection of the server."""

    def __init__(self, server: ControlServer) -> None:
        self._server = server
        self._transport: asyncio.Transport | None = None
        self._received = bytearray()
        self._searched = 0
        self._paused = False
        self._waiting = False
        self._lost = 0
        self.control = False
        self.lasting = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports are no subclass
        self._transport.set_write_buffer_limits(high=MOST_WAITING)
        refused = self._server._admit(self, self._transport)
        if refused:
            self._refuse(refused)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._server._gone(self)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._answer_lines()

    def eof_received(self) -> bool:
        return False  # a client that asks nothing more has left

    def pause_writing(self) -> None:
        self._paused = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._lost:
            lost, self._lost = self._lost, 0
            self.push(_encode({"event": "lost", "count": lost}) + b"\n")
        self._answer_lines()
        if self._transport is not None and not self._paused:
            self._transport.resume_reading()

    def push(self, line: bytes) -> None:
        """Send an event, or count it as lost."""
        if self._paused or self._transport is None:
            self._lost += 1
        else:
            self._transport.write(line)

    def end(self) -> None:
        """Close at once and drop unsent data."""
        if self._transport is not None:
            self._transport.abort()

    def wait_for(self, future: asyncio.Future[None]) -> None:
        """Answer nothing more until the future is done."""
        if not future.done():
            self._waiting = True
            future.add_done_callback(self._continue)

    def _continue(self, _: asyncio.Future[None]) -> None:
        self._waiting = False
        self._answer_lines()

    def _may_answer(self) -> bool:
        transport = self._transport
        return transport is not None and not (self._paused or self._waiting or transport.is_closing())

    def _answer_lines(self) -> None:
        while self._may_answer():
            assert self._transport is not None
            end = self._received.find(b"\n", self._searched)
            if end < 0:
                self._searched = len(self._received)
                if self._searched > MOST_LINE:
                    self._refuse(f"a line has more than {MOST_LINE >> 20} MiB")
                return
            line = bytes(self._received[:end])
            del self._received[: end + 1]
            self._searched = 0
            if line.strip():
                self._transport.write(self._server._answer(self, line))

    def _refuse(self, why: str) -> None:
        self._received.clear()
        if self._transport is not None:
            self._transport.write(_encode({"id": None, "error": why}) + b"\n")
            self._transport.close()


class ControlClient:
    """A blocking connection to a control socket, for one thread.

    :param path: of the socket
    :param control: become a controller, which may run commands that change something
    :param lasting: count as a controller: when the last one leaves, all holds are released
    :param timeout: seconds to wait for an answer
    :raises OSError: if nothing listens there
    :raises CommandError: if the server refuses
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        control: bool = False,
        *,
        lasting: bool = True,
        timeout: float = 10.0,
    ) -> None:
        self._timeout = timeout
        self._number = 0
        self._received = bytearray()
        self._events: deque[dict[str, Any]] = deque()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short(Path(path)) as name:
                self._socket.connect(name)
            self.call("hello", control=control, lasting=lasting)
        except BaseException:
            self._socket.close()
            raise

    def call(self, do: str, /, **parameters: Any) -> Any:
        """Run a command and return its value.

        :raises CommandError: with the server's message
        :raises ClosedError: if the server has closed the connection
        :raises TimeoutError: if it does not answer; the connection cannot be used any more
        """
        self._number += 1
        self._socket.settimeout(self._timeout)
        with suppress(BrokenPipeError, ConnectionResetError):  # the reason for closing may still be readable
            self._socket.sendall(_encode({"id": self._number, "do": do, **parameters}) + b"\n")
        while True:
            answer = self._line()
            if "event" in answer:
                self._events.append(answer)
            elif "error" in answer:
                raise CommandError(answer["error"])
            elif answer.get("id") == self._number:
                return answer.get("ok")

    def events(self, timeout: float | None = None) -> Iterator[dict[str, Any]]:
        """Yield events as they arrive, after ``call("subscribe")``.

        :param timeout: seconds without an event after which iteration ends, None to wait for ever
        :raises ClosedError: if the connection is closed
        """
        while True:
            while self._events:
                yield self._events.popleft()
            if self._socket.fileno() < 0:
                raise ClosedError("this connection was closed")
            self._socket.settimeout(timeout)
            try:
                line = self._line()
            except TimeoutError:
                return
            if "event" in line:
                self._events.append(line)

    def close(self) -> None:
        """Close the connection. Another thread that waits for events wakes up and gets a ClosedError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def __enter__(self) -> ControlClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _line(self) -> dict[str, Any]:
        searched = 0
        while (end := self._received.find(b"\n", searched)) < 0:
            searched = len(self._received)
            try:
                data = self._socket.recv(_TAKE)
            except TimeoutError:
                raise
            except OSError:  # reset, or closed by another thread
                data = b""
            if not data:
                raise ClosedError("the proxy has closed its control connection")
            self._received += data
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        return _decode(line)


def _peer(connection: Any) -> int | None:
    """Return the user ID of the peer, None if the system does not provide it."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:  # elsewhere the folder's permissions decide alone
        return None
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, option, _CREDENTIALS.size))
    return int(user)


@contextmanager
def _short(path: Path) -> Iterator[str]:
    """Yield a name for the socket that is short enough for ``sun_path``."""
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
