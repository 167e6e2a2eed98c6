"""``kproxy ctl hold``: stays while something is to be held, and shows what is."""

from __future__ import annotations

from threading import Event
from typing import Any

from kproxy.cli.ctl_tables import held_line
from kproxy.cli.printing import echo, echo_json
from kproxy.cli.showing import ended_by_signals
from kproxy.proxy.control import ControlClient
from kproxy.proxy.run_folder import Run

_LOOK = 0.3  # seconds


def hold_until_interrupted(run: Run, wanted: str, *, as_json: bool) -> None:
    """Hold what fits until Ctrl-C, and print each message that is held, once.

    :raises CommandError: if the filter is not understood
    :raises ClosedError: if the proxy ends
    """

    ended = Event()
    with ControlClient(run.control_socket, True) as client, ended_by_signals(ended.set):
        side = client.call("set_hold", filter=wanted)["side"]
        echo(f"kproxy: holding {side}s that fit, until Ctrl-C", err=True)
        shown: set[int] = set()
        try:
            while not ended.wait(_LOOK):
                held: list[dict[str, Any]] = client.call("holds")["held"]
                for hold in held:
                    if hold["number"] not in shown:
                        echo_json(hold) if as_json else held_line(hold)
                shown = {hold["number"] for hold in held}
        finally:
            client.call("set_hold", filter=None, side=side)
            released = client.call("release", number="all")["released"]
    echo(f"kproxy: nothing is held any more, {released} went on", err=True)
