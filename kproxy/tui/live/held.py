"""A held message in the detail pane. It is not in the capture until it is released, so an exchange is made of it."""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from captures.exchanges import Exchange
from dissectors.annotate import Annotator
from dissectors.session_context import SessionContext
from dissectors.sides import Side
from kproxy.addresses import address
from kproxy.proxy.rules.matcher import exchange_of
from kproxy.proxy.verdicts import Frame, Peers
from kproxy.session.published import HeldMessage
from kproxy.tui.detail import Detail, detail_of
from kproxy.tui.live.link import Link


async def held_detail(link: Link, held: HeldMessage, *, show_secrets: bool = False) -> Detail:
    """Return the detail pane's content for a held message, and for a response also its request.

    :raises LinkError: if it was released meanwhile, or is too large to be shown
    """
    answer = await link.call("held", number=held.number)
    return await asyncio.to_thread(_detail, held, answer, show_secrets)


def _detail(held: HeldMessage, answer: Mapping[str, Any], show_secrets: bool) -> Detail:
    exchange = held_exchange(held, answer, show_secrets=show_secrets)
    return detail_of(exchange, show_secrets=show_secrets)


def held_exchange(held: HeldMessage, answer: Mapping[str, Any], *, show_secrets: bool = False) -> Exchange:
    """Return a held message as an annotated exchange with number 0.

    :param answer: answer of the control socket to ``held``
    """
    peers = Peers(held.connection, address(held.client), address(held.broker), client_id=held.client_id)
    asked = answer["response_to"]

    def frame(side: Side, data: str, request: Frame | None = None) -> Frame:
        key, version = answer["api_key"], answer["version"]
        return Frame(peers, side, b64decode(data), key, version, held.correlation_id, held.since, request)

    request = None if asked is None else frame("request", asked)
    annotator = Annotator(SessionContext(), show_secrets=show_secrets)
    made = exchange_of(frame(answer["side"], answer["frame"], request), annotator)
    made.latency = None  # the arrival of the request is unknown
    return made
