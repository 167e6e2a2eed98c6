"""``kproxy ctl hold``: stays while something is to be held, and shows what is."""

from __future__ import annotations

from threading import Event
from typing import Any

from kproxy.output import echo, echo_json
from kproxy.proxy.control import ControlClient
from kproxy.proxy.run_folder import Run
from kproxy.signals import ended_by_signals
from kproxy.text.control import held_line

_LOOK = 0.3  # seconds


def hold_until_interrupted(run: Run, wanted: str, *, as_json: bool) -> None:
    """Hold what fits until Ctrl-C, and print each message that is held, once.

    :raises CommandError: if the filter is not understood
    :raises ClosedError: if the proxy ends
    """

    ended = Event()
    with ControlClient(run.control_socket, True) as client, ended_by_signals(ended.set):
        side = client.call("set_hold", filter=wanted)["side"]
        echo(f"kproxy: holding matching {side}s until Ctrl-C", err=True)
        shown: set[int] = set()
        try:
            while not ended.wait(_LOOK):
                held: list[dict[str, Any]] = client.call("holds")["held"]
                for hold in held:
                    if hold["number"] not in shown:
                        echo_json(hold) if as_json else echo(held_line(hold))
                shown = {hold["number"] for hold in held}
        finally:
            client.call("set_hold", filter=None, side=side)
            released = client.call("release", number="all")["released"]
    echo(f"kproxy: holding ended, {released} released", err=True)
