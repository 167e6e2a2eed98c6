"""All views beside the exchanges, in the order of their keys."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.session import Session
from kproxy.tui.live.link import Link
from kproxy.tui.views.base import View
from kproxy.tui.views.clients import Clients
from kproxy.tui.views.connections import Connections
from kproxy.tui.views.conversation import ConversationView
from kproxy.tui.views.errors import Errors
from kproxy.tui.views.faults import Faults
from kproxy.tui.views.findings import Findings
from kproxy.tui.views.groups import Groups
from kproxy.tui.views.incidents import Incidents
from kproxy.tui.views.latency import LatencyView
from kproxy.tui.views.records import Records
from kproxy.tui.views.topics import Topics


def views(session: Session, link: Link | None) -> Iterator[View]:
    """Yield the views of a session.

    :param link: to the session's proxy
    """
    for view in (
        Connections,
        Clients,
        Topics,
        Records,
        Groups,
        LatencyView,
        Errors,
        ConversationView,
        Findings,
        Incidents,
    ):
        yield view(session)
    yield Faults(session, link)
