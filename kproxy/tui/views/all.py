"""All views beside the exchanges; each is imported and made when it is first shown."""

from __future__ import annotations

from importlib import import_module

from kproxy.session import Session
from kproxy.tui.live.link import Link
from kproxy.tui.views.base import View
from kproxy.tui.views.faults import Faults

CLASSES = {
    "connections": "Connections",
    "clients": "Clients",
    "topics": "Topics",
    "records": "Records",
    "groups": "Groups",
    "latency": "LatencyView",
    "errors": "Errors",
    "conversation": "ConversationView",
    "findings": "Findings",
    "incidents": "Incidents",
}
"""Classes of the views of every session, by the names of the views, which are also those of their modules."""


def make_view(name: str, session: Session, link: Link | None) -> View:
    """Return a new view.

    :param link: to the session's proxy
    """
    if name == Faults.view_name:
        return Faults(session, link)
    made: type[View] = getattr(import_module(f"kproxy.tui.views.{name}"), CLASSES[name])
    return made(session)
