"""The way from a command into the UI and back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from kproxy.configuration import Configuration
from kproxy.output import told_to
from kproxy.session import Session
from kproxy.signals import ended_by_signals
from kproxy.tui.app import AppOptions, KproxyApp, Leaving
from kproxy.tui.config import settings_of
from kproxy.tui.live.link import Link
from kproxy.tui.settings import Settings
from kproxy.tui.themes import heed_color

_SWITCH_SECONDS = 0.0005
"""How long a thread may keep the others waiting: keys are answered while something is decoded."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a UI was left.

    :ivar leaving: what is to become of a proxy
    :ivar complete: whether all that was captured was read
    """

    leaving: Leaving
    complete: bool


class RunOptions(AppOptions, total=False):
    """How a session is shown.

    :ivar color: where it is ``auto``, the settings decide
    :ivar control_socket: of the proxy that the session is of
    :ivar controls: whether the UI may change what that proxy does
    """

    color: Literal["auto", "always", "never"]
    control_socket: Path | None
    controls: bool


def run(
    session: Session,
    configuration: Configuration,
    *,
    color: Literal["auto", "always", "never"] = "auto",
    control_socket: Path | None = None,
    controls: bool = True,
    **options: Unpack[AppOptions],
) -> Outcome:
    """Show a session on the terminal until the user leaves.

    :param session: not begun yet; it is ended then
    :param configuration: what the configuration file says
    :param options: the rest of :class:`RunOptions`
    """
    settings = Settings(settings_of(configuration), keeps=not options.get("read_only"))
    link = None if control_socket is None else Link(control_socket, control=controls)
    heed_color(settings.config.color if color == "auto" else color)
    app = KproxyApp(session, settings, link=link, settled=settled, **options)
    try:
        with told_to(app.notice), _quick_turns(), ended_by_signals(app.end_soon):
            leaving = app.run(mouse=settings.config.mouse)
    finally:
        if link is not None:
            link.close()
        session.close()
    return Outcome(leaving or "end", not (session.status.failure or session.status.lost or session.faults))


def settled() -> None:
    """Have the garbage collector look no more at what is there now; it takes longer, the more that is."""
    gc.collect()
    gc.freeze()


@contextmanager
def _quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
