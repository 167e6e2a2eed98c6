"""Replay from the UI: collect recorded requests, plan, send, and pair new with recorded responses.

A job of the session first copies the requests out of the capture, which is not accessed afterwards. Planning and
sending wait for the network, so they run in their own threads (:mod:`kproxy.replay` does the work).
"""

from __future__ import annotations

import asyncio
import logging
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from captures.exchanges import Exchange, ExchangeReader
from captures.faults import Faults
from dissectors.apis import api_name
from dissectors.frames import Body
from dissectors.session_context import SessionContext
from kproxy.proxy.own_requests import OwnRequestError
from kproxy.proxy.tls.security import PLAINTEXT, Security
from kproxy.replay.cluster import LiveCluster
from kproxy.replay.cluster_queries import live_cluster
from kproxy.replay.pace import Pace
from kproxy.replay.permission import allowed_keys, refusal
from kproxy.replay.plan import NODE_APIS, Plan, Planner, named_topics, recorded_nodes
from kproxy.replay.results import Outcome, Results
from kproxy.replay.run import Replay
from kproxy.session.access import Access
from kproxy.session.engine import Steps

_log = logging.getLogger(__name__)

MOST_EXCHANGES = 1_000
MOST_BYTES = 64 << 20
"""Most bytes of frames, which are all kept, decoded. ``kproxy replay`` has no such limit."""
_MOST_INFORMATIVE = 200
"""The latest exchanges that are searched for addresses of recorded brokers."""
_TOGETHER = 16

Address = tuple[str, int]


class ReplayError(Exception):
    """A replay is impossible; the text is for the user."""


@dataclass(frozen=True, slots=True)
class CollectedRequests:
    """Requests to replay, copied from the capture.

    :ivar exchanges: in the order of their requests
    :ivar knowledge: resolves recorded topic IDs
    :ivar nodes: node IDs of recorded brokers by address
    :ivar answer_times: ns since the epoch of the last byte of each response, by row of the exchange table
    """

    exchanges: Sequence[Exchange]
    knowledge: SessionContext
    nodes: dict[str, int]
    answer_times: Sequence[int]

    @property
    def writing(self) -> Counter[str]:
        """The number of requests per API that change something."""
        found: Counter[str] = Counter()
        for exchange in self.exchanges:
            request = exchange.request
            if request is not None and request.value is not None:
                reason = refusal(request.key, request.asked, request.value, frozenset())
                if reason and not refusal(
                    request.key, request.asked, request.value, _everything(request.key)
                ):
                    found[api_name(request.key)] += 1
        return found


def _everything(key: int) -> frozenset[int]:
    return allowed_keys(["InitProducerId"]) | {key}


def collecting(numbers: Iterable[int]) -> Callable[[Access], Steps[CollectedRequests]]:
    """Return the job that copies requests by their exchange numbers.

    The job raises :class:`ReplayError` if there are too many.
    """
    wanted = sorted(set(numbers))

    def job(access: Access) -> Steps[CollectedRequests]:
        if len(wanted) > MOST_EXCHANGES:
            raise ReplayError(
                f"{len(wanted):,} exchanges are too many to be replayed here, {MOST_EXCHANGES:,} are not: "
                "kproxy replay sends any number"
            )
        exchanges: list[Exchange] = []
        size = 0
        for index, exchange in enumerate(access.exchanges(wanted)):
            size += exchange.request_size + exchange.response_size
            if size > MOST_BYTES:
                raise ReplayError(
                    f"these exchanges have more than {MOST_BYTES >> 20} MiB: kproxy replay sends any number"
                )
            exchanges.append(exchange)
            if index % _TOGETHER == 0:
                yield
        nodes = yield from _nodes(access)
        times = array(
            "q", np.ascontiguousarray(access.capture.table.column("response_last"), np.int64).tobytes()
        )
        return CollectedRequests(exchanges, access.plain.knowledge, nodes, times)

    return job


def _nodes(access: Access) -> Steps[dict[str, int]]:
    """Return node IDs by address, from the latest exchanges that contain them."""
    reader = access.plain
    keys = access.capture.table.column("api_key")[reader.rows]
    informative = np.isin(keys, list(NODE_APIS)).nonzero()[0][-_MOST_INFORMATIVE:].tolist()
    found: dict[str, int] = {}
    for index in informative:
        found.update(recorded_nodes([reader.exchange(index)]))
        yield
    return found


@dataclass(frozen=True, slots=True)
class ReplayChoices:
    """Options of a replay.

    :ivar brokers: bootstrap addresses of the live cluster
    :ivar writes: names of APIs that change something but may be sent
    :ivar speed: multiple of the recorded speed; None for as fast as responses arrive
    :ivar timeout: seconds beyond the recorded latency after which a response counts as missing
    """

    brokers: tuple[Address, ...]
    writes: tuple[str, ...] = ()
    speed: float | None = None
    timeout: float = 30.0
    security: Security = PLAINTEXT
    keep_offsets: bool = False


@dataclass(slots=True)
class ReplayPlan:
    """A plan of what to send.

    :ivar cluster: the live cluster
    """

    collected: CollectedRequests
    wish: ReplayChoices
    cluster: LiveCluster
    plan: Plan


async def planned(collected: CollectedRequests, wish: ReplayChoices) -> ReplayPlan:
    """Query the live cluster, and plan the replay.

    :raises ReplayError: if the cluster cannot be reached
    """
    return await asyncio.to_thread(_plan, collected, wish)


def _plan(collected: CollectedRequests, wish: ReplayChoices) -> ReplayPlan:
    allowed = allowed_keys(wish.writes)
    topics = named_topics(collected.exchanges, allowed, collected.knowledge)
    try:
        cluster = asyncio.run(live_cluster(wish.brokers, wish.security, topics, wish.timeout))
    except OwnRequestError as error:
        raise ReplayError(str(error)) from None
    planner = Planner(cluster, allowed, collected.knowledge, collected.nodes, collected.answer_times)
    for index, exchange in enumerate(collected.exchanges):
        planner.add(index, exchange)
    return ReplayPlan(collected, wish, cluster, planner.plan)


@dataclass(slots=True)
class ReplayedExchange:
    """One replayed request with both responses, not annotated.

    :ivar recorded: the recorded response, None if there is none
    :ivar new: the new response, None if there is none
    """

    outcome: Outcome
    recorded: Body | None
    new: Body | None


class _TakenAnswer:
    """The part of an exchange reader that a replay uses: exchanges by index, and knowledge."""

    def __init__(self, collected: CollectedRequests) -> None:
        self._exchanges = collected.exchanges
        self.knowledge = collected.knowledge

    def exchange(self, index: int) -> Exchange:
        return self._exchanges[index]


@dataclass(slots=True)
class ReplayRun:
    """A running replay.

    :ivar answered: results so far, in the order of arrival; only grows
    :ivar results: the results in total
    :ivar faults: internal errors with single exchanges, which their results mention too
    """

    planned: ReplayPlan
    answered: list[ReplayedExchange] = field(default_factory=list)
    results: Results = field(default_factory=Results)
    faults: Faults = field(default_factory=Faults)
    _loop: asyncio.AbstractEventLoop | None = None
    _task: asyncio.Task[None] | None = None
    _cancelled: bool = False

    @property
    def total(self) -> int:
        """Number of requests to send."""
        return len(self.planned.plan.steps)

    async def run(self) -> None:
        """Send everything, in a thread, and wait for the responses or for :meth:`cancel`.

        :raises ReplayError: if the cluster lacks something that the plan needs
        """
        try:
            await asyncio.to_thread(lambda: asyncio.run(self._run()))
        except OwnRequestError as error:
            raise ReplayError(str(error)) from None
        except ExceptionGroup as group:
            _log.exception("replaying failed")
            raise ReplayError(f"replaying failed: {group.exceptions[0]!r}") from None

    async def _run(self) -> None:
        self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
        wish = self.planned.wish
        # the capture may grow meanwhile, so the exchanges were copied out of it
        reader = cast(ExchangeReader, _TakenAnswer(self.planned.collected))
        replay = Replay(
            reader,
            self.planned.plan,
            self.planned.cluster,
            wish.security,
            Pace(wish.speed, wish.timeout),
            self._report,
            self.faults,
            keep_offsets=wish.keep_offsets,
        )
        if self._cancelled:
            return
        try:
            await replay.run()
        except asyncio.CancelledError:
            if not self._cancelled:
                raise

    def _report(self, outcome: Outcome, recorded: Body | None, new: Body | None) -> None:
        self.results.add(outcome)
        self.answered.append(ReplayedExchange(outcome, recorded, new))

    def cancel(self) -> None:
        """Stop sending, and stop waiting for responses."""
        self._cancelled = True
        if self._loop is not None and self._task is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._task.cancel)
