"""The summary of a request and of a response: one short line each, for every API.

Subject modules write the texts, each with a table ``SUMMARIES``: API key ->
:class:`~captures.meaning.exchange.SummaryWriter`. This module joins the tables,
puts errors before everything else, and quota delays after it.
"""

from __future__ import annotations

from typing import Any

from captures.meaning import (
    cluster,
    configs,
    data,
    groups,
    quorum,
    replication,
    security,
    share,
    streams,
    topics,
    transactions,
    words,
)
from captures.meaning.errors import ResponseError, errors_in, errors_text
from captures.meaning.exchange import Bodies, Body, Names, SummaryWriter, number
from captures.meaning.plans import paths
from dissectors import wire
from dissectors.api_keys import ApiKey
from dissectors.apis import api_name
from dissectors.frames import decode_request, decode_response
from dissectors.sides import Side

_NOTHING: Body = {}


def request_summary(key: int, version: int, body: Body | None, names: Names) -> str:
    """Summarise a request: ``orders-3  35 records 3.2k lz4``.

    :param version: as announced in the header
    :param body: as decoded, with record sets as bytes; partial or None if it was not captured completely
    :param names: topic ID -> name, None if unknown
    :return: one line without the API's name; empty if the API is unknown or there is nothing to say
    """
    summary = SUMMARIES.get(key)
    if summary is None or not body:
        return ""
    return words.line(summary.request(Bodies(key, version, body, _NOTHING, names)))


def response_summary(
    key: int,
    version: int,
    request_body: Body | None,
    response_body: Body | None,
    names: Names,
    latency_ns: int = -1,
    errors: list[ResponseError] | None = None,
) -> str:
    """Summarise a response: ``at offset 120``, ``orders-3 NOT_LEADER_OR_FOLLOWER``.

    Errors come first, by name. ``version`` is that of the request.

    :param request_body: the request; None if it was not captured, in which case the response is summarised by itself
    :param latency_ns: request to response, -1 if unknown
    :param errors: errors of the response (:func:`~captures.meaning.errors.errors_in`); searched for if None
    """
    summary = SUMMARIES.get(key)
    if summary is None or not response_body:
        return ""
    x = Bodies(key, version, request_body or _NOTHING, response_body, names, latency_ns)
    if errors is None:
        errors = errors_in(key, version, response_body)
    if errors:
        text = errors_text(errors, names)
        more = summary.on_error(x) if summary.on_error is not None else ""
        if more:
            text = f"{text}, {more}"
    else:
        text = summary.response(x)
    throttled = number(response_body, "throttle_time_ms", 0)
    if throttled > 0:
        text = words.listed((text, f"throttled {words.duration(throttled)}"))
    return words.line(text)


def summary_paths(key: int, version: int, side: Side) -> frozenset[str]:
    """Return the paths that summaries may read in a body."""
    summary = SUMMARIES.get(key)
    if summary is None:
        return frozenset()
    return paths(_innermost, key, version, side) - _on(side, summary.unread)


def inserted_paths(key: int, side: Side) -> frozenset[str]:
    """Return the numbers of a body that summaries insert unchanged (:attr:`SummaryWriter.inserted`)."""
    summary = SUMMARIES.get(key)
    return frozenset() if summary is None else _on(side, summary.inserted)


def _on(side: Side, fields: frozenset[str]) -> frozenset[str]:
    return frozenset(path.removeprefix(f"{side}.") for path in fields if path.startswith(f"{side}."))


def _innermost(struct: wire.Struct) -> tuple[str, ...]:
    return tuple(member.name for member in struct.all_members if wire.struct_inside(member.con) is None)


# ---------------------------------------------------------------- Envelope: an exchange inside an exchange
def envelope_request(x: Bodies) -> str:
    """Summarise a request that a broker forwards to the controller for a client (KIP-590)."""
    forwarded = x.request.get("request_data")
    if not isinstance(forwarded, bytes):
        return ""
    inside = decode_request(forwarded)
    text = (
        ""
        if inside.key == ApiKey.ENVELOPE
        else request_summary(inside.key, inside.asked, inside.value, x.names)
    )
    name = f"{api_name(inside.key)} v{inside.asked}" if inside.key >= 0 else "damaged request"
    return words.join(name, text, quorum.host(x.request.get("client_host_address")))


def envelope_response(x: Bodies) -> str:
    """Summarise the controller's response to the forwarded request."""
    asked, answer = x.request.get("request_data"), x.response.get("response_data")
    if not isinstance(asked, bytes) or not isinstance(answer, bytes):
        return "ok"
    inside = decode_request(asked)
    if inside.key in (ApiKey.ENVELOPE, -1):
        return "ok"
    # Envelope carries a whole response, header and body
    inner: dict[str, Any] | None = decode_response(answer, inside.key, inside.asked).value
    return response_summary(inside.key, inside.asked, inside.value, inner, x.names, x.latency_ns) or "ok"


SUMMARIES: dict[int, SummaryWriter] = {
    **data.SUMMARIES,
    **groups.SUMMARIES,
    **transactions.SUMMARIES,
    **topics.SUMMARIES,
    **configs.SUMMARIES,
    **security.SUMMARIES,
    **cluster.SUMMARIES,
    **replication.SUMMARIES,
    **quorum.SUMMARIES,
    **share.SUMMARIES,
    **streams.SUMMARIES,
    ApiKey.ENVELOPE: SummaryWriter(envelope_request, envelope_response),
}
"""API key -> its summary writer."""
