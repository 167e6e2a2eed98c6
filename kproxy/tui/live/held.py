"""A held message as the detail pane shows it. It is no exchange of the capture before it goes on, so it is made one."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from captures.exchanges import Exchange
from captures.exchanges.table import Flag
from dissectors.annotate import Annotator
from dissectors.frames import SIZE_BYTES, decode_request, decode_response
from dissectors.knowledge import Knowledge
from kproxy.tui.detail import Detail, detail_of
from kproxy.tui.live.link import Link
from kproxy.tui.session.published import Held


async def held_detail(link: Link, held: Held, *, show_secrets: bool = False) -> Detail:
    """Return all there is to see of a held message: its fields and bytes, and of a response its request, too.

    :raises LinkError: if it has gone on, or is too large to be shown
    """
    answer = await link.call("held", number=held.number)
    return await asyncio.to_thread(_detail, held, answer, show_secrets)


def _detail(held: Held, answer: Mapping[str, Any], show_secrets: bool) -> Detail:
    exchange = held_exchange(held, answer, show_secrets=show_secrets)
    return detail_of(exchange, show_secrets=show_secrets)


def held_exchange(held: Held, answer: Mapping[str, Any], *, show_secrets: bool = False) -> Exchange:
    """Return a held message as an annotated exchange with the number 0.

    :param answer: what the control socket answers to ``held``
    """
    frame, asked = b64decode(answer["frame"]), answer["response_to"]
    request, response = frame, b""
    if answer["side"] == "response":
        request, response = b"" if asked is None else b64decode(asked), frame
    key, version = answer["api_key"], answer["version"]
    made = Exchange(
        number=0,
        row=-1,
        connection=held.connection,
        client=held.client,
        broker=held.broker,
        client_id=held.client_id,
        api_key=key,
        version=version,
        correlation_id=held.correlation_id,
        time=held.since,
        latency=None,
        request_size=len(request),
        response_size=len(response),
        flag=Flag(0),
        request=decode_request(request[SIZE_BYTES:]) if request else None,
        response=decode_response(response[SIZE_BYTES:], key, version) if response else None,
    )
    annotator = Annotator(Knowledge(), show_secrets=show_secrets)
    asking = None if made.request is None else made.request.value
    if made.request is not None:
        made.problems += [("request", problem) for problem in made.request.problems]
        annotator.annotate(made.request, "request", made.annotations)
    if made.response is not None:
        made.problems += [("response", problem) for problem in made.response.problems]
        annotator.annotate(made.response, "response", made.annotations, request=asking)
    return made
