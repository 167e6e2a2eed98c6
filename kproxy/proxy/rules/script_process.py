"""The process of a script: decodes each frame, calls the script's function, and encodes what it changed.

The data plane starts it with the file as its argument, and ends it (:mod:`kproxy.proxy.rules.scripts`).
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import redirect_stdout
from copy import deepcopy
from dataclasses import dataclass, replace
from io import StringIO
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO

import msgspec

from dissectors.api_keys import ApiKey
from dissectors.apis import api, api_name
from dissectors.headers import response_frame
from kproxy.addresses import address_text
from kproxy.proxy.rules import edits
from kproxy.proxy.rules.actions import error_code, failed
from kproxy.proxy.rules.arguments import duration_text
from kproxy.proxy.rules.distributions import LONGEST_DELAY
from kproxy.proxy.rules.errors import EditError
from kproxy.proxy.rules.scripts import LENGTH_BYTES, TIME_LIMIT, ScriptReply
from kproxy.proxy.verdicts import Frame

_MOST_PRINTED = 1000
_LOADING_SECONDS = 60


@dataclass(slots=True)
class ScriptExchange:
    """An exchange as scripts see it; docs/faults.md describes it.

    :ivar time: seconds since the epoch at which the message arrived
    :ivar request: body of the request; None for a response whose request was not seen
    :ivar response: body of the response; a script that assigns one in ``request`` answers the request
    :ivar error: name or number of an error, to be reported to the client
    :ivar delay: seconds to wait before the message continues
    """

    api: str
    version: int
    correlation_id: int
    connection: int
    client: str
    client_id: str | None
    broker: str
    node_id: int | None
    time: float
    request: dict[str, Any] | None
    response: dict[str, Any] | None = None
    error: str | int | None = None
    delay: float = 0.0


class Script:
    """A script that is loaded, or could not be.

    :ivar failure: why it could not be loaded, empty if it was
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._module = ModuleType("kproxy_script")  # not the file's name: it may be that of another module
        self._module.__file__ = str(path)
        sys.modules[self._module.__name__] = self._module  # dataclasses look it up there
        self.failure = ""
        try:
            exec(compile(path.read_bytes(), path, "exec"), self._module.__dict__)  # noqa: S102
        except (Exception, SystemExit) as error:
            self.failure = self._described(error)

    def reply(self, frame: Frame) -> ScriptReply:
        """Return what the script decides about a frame. Never raises."""
        if self.failure:
            return ScriptReply(failure=self.failure)
        printed = StringIO()
        try:
            with redirect_stdout(printed):
                reply = self._decided(frame)
        except (Exception, SystemExit) as error:
            reply = ScriptReply(failure=self._described(error))
        reply.printed = printed.getvalue().strip()[-_MOST_PRINTED:]
        return reply

    def _decided(self, frame: Frame) -> ScriptReply:
        function = getattr(self._module, frame.side, None)
        if function is None:
            raise EditError(f"there is no function {frame.side}")
        exchange = _exchange_of(frame)
        before = deepcopy(getattr(exchange, frame.side))
        function(exchange)
        delay = min(max(float(exchange.delay), 0.0), LONGEST_DELAY / 1e9)
        reply = self._message(frame, exchange, before)
        reply.delay = delay
        done = [reply.words, f"delayed by {duration_text(round(delay * 1e6) * 1000)}" if delay else ""]
        reply.words = f"{self._path.name}: {', '.join(filter(None, done)) or 'left unchanged'}"
        return reply

    def _message(self, frame: Frame, exchange: ScriptExchange, before: Any) -> ScriptReply:
        """Return the reply for the message alone, without the delay."""
        if frame.side == "request" and exchange.response is not None:
            return ScriptReply("answered", b"", _answer(frame, exchange.response))
        reply, after = ScriptReply(), getattr(exchange, frame.side)
        if after != before:
            data, changed = edits.with_body(frame, after, str.encode)
            reply = ScriptReply("changed", data, changed=changed)
            frame = replace(frame, data=data)
        if exchange.error is None:
            return reply
        code = error_code(str(exchange.error))
        if not code:
            raise EditError(f"there is no error {exchange.error}")
        verdict, words, changed = failed(frame, code)
        changed = (*reply.changed, *changed)
        return ScriptReply(words, verdict.data, verdict.answer, ending=verdict.ending, changed=changed)

    def _described(self, error: BaseException) -> str:
        """Return an error with its last line in the script."""
        line, at = 0, error.__traceback__
        while at is not None:
            if at.tb_frame.f_code.co_filename == str(self._path):
                line = at.tb_lineno
            at = at.tb_next
        text = str(error) if isinstance(error, EditError) else f"{type(error).__name__}: {error}"
        return f"{self._path.name}{f', line {line}' if line else ''}: {text}"


def _exchange_of(frame: Frame) -> ScriptExchange:
    peers, asked = frame.peers, frame if frame.side == "request" else frame.request
    return ScriptExchange(
        api=api_name(frame.api_key),
        version=frame.version,
        correlation_id=frame.correlation_id,
        connection=peers.connection,
        client=address_text(*peers.client),
        client_id=peers.client_id,
        broker=address_text(*peers.broker),
        node_id=peers.node_id,
        time=frame.time / 1e9,
        request=None if asked is None else _body(asked),
        response=_body(frame) if frame.side == "response" else None,
    )


def _body(frame: Frame) -> dict[str, Any]:
    """Return the body of a frame, records fields as batches."""
    body = edits.decoded(frame)
    layout = body.message(response=frame.side == "response")
    assert layout is not None, "what has a value was read with a layout"
    assert body.value is not None
    return edits.with_batches(layout.struct, body.value)


def _answer(frame: Frame, value: Any) -> bytes:
    """Return a response with the body `value` to a request.

    :raises EditError: if it is not a body of a response to it
    """
    known = api(frame.api_key)
    if known is None or frame.version not in known.response.versions:
        raise EditError(
            f"{api_name(frame.api_key)} v{frame.version} is not known here, so it cannot be answered"
        )
    if frame.api_key == ApiKey.PRODUCE and (edits.decoded(frame).value or {}).get("acks") == 0:
        raise EditError("a Produce request with acks=0 gets no response")
    layout = known.response[frame.version]
    return response_frame(layout, frame.correlation_id, edits.encoded(layout, value, str.encode))


def _serve(path: Path, calls: BinaryIO, replies: BinaryIO) -> None:
    signal.alarm(_LOADING_SECONDS)
    script = Script(path)
    signal.alarm(0)
    while len(head := calls.read(LENGTH_BYTES)) == LENGTH_BYTES:
        signal.alarm(ceil(2 * TIME_LIMIT))  # in case the data plane was killed and cannot end this process
        frame = msgspec.msgpack.decode(calls.read(int.from_bytes(head)), type=Frame)
        message = msgspec.msgpack.encode(script.reply(frame))
        signal.alarm(0)
        replies.write(len(message).to_bytes(LENGTH_BYTES) + message)
        replies.flush()


def main() -> None:
    """Answer calls from standard input on standard output until the data plane ends."""
    path = Path(sys.argv[1])
    calls, replies = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the script prints outside its functions, or its libraries print
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.dont_write_bytecode = True  # of modules beside the script: it would hide a change in the same second
    sys.path.insert(0, str(path.parent))
    sys.argv = [str(path)]
    _serve(path, calls, replies)
    os._exit(0)  # without waiting for threads of the script


if __name__ == "__main__":
    main()
