"""The way from a command into the UI and back."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from captures.filters import Filter
from kproxy.configuration import Configuration
from kproxy.output import told_to
from kproxy.session import Session
from kproxy.signals import ended_by_signals
from kproxy.tui.app import KproxyApp, Leaving
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


def run(
    session: Session,
    *,
    wanted: Filter | None = None,
    configuration: Configuration | None = None,
    color: Literal["auto", "always", "never"] = "auto",
    control_socket: Path | None = None,
    controls: bool = True,
    recorder: Callable[[], None] | None = None,
    run_name: str = "",
    ends_proxy: bool = False,
    read_only: bool = False,
) -> Outcome:
    """Show a session on the terminal until the user leaves.

    :param session: not begun yet; it is ended then
    :param wanted: what is shown first
    :param configuration: what the configuration file says; the usual one is read if None
    :param color: ``auto``, ``always`` or ``never``; where it is ``auto``, the settings decide
    :param control_socket: of the proxy that the session is of
    :param controls: whether the UI may change what that proxy does
    :param recorder: lets a flight recorder of this process keep the moment
    :param run_name: by which the proxy is found again
    :param ends_proxy: whether the proxy ends with the UI, unless the user wants it otherwise
    :param read_only: whether commands that do more than show are left out
    """
    settings = Settings(settings_of(configuration) if configuration else None, keeps=not read_only)
    link = None if control_socket is None else Link(control_socket, control=controls)
    heed_color(settings.config.color if color == "auto" else color)
    app = KproxyApp(
        session,
        settings,
        wanted=wanted,
        link=link,
        recorder=recorder,
        run_name=run_name,
        ends_proxy=ends_proxy,
        settled=settled,
        read_only=read_only,
    )
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
