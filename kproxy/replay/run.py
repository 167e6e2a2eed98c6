"""Sends the requests of a plan: one task for each recorded connection, and one for each expected response.

A recorded connection becomes a connection to each broker that its requests go to, opened for the first of them; a
connection that has ended is reopened if there is more to send.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic_ns
from typing import Any

from captures.exchanges import Exchange, ExchangeReader
from captures.faults import Faults, described
from captures.meaning import errors_in, request_summary, response_summary
from dissectors.api_keys import ApiKey
from dissectors.error_codes import COORDINATOR_AWAY
from dissectors.frames import Body, decode_response
from dissectors.units import SECOND
from kproxy.proxy.own_requests import BrokerConnection, OwnRequestError
from kproxy.proxy.tls.security import Security
from kproxy.replay.cluster import LiveCluster, Node
from kproxy.replay.cluster_queries import ask_for_coordinator, ask_for_producer
from kproxy.replay.fetch_sessions import FetchSession
from kproxy.replay.pace import Pace
from kproxy.replay.plan import Plan, Step
from kproxy.replay.request_encoding import EncodedRequest, NotSendableError, encoded, frame
from kproxy.replay.response_comparison import compared
from kproxy.replay.results import Outcome
from kproxy.replay.value_mapping import ValueMapping

_PAUSE = 0.2


@dataclass(slots=True)
class _PendingRequest:
    """A request in flight."""

    step: Step
    exchange: Exchange
    outcome: Outcome
    built: EncodedRequest
    session: FetchSession | None
    connection: BrokerConnection = field(init=False)
    answer: asyncio.Future[bytes] = field(init=False)
    time: int = 0


class Replay:
    """One run of a plan.

    :param reader: of the capture that the plan was made from
    :param report: called with each outcome as it arrives
    :param faults: collects internal errors with single exchanges; the others are sent all the same
    :param keep_offsets: send recorded offsets unchanged
    """

    def __init__(
        self,
        reader: ExchangeReader,
        plan: Plan,
        cluster: LiveCluster,
        security: Security,
        pace: Pace,
        report: Callable[[Outcome, Body | None, Body | None], None],
        faults: Faults,
        *,
        keep_offsets: bool = False,
    ) -> None:
        self._reader = reader
        self._plan = plan
        self._cluster = cluster
        self._security = security
        self._pace = pace
        self._report = report
        self._faults = faults
        self._values = ValueMapping(reader.knowledge, cluster, keep_offsets=keep_offsets)
        self._done = bytearray(len(plan.steps))
        self._waited: dict[int, asyncio.Future[None]] = {}
        self._begin = 0

    async def run(self) -> None:
        """Send everything, and wait for all expected responses.

        :raises OwnRequestError: if the cluster does not provide what the plan needs before the first request
        """
        await self._introduce_producers()
        by_connection: dict[int, list[int]] = defaultdict(list)
        for index, step in enumerate(self._plan.steps):
            by_connection[step.connection].append(index)
        self._begin = monotonic_ns()
        async with asyncio.TaskGroup() as tasks:
            for indexes in by_connection.values():
                tasks.create_task(self._connection(indexes))

    async def _introduce_producers(self) -> None:
        if not self._plan.producers:
            return
        brokers = _Brokers(self._security, self._pace.timeout)
        try:
            connection = await brokers.to(self._cluster.counterpart(-1))
            for recorded in sorted(self._plan.producers):
                live = await ask_for_producer(connection, self._pace.timeout)
                self._values.learn_producer(recorded, live)
        finally:
            await brokers.close()

    # ------------------------------------------------------------ one recorded connection
    async def _connection(self, indexes: list[int]) -> None:
        brokers = _Brokers(self._security, self._pace.timeout)
        try:
            async with asyncio.TaskGroup() as responses:
                for index in indexes:
                    step = self._plan.steps[index]
                    await self._wait_until_due(step)
                    try:
                        sent = await self._send(step, brokers)
                    except Exception as error:
                        key, version = step.api_key, step.version
                        self._fail(
                            Outcome(step.number, step.connection, key, version, step.sent_version), error
                        )
                        sent = None
                    if sent is None:
                        self._finish(index)
                    else:
                        responses.create_task(self._receive(index, sent, brokers))
        finally:
            await brokers.close()

    async def _wait_until_due(self, step: Step) -> None:
        """Wait until a request may be sent."""
        for other in step.after:
            if not self._done[other]:
                waited = self._waited.get(other)
                if waited is None:
                    waited = self._waited[other] = asyncio.get_running_loop().create_future()
                await waited
        if self._pace.speed is not None:
            due = (step.time - self._plan.steps[0].time) / self._pace.speed
            left = self._begin + due - monotonic_ns()
            if left > 0:
                await asyncio.sleep(left / SECOND)

    def _finish(self, index: int) -> None:
        self._done[index] = 1
        waited = self._waited.pop(index, None)
        if waited is not None and not waited.done():
            waited.set_result(None)

    async def _send(self, step: Step, brokers: _Brokers) -> _PendingRequest | None:
        """Send a request; if that fails, report why and return None."""
        exchange = self._reader.exchange(step.index)
        request = exchange.request
        assert request is not None
        assert request.value is not None  # else it would not have been planned
        outcome = self._outcome(step, exchange, request)
        try:
            body, session = self._values.request(step.api_key, step.version, request.value)
            built = encoded(step.api_key, step.version, body, self._cluster.versions, self._cluster)
            outcome.sent_version = built.version
            sent = _PendingRequest(step, exchange, outcome, built, session)
            await self._send_to_broker(sent, brokers)
        except (OwnRequestError, NotSendableError) as error:
            outcome.failure = str(error)
            self._report(outcome, exchange.response, None)
            return None
        return sent

    async def _send_to_broker(self, sent: _PendingRequest, brokers: _Brokers) -> None:
        """Send a request to its current target broker.

        :raises OwnRequestError: if that fails
        """
        step, request = sent.step, sent.exchange.request
        assert request is not None
        node = await self._target(step, brokers)
        connection = await brokers.to(node)
        sent.outcome.broker = str(node)
        data = frame(request.header, connection.next_correlation_id(), step.api_key, sent.built)
        sent.time = monotonic_ns()
        sent.connection = connection
        sent.answer = await connection.send_raw(data, answered=step.answered)

    def _outcome(self, step: Step, exchange: Exchange, request: Body) -> Outcome:
        names = self._reader.knowledge.topic_name
        asked = request_summary(step.api_key, step.version, request.value, names)
        outcome = Outcome(step.number, step.connection, step.api_key, step.version, step.sent_version, asked)
        response = exchange.response
        if response is not None and response.value is not None:
            latency = -1 if exchange.latency is None else exchange.latency
            version = response.asked if response.version is None else response.version
            outcome.recorded_latency = exchange.latency
            outcome.recorded_errors = tuple(each.code for each in exchange.errors)
            outcome.recorded = response_summary(
                step.api_key, version, request.value, response.value, names, latency
            )
        return outcome

    async def _target(self, step: Step, brokers: _Brokers) -> Node:
        found = self._cluster.target(step.route, step.node)
        if found is not None:
            return found
        connection = await brokers.to(self._cluster.counterpart(step.node))
        kind, key = step.route.key
        return await ask_for_coordinator(connection, self._cluster, kind, key, self._pace.timeout)

    def _fail(self, outcome: Outcome, error: Exception) -> None:
        """Report an internal error with an exchange.

        :raises Exception: as :meth:`~captures.faults.Faults.note` does
        """
        self._faults.note(error, "sending it again", outcome.number)
        outcome.failure = f"an internal error in kproxy: {described(error)}"
        self._report(outcome, None, None)

    async def _receive(self, index: int, sent: _PendingRequest, brokers: _Brokers) -> None:
        """Wait for a response and report it; then let requests that waited for it be sent."""
        try:
            await self._process_answer(sent, brokers)
        except Exception as error:
            self._fail(sent.outcome, error)
        self._finish(index)

    async def _process_answer(self, sent: _PendingRequest, brokers: _Brokers) -> None:
        """Wait for a response, learn from it, and compare it."""
        exchange, outcome = sent.exchange, sent.outcome
        new: Body | None = None
        try:
            async with asyncio.timeout(self._pace.timeout + (exchange.latency or 0) / SECOND):
                new = await self._response(sent, brokers)
        except TimeoutError:
            # if the recording has no answer either, nothing is missing
            outcome.failure = "" if exchange.response is None else "not answered in time"
            await sent.connection.close()  # as clients do: a late response would be taken for the next one
        except OwnRequestError as error:
            outcome.failure = str(error)
        self._learn(sent, new)
        if new is not None:
            self._compare(sent, new)
        self._report(outcome, exchange.response, new)

    async def _response(self, sent: _PendingRequest, brokers: _Brokers) -> Body | None:
        """Return the response, None if none is expected.

        While a coordinator is not ready, unless the recorded one was not either, the request is sent again, as clients
        do.

        :raises OwnRequestError: if there will be none
        """
        step, outcome = sent.step, sent.outcome
        while True:
            data = await sent.answer
            if not step.answered:
                return None
            outcome.latency = monotonic_ns() - sent.time
            new = decode_response(data[4:], step.api_key, sent.built.version)
            version = new.asked if new.version is None else new.version
            outcome.errors = tuple(each.code for each in errors_in(step.api_key, version, new.value))
            if not COORDINATOR_AWAY.intersection(outcome.errors) - set(outcome.recorded_errors):
                return new
            if step.route.kind == "coordinator":
                self._cluster.forget_coordinator(*step.route.key)
            elif step.api_key != ApiKey.FIND_COORDINATOR:
                return new
            await asyncio.sleep(_PAUSE)
            await self._send_to_broker(sent, brokers)

    def _learn(self, sent: _PendingRequest, new: Body | None) -> None:
        recorded = sent.exchange.response
        request = sent.exchange.request
        assert request is not None
        assert request.value is not None
        self._values.learn(
            sent.step.api_key,
            request.value,
            None if recorded is None or recorded.problems else recorded.value,
            sent.built.body,
            None if new is None or new.problems else new.value,
            sent.session,
        )

    def _live_name(self, topic_id: str) -> str | None:
        """Return a topic's name; for topics that it does not have, the live broker repeats recorded IDs."""
        return self._cluster.topic_name(topic_id) or self._reader.knowledge.topic_name(topic_id)

    def _compare(self, sent: _PendingRequest, new: Body) -> None:
        outcome, recorded = sent.outcome, sent.exchange.response
        key, names = sent.step.api_key, self._live_name
        version = new.asked if new.version is None else new.version
        if new.value is not None:
            asked: dict[str, Any] = sent.built.body
            outcome.new = response_summary(key, version, asked, new.value, names, outcome.latency or -1)
        if new.problems:
            outcome.failure = f"the answer cannot be read: {new.problems[0].reason}"
        elif recorded is not None and not recorded.problems:
            outcome.comparable = True
            found = compared(recorded, new, self._reader.knowledge.topic_name, names)
            outcome.differences, outcome.expected = found


class _Brokers:
    """The live connections that stand for one recorded connection, by node ID."""

    def __init__(self, security: Security, timeout: float) -> None:
        self._security = security
        self._timeout = timeout
        self._connections: dict[int, BrokerConnection] = {}

    async def to(self, node: Node) -> BrokerConnection:
        """Return the connection to a broker, a new one if there is none or it has ended.

        :raises OwnRequestError: if it cannot be made
        """
        found = self._connections.get(node.node_id)
        if found is not None and not found.ended:
            return found
        if found is not None:
            await found.close()
        made = await BrokerConnection.connect(node.host, node.port, self._security, timeout=self._timeout)
        self._connections[node.node_id] = made
        return made

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
