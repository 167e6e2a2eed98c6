"""Filters evaluated on single frames as they pass."""

from __future__ import annotations

from collections.abc import Callable

from captures.exchanges import Exchange
from captures.exchanges.exchange import annotate
from captures.exchanges.table import Flag
from captures.filters import Context, binding, grammar, nodes
from captures.filters.columns import fields_of
from captures.filters.fields import Field
from captures.filters.paths import Path
from dissectors.annotate import Annotator
from dissectors.api_keys import ApiKey
from dissectors.apis import NAMES, api, api_name
from dissectors.frames import decode_request, decode_response
from dissectors.headers import SIZE_BYTES, request_frame, response_frame
from dissectors.units import MS
from kproxy.addresses import address_text
from kproxy.proxy.rules.parser import Condition
from kproxy.proxy.verdicts import UNKNOWN_API, Frame, Peers

ALL_APIS = frozenset((UNKNOWN_API, *range(len(NAMES))))


class Matcher:
    """Decides whether frames match a condition.

    :ivar apis: keys of the APIs whose frames may match, and :data:`UNKNOWN_API`
    :ivar needs_names: whether it refers to topics, which may be known only by ID
    :ivar needs_embedded: whether it refers to fields of an embedded protocol
    """

    def __init__(self, condition: Condition) -> None:
        text = condition.wanted.text
        bound = binding.bind(grammar.parse(text), text, None)
        fields = list(fields_of(bound))
        self._wanted = condition.wanted
        self.side = condition.side
        self.apis = _possible(bound)
        self.needs_names = any(isinstance(field, Field) and field.mentions == "topic" for field in fields)
        self.needs_embedded = any(isinstance(field, Path) and field.embedded_at for field in fields)

    def match(self, exchange: Exchange, context: Context) -> bool:
        """Return whether an exchange matches, as far as it is known when the frame passes.

        :raises LimitReached: if a limit leaves that undecided
        """
        return self._wanted.match_strictly(exchange, context)


def _possible(bound: binding.Bound) -> frozenset[int]:
    """Return the keys of the APIs whose frames may match a filter."""
    match bound:
        case nodes.And(items):
            return ALL_APIS.intersection(*map(_possible, items))
        case nodes.Or(items):
            return frozenset[int]().union(*map(_possible, items))
        case nodes.Not(item):
            return _possibly_not(item)
        case binding.Test(Path(apis=keys), _):
            return keys
        case binding.Test(Field(name="api"), predicate):
            return _named(predicate.holds)
        case binding.Test(Field() as field, _):
            possible = field.possible_apis()
            return ALL_APIS if possible is None else possible
        case _:
            return ALL_APIS


def _possibly_not(bound: binding.Bound) -> frozenset[int]:
    """Return the keys of the APIs whose frames may fail to match a filter."""
    match bound:
        case nodes.And(items):
            return frozenset[int]().union(*map(_possibly_not, items))
        case nodes.Or(items):
            return ALL_APIS.intersection(*map(_possibly_not, items))
        case nodes.Not(item):
            return _possible(item)
        case binding.Test(Field(name="api"), predicate):
            return _named(lambda name: not predicate.holds(name))
        case _:
            return ALL_APIS


def _named(holds: Callable[[str], bool]) -> frozenset[int]:
    return frozenset(key for key in ALL_APIS if key == UNKNOWN_API or holds(api_name(key)))


def exchange_of(frame: Frame, annotator: Annotator | None = None) -> Exchange:
    """Return the exchange of a frame as far as it is known when the frame passes, for a filter.

    A response brings its request along, if :attr:`~kproxy.proxy.verdicts.Frame.request` is set. The latency ends with
    the last byte of the response, not with its first as in captures: the frame is inspected when it is complete.

    :param annotator: reads embedded protocols, if the filter refers to them
    """
    asked = frame if frame.side == "request" else frame.request
    made = Exchange(
        number=0,
        row=0,
        connection=frame.peers.connection,
        client=address_text(*frame.peers.client),
        broker=address_text(*frame.peers.broker),
        client_id=frame.peers.client_id,
        api_key=frame.api_key,
        version=frame.version,
        correlation_id=frame.correlation_id,
        time=frame.time if asked is None else asked.time,
        latency=None,
        request_size=0 if asked is None else len(asked.data),
        response_size=len(frame.data) if frame.side == "response" else 0,
        flag=Flag(0),
        request=None,
        response=None,
        upstream=frame.peers.upstream,
    )
    if asked is not None:
        _add_request(made, asked)
    if frame.side == "response":
        _add_response(made, frame)
    if annotator is not None:
        annotate(made, annotator)
    return made


def _add_request(made: Exchange, frame: Frame) -> None:
    body = made.request = decode_request(frame.data[SIZE_BYTES:])
    made.problems.extend(("request", problem) for problem in body.problems)
    if body.header:
        made.client_id = body.header.get("client_id")
    if frame.api_key == ApiKey.PRODUCE and (body.value or {}).get("acks") == 0:
        made.flag |= Flag.NO_RESPONSE_EXPECTED


def _add_response(made: Exchange, frame: Frame) -> None:
    body = made.response = decode_response(frame.data[SIZE_BYTES:], frame.api_key, frame.version)
    made.problems.extend(("response", problem) for problem in body.problems)
    if frame.request is not None:
        made.latency = frame.time - frame.request.time
    made.find_errors()
    made.find_wait()


# ---------------------------------------------------------------- everything
_SAMPLED = (
    ApiKey.PRODUCE,
    ApiKey.FETCH,
    ApiKey.METADATA,
    ApiKey.JOIN_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.API_VERSIONS,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.DESCRIBE_ACLS,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
)


def matches_everything(condition: Condition) -> bool:
    """Return whether a condition excludes nothing that matters.

    Determined by trial, which ``version >= 0`` does not escape: it is evaluated on small frames of different APIs,
    between different peers, quick ones and slow ones. ``not topic == orders`` counts as matching everything too, and
    nearly does.
    """
    matcher = Matcher(condition)
    if not matcher.apis.issuperset(_SAMPLED):
        return False
    context = Context(start=0)
    samples = [
        (Peers(1, ("10.0.0.1", 40_000), ("10.1.0.1", 9092), 1, "app"), 0),
        (Peers(2, ("2001:db8::2", 51_111), ("192.0.2.7", 19_094), 2, "other"), 20_000 * MS),
    ]
    return all(
        matcher.match(exchange_of(_sample(key, condition, peers, latency)), context)
        for key in _SAMPLED
        for peers, latency in samples
    )


def _sample(key: int, condition: Condition, peers: Peers, latency: int) -> Frame:
    known = api(key)
    assert known is not None
    version = known.request.versions.last if peers.connection == 1 else known.request.versions.first
    asked, answered = known.request[version], known.response[version]
    head = {"correlation_id": peers.connection, "client_id": peers.client_id}
    data = request_frame(asked, head, asked.build({}))
    request = Frame(peers, "request", data, key, version, peers.connection, peers.connection * 3_600_000 * MS)
    if condition.side == "request":
        return request
    data = response_frame(answered, peers.connection, answered.build({}))
    return Frame(
        peers, "response", data, key, version, peers.connection, request.time + latency, request=request
    )
