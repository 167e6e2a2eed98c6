"""A server that answers clients as the recorded cluster did: ``kproxy replay --serve``.

Each recorded broker has a listener, whose port clients get in place of the broker's own, at the address to which they
connected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress

from captures.faults import Faults
from captures.meaning import request_summary
from captures.meaning.exchange import Names
from captures.meaning.waits import POLLS
from captures.packets.errors import CaptureError
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.budget import limit
from dissectors.error_codes import ErrorCode
from dissectors.frames import Body, decode_request, decode_response
from dissectors.headers import SIZE_BYTES, framed
from kproxy.addresses import Address, address_text
from kproxy.proxy.addresses import Broker, treatment_of
from kproxy.proxy.brokers import Brokers, Ports, UpstreamAddress
from kproxy.proxy.listeners import Listener, bind
from kproxy.proxy.rules.answers import error_response
from kproxy.proxy.rules.errors import AnswerError
from kproxy.replay.recorded_answers import SASL_MECHANISMS, RecordedAnswers, built

_MESSAGE = "this request is not in the capture that kproxy serves"
_MS_PER_SECOND = 1000
_MOST_CONNECTIONS = 1000  # further ones are closed
_IDLE_SECONDS = 600.0  # a broker's connections.max.idle.ms
_MOST_REPORTED = 1000  # requests that were not recorded; later ones are only counted


class RecordedCluster:
    """The listeners of a recorded cluster.

    :param names: returns the name of a recorded topic ID
    :param listen: where clients connect first; each broker gets its node ID added to the port after it, or any free
        port if that is taken
    :param report: called with sentences for the user
    :param faults: collects internal errors with single requests
    :ivar answered: number of requests answered as recorded
    :ivar missing: number of requests that were not recorded
    """

    def __init__(
        self,
        answers: RecordedAnswers,
        names: Names,
        listen: Address,
        report: Callable[[str], None],
        faults: Faults,
    ) -> None:
        self._answers = answers
        self._names = names
        self._host, self._port = listen
        self._report = report
        self._faults = faults
        self._listeners: list[Listener] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._reported: set[str] = set()
        self._is_full = False
        self.answered = 0
        self.missing = 0

    async def run(self, ended: asyncio.Event) -> None:
        """Serve until `ended` is set.

        :raises OSError: if the first address cannot be opened
        """
        port = self._listen(self._port)
        ports = Ports.parse("" if self._port else "any", port)
        self._brokers = Brokers(ports, self._host, self._listen_for, self._report_broker)
        self._report(f"listening on {address_text(self._host, port)}")
        await ended.wait()
        for listener in self._listeners:
            listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _listen(self, port: int, upstream: UpstreamAddress | None = None) -> int:
        loop = asyncio.get_running_loop()
        listener = Listener(loop, bind(self._host, port), self._accept, self._report, upstream)
        self._listeners.append(listener)
        return listener.port

    def _listen_for(self, upstream: UpstreamAddress, port: int) -> int:
        """Open the listener of a broker; return its port, 0 if none can be opened."""
        for each in (port, 0):
            with suppress(OSError):
                return self._listen(each, upstream)
        return 0

    def _report_broker(self, upstream: UpstreamAddress, _before: str) -> None:
        recorded = address_text(upstream.host, upstream.port)
        own = address_text(*self._brokers.address_of(upstream))
        self._report(f"{upstream.role} {upstream.node_id}, recorded at {recorded}, is at {own}")

    # ------------------------------------------------------------ clients
    def _accept(self, client: socket.socket, listener: Listener) -> None:
        if len(self._connections) >= _MOST_CONNECTIONS:
            client.close()
            if not self._is_full:
                self._report(f"{_MOST_CONNECTIONS:,} connections are open: more are closed at once")
            self._is_full = True
            return
        self._is_full = False
        node = None if listener.upstream is None else listener.upstream.node_id
        connection = asyncio.create_task(self._serve(client, node))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _serve(self, client: socket.socket, node: int | None) -> None:
        try:
            name = address_text(*client.getpeername()[:2])
            reader, writer = await asyncio.open_connection(sock=client)
        except OSError:  # it has already gone
            client.close()
            return
        try:
            await self._answer_all(reader, writer, name, node)
        except (AnswerError, CaptureError) as error:
            self._report(f"the connection of {name} was closed: {error}")
        except (asyncio.IncompleteReadError, OSError):
            pass  # the client has ended it, or sent or read nothing for long (TimeoutError)
        except Exception as error:
            self._faults.note(error, "answering a request")
        finally:
            writer.close()

    async def _answer_all(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, client: str, node: int | None
    ) -> None:
        """Answer requests one after the other, as a broker does.

        :raises AnswerError: if a request cannot be answered
        :raises asyncio.IncompleteReadError: if the client has ended the connection
        :raises OSError: if the connection breaks
        :raises CaptureError: if the capture cannot be read any more
        """
        reached: str = writer.get_extra_info("sockname")[0]  # clients cannot connect to 0.0.0.0

        def advertise(broker: Broker) -> Address:
            return reached, self._brokers.advertise(broker)[1]

        while True:
            async with asyncio.timeout(_IDLE_SECONDS):
                size = int.from_bytes(await reader.readexactly(SIZE_BYTES), signed=True)
                if not 0 <= size <= limit("frame_bytes"):
                    raise AnswerError("it did not send a Kafka request")
                request = decode_request(await reader.readexactly(size))
            answer = self._answer(request, client, node)
            if answer is None:
                continue
            if request.key in POLLS:
                await asyncio.sleep(_wait_s(request, answer))
            treatment = treatment_of(request.key, request.asked)
            if treatment is not None and treatment.rewrite is not None:
                answer = treatment.rewrite(answer, advertise).frame
            writer.write(answer)
            async with asyncio.timeout(_IDLE_SECONDS):
                await writer.drain()

    def _answer(self, request: Body, client: str, node: int | None) -> bytes | None:
        """Return the response to a request, None if it gets none.

        :raises AnswerError: if it was not recorded, and cannot be answered with an error
        """
        if request.key == ApiKey.PRODUCE and (request.value or {}).get("acks") == 0:
            return None
        mechanism = (request.value or {}).get("mechanism") if request.version == request.asked else None
        if request.key == ApiKey.SASL_HANDSHAKE and mechanism not in (None, *SASL_MECHANISMS):
            self._note_missing(
                f"{mechanism} cannot be served: use PLAIN or OAUTHBEARER, or no SASL", request, client
            )
            error = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            return built(request, {"error_code": error, "mechanisms": SASL_MECHANISMS})
        answer = self._answers.response(request, node)
        if answer is not None:
            self.answered += 1
            return answer
        summary = request_summary(request.key, request.asked, request.value, self._names)
        sentence = f"not recorded: {api_name(request.key)} v{request.asked} {summary}".rstrip()
        self._note_missing(sentence, request, client)
        code = ErrorCode.UNKNOWN_SERVER_ERROR
        if request.key == ApiKey.API_VERSIONS:  # a version not known here: clients ask again in a lower one
            code = ErrorCode.UNSUPPORTED_VERSION
        return error_response(framed(request.raw), code, _MESSAGE)

    def _note_missing(self, sentence: str, request: Body, client: str) -> None:
        """Count a request that cannot be answered as recorded, and report it unless the client repeats it."""
        self.missing += 1
        if sentence not in self._reported and len(self._reported) < _MOST_REPORTED:
            self._reported.add(sentence)
            self._report(f"{sentence}, sent by {request.header.get('client_id')} at {client}")


def _wait_s(poll: Body, answer: bytes) -> float:
    """Return the seconds that a broker holds a poll back if it has nothing to report."""
    assert poll.value is not None
    body = decode_response(answer[SIZE_BYTES:], poll.key, poll.asked).value or {}
    partitions = [row for topic in body["responses"] for row in topic["partitions"]]
    if body.get("error_code") or any(row["records"] or row["error_code"] for row in partitions):
        return 0.0
    wait: int = max(poll.value["max_wait_ms"], 0)
    return wait / _MS_PER_SECOND
