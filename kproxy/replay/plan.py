"""Which recorded requests are sent, when and after which others, and why the rest are not.

**Order.** A client sent each request with the knowledge of all responses received until then. So a request waits for
the exchanges that were answered before its client sent it, on any connection; requests in flight at that moment stay in
flight, so pipelining is as recorded. A client is identified by its host and client ID. Between clients only time
decides.

**Time.** With a speed, a request is not sent before its time, counted from the first one, divided by that speed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from typing import Any

from captures.exchanges import Exchange, Flag
from captures.meaning import producers_in, topics_in
from dissectors.api_keys import PRODUCER_APIS, ApiKey
from dissectors.apis import api
from dissectors.session_context import SessionContext
from kproxy.replay import permission
from kproxy.replay.cluster import LiveCluster, Route
from kproxy.replay.fetch_sessions import has_known_partitions
from kproxy.replay.producers import Producer
from kproxy.replay.request_encoding import NotSendableError, encoded
from kproxy.replay.value_mapping import ValueMapping

NOT_CAPTURED = "the request was not captured"
UNDECODED = "not decoded to its end"
NOT_INTRODUCED = "its producer ID was given before the capture"
SESSION_BEGAN_BEFORE = "its fetch session began before the capture"


@dataclass(slots=True)
class Step:
    """A request that is sent.

    :ivar index: of its exchange, for :meth:`~captures.exchanges.ExchangeReader.exchange`
    :ivar sent_version: the version in which it is sent
    :ivar time: ns since the epoch at which the recorded one was sent
    :ivar node: node ID of the recorded broker, or a negative number that identifies it
    :ivar after: indexes in :attr:`Plan.steps` of steps that must be done before
    :ivar answered: whether a response is expected
    """

    index: int
    number: int
    connection: int
    api_key: int
    version: int
    sent_version: int
    time: int
    node: int
    route: Route
    after: tuple[int, ...] = ()
    answered: bool = True


@dataclass(frozen=True, slots=True)
class SentVersion:
    """A recorded version, the version in which it is sent, and the number of requests."""

    recorded: int
    sent: int
    count: int


@dataclass(slots=True)
class PlanRow:
    """The requests of one connection and API.

    :ivar versions: number of requests by recorded and sent version
    :ivar left_out: number of requests that are not sent, by reason
    :ivar targets: number of requests by destination: a broker, or ``coordinator of billing``
    :ivar led_elsewhere: partitions in them that their broker does not lead
    """

    JSON = (
        "connection client broker client_id api send=sent versions=sent_versions targets led_elsewhere "
        "left_out"
    )

    connection: int
    client: str
    broker: str
    client_id: str | None
    api: str
    sent: int = 0
    versions: Counter[tuple[int, int]] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    targets: Counter[str] = field(default_factory=Counter)
    led_elsewhere: int = 0

    @property
    def sent_versions(self) -> list[SentVersion]:
        """The versions in order, with the number of requests."""
        return [SentVersion(*versions, count) for versions, count in sorted(self.versions.items())]


@dataclass(slots=True)
class Plan:
    """The requests to send.

    :ivar steps: in the order in which the requests were recorded
    :ivar rows: by connection and API
    :ivar producers: recorded producers without a recorded InitProducerId: kproxy requests IDs for them
    """

    steps: list[Step] = field(default_factory=list)
    rows: dict[tuple[int, str], PlanRow] = field(default_factory=dict)
    producers: set[Producer] = field(default_factory=set)

    @property
    def duration(self) -> int:
        """Ns from the first request that is sent to the last, as recorded."""
        return self.steps[-1].time - self.steps[0].time if self.steps else 0

    @property
    def left_out(self) -> int:
        """The number of requests that are not sent."""
        return sum(row.left_out.total() for row in self.rows.values())


def named_topics(
    exchanges: Iterable[Exchange], allowed: frozenset[int], knowledge: SessionContext
) -> set[str]:
    """Return the topics named in requests that may be sent.

    :param knowledge: maps recorded topic IDs to names
    """
    found: set[str] = set()
    for exchange in exchanges:
        request = exchange.request
        if request is None or request.value is None or request.problems or request.version is None:
            continue
        if not permission.refusal(request.key, request.asked, request.value, allowed):
            found.update(topics_in(request.key, request.version, request.value, knowledge.topic_name))
    return found


NODE_APIS = frozenset({ApiKey.METADATA, ApiKey.FIND_COORDINATOR, ApiKey.DESCRIBE_CLUSTER})
"""APIs whose exchanges :func:`recorded_nodes` can learn from."""


def recorded_nodes(exchanges: Iterable[Exchange]) -> dict[str, int]:
    """Return the node IDs of recorded brokers by advertised address, ``host:port``."""
    found: dict[str, int] = {}
    for exchange in exchanges:
        if exchange.response is not None and exchange.response.value is not None:
            found.update(_nodes(exchange.api_key, exchange.response.value))
    return found


def _nodes(key: int | None, response: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    """Yield addresses of brokers, with their node IDs."""
    rows: Sequence[Mapping[str, Any]] = ()
    if key in (ApiKey.METADATA, ApiKey.DESCRIBE_CLUSTER) and response.get("endpoint_type", 1) == 1:
        rows = response.get("brokers") or ()
    elif key == ApiKey.FIND_COORDINATOR:
        rows = response.get("coordinators") or (response,)
    for row in rows:
        node = row.get("node_id", row.get("broker_id", -1))
        if row.get("host") and node >= 0:
            host = f"[{row['host']}]" if ":" in row["host"] else row["host"]
            yield f"{host}:{row.get('port')}", node


class Planner:
    """Makes a plan, exchange by exchange.

    :param knowledge: maps recorded topic IDs to names; complete
    :param nodes: from :func:`recorded_nodes`
    :param answer_times: ns since the epoch of the response's last byte, by row of the exchange table
    """

    def __init__(
        self,
        cluster: LiveCluster,
        allowed: frozenset[int],
        knowledge: SessionContext,
        nodes: Mapping[str, int],
        answer_times: Sequence[int],
    ) -> None:
        self.plan = Plan()
        self._cluster = cluster
        self._allowed = allowed
        self._nodes = dict(nodes)
        self._answer_times = answer_times
        self._values = ValueMapping(knowledge, cluster)
        self._clients: dict[tuple[str, str | None], _Client] = {}
        self._introduced: set[Producer] = set()

    def add(self, index: int, exchange: Exchange) -> None:
        """Plan an exchange. Exchanges must be added in the order of their requests.

        :param index: for :meth:`~captures.exchanges.ExchangeReader.exchange`
        """
        row = self._row(exchange)
        try:
            step = self._step(index, exchange)
        except NotSendableError as error:
            row.left_out[str(error)] += 1
            return
        client = exchange.client.rpartition(":")[0], exchange.client_id
        client_order = self._clients.setdefault(client, _Client())
        step.after = client_order.predecessors(step)
        if step.answered and exchange.response_size:
            client_order.answer(int(self._answer_times[exchange.row]), len(self.plan.steps), step.connection)
        self.plan.steps.append(step)
        row.sent += 1
        row.versions[step.version, step.sent_version] += 1
        row.targets[self._target(step)] += 1
        row.led_elsewhere += step.route.others

    def _row(self, exchange: Exchange) -> PlanRow:
        name = exchange.connection, exchange.api
        found = self.plan.rows.get(name)
        if found is None:
            found = self.plan.rows[name] = PlanRow(
                exchange.connection, exchange.client, exchange.broker, exchange.client_id, exchange.api
            )
        return found

    def _step(self, index: int, exchange: Exchange) -> Step:
        """Return the step of a request.

        :raises NotSendableError: if it is not sent
        """
        request = exchange.request
        if Flag.SASL_TOKEN in exchange.flag:
            raise NotSendableError(permission.SASL)
        if request is None:
            raise NotSendableError(NOT_CAPTURED)
        key, version, body = request.key, request.asked, request.value
        if body is None or request.problems or request.version != version:
            raise NotSendableError(UNDECODED if api(key) else permission.UNKNOWN)
        reason = permission.refusal(key, version, body, self._allowed)
        if reason:
            raise NotSendableError(reason)
        made, session = self._values.request(key, version, body)
        response = exchange.response_body
        if key == ApiKey.FETCH:
            self._values.sessions.recorded(session, response)
            if not has_known_partitions(session, body):
                raise NotSendableError(SESSION_BEGAN_BEFORE)
        sent_version = encoded(key, version, made, self._cluster.versions, self._cluster).version
        self._check_producers(key, version, body)
        if (
            key in (ApiKey.INIT_PRODUCER_ID, ApiKey.END_TXN)
            and response
            and response.get("producer_id", -1) >= 0
        ):
            self._introduced.add((response["producer_id"], response["producer_epoch"]))
        return Step(
            index=index,
            number=exchange.number,
            connection=exchange.connection,
            api_key=key,
            version=version,
            sent_version=sent_version,
            time=exchange.time,
            node=self._node(exchange),
            route=self._cluster.route(key, version, made),
            answered=not (key == ApiKey.PRODUCE and body["acks"] == 0),
        )

    def _check_producers(self, key: int, version: int, body: Mapping[str, Any]) -> None:
        """Check that each producer of a request will have an ID of the live cluster.

        :raises NotSendableError: if its transaction began before the capture: with the recorded ID the request would
            interfere with any transaction that has that ID there
        """
        unknown = {(each.producer_id, each.epoch) for each in producers_in(key, version, body)}
        unknown -= self._introduced
        if not unknown:
            return
        if key == ApiKey.PRODUCE and body.get("transactional_id") is None:
            self.plan.producers |= unknown
        elif key in PRODUCER_APIS:
            raise NotSendableError(NOT_INTRODUCED)

    def _node(self, exchange: Exchange) -> int:
        """Return the recorded broker's node ID, or, if it is unknown, a negative number that identifies it."""
        for address in (exchange.broker, *exchange.broker_names):
            if address in self._nodes:
                return self._nodes[address]
        unknown = sum(node < 0 for node in self._nodes.values())
        return self._nodes.setdefault(exchange.broker, -1 - unknown)

    def _target(self, step: Step) -> str:
        if step.route.kind == "coordinator":
            return f"coordinator of {step.route.key[1]}"
        return str(self._cluster.target(step.route, step.node))


class _Client:
    """The responses that a client had received at each moment of the recording."""

    def __init__(self) -> None:
        self._upcoming: list[tuple[int, int, int]] = []
        self._received: list[tuple[int, int]] = []  # connection, step
        self._seen: dict[int, int] = {}

    def answer(self, time: int, step: int, connection: int) -> None:
        """Record when a step was answered."""
        heappush(self._upcoming, (time, step, connection))

    def predecessors(self, step: Step) -> tuple[int, ...]:
        """Return the steps that a step must follow, except those that earlier ones of its connection follow."""
        while self._upcoming and self._upcoming[0][0] <= step.time:
            _, other, connection = heappop(self._upcoming)
            self._received.append((connection, other))
        begin = self._seen.get(step.connection, 0)
        self._seen[step.connection] = len(self._received)
        # responses arrive in order: the last one of a connection implies those before it
        return tuple(dict(self._received[begin:]).values())
