"""Running the UI for a command."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Unpack

from kproxy.configuration import Configuration
from kproxy.output import notices_to
from kproxy.session import Session
from kproxy.signals import ended_by_signals
from kproxy.tui.app import AppOptions, KproxyApp
from kproxy.tui.config import settings_of
from kproxy.tui.dialogs.leave import Leaving
from kproxy.tui.live.link import Link
from kproxy.tui.settings import Settings
from kproxy.tui.themes import heed_color

_SWITCH_SECONDS = 0.0005
"""Switch interval of threads, short so that keys are handled while another thread decodes."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the user left the UI.

    :ivar leaving: whether a proxy ends or continues in the background
    :ivar complete: whether everything captured was read
    """

    leaving: Leaving
    complete: bool


class RunOptions(AppOptions, total=False):
    """Options for showing a session.

    :ivar color: with ``auto`` the settings decide
    :ivar control_socket: of the proxy that the session shows
    :ivar controls: whether the UI may control that proxy
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
    """Show a session on the terminal until the user quits.

    :param session: closed at the end
    :param configuration: the configuration file
    :param options: the rest of :class:`RunOptions`
    """
    settings = Settings(settings_of(configuration), keeps=not options.get("read_only"))
    link = None if control_socket is None else Link(control_socket, control=controls)
    heed_color(settings.config.color if color == "auto" else color)
    app = KproxyApp(session, settings, link=link, settled=settled, **options)
    try:
        with notices_to(app.notice), _quick_turns(), ended_by_signals(app.end_soon):
            leaving = app.run(mouse=settings.config.mouse)
    finally:
        if link is not None:
            link.close()
        session.close()
    return Outcome(leaving or "end", not (session.status.failure or session.status.lost or session.faults))


def settled() -> None:
    """Exclude the objects alive now from garbage collection, which takes longer the more there are.

    Nothing is collected first: a search through all objects stops every thread for longer than a key may take.
    """
    gc.freeze()


@contextmanager
def _quick_turns() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
