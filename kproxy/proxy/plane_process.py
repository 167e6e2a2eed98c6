"""The process of the data plane, as its front starts and ends it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from kproxy.proxy.settings import Settings

_END_SECONDS = 30.0
"""Seconds for the data plane to end, in addition to those for requests in flight."""
_ALLOCATION = {
    "MALLOC_TOP_PAD_": str(4 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(64 << 20),
    "MALLOC_MMAP_THRESHOLD_": str(4 << 20),
}
"""For glibc (mallopt(3)): buffers are freed a moment after reading, and the next read allocates the same size again;
returning the memory to the kernel in between costs a third of the throughput."""


class PlaneProcess:
    """The data plane, seen from outside.

    :param settings: of the data plane
    :param on_event: called with each event, from a thread
    :param discards_errors: whether to discard its standard error, because the command will leave the terminal
    :ivar failure: why it could not start, or ended unexpectedly
    """

    def __init__(
        self, settings: Settings, on_event: Callable[[dict[str, Any]], None], *, discards_errors: bool = False
    ) -> None:
        self._on_event = on_event
        self.failure = ""
        self._ready = Event()
        # a session of its own: Ctrl-C in the terminal is for this process, which then stops the data plane
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "kproxy.proxy.plane"],
            env={**_ALLOCATION, **os.environ},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if settings.detached or discards_errors else None,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(settings) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            self.failure = "the data plane ended at once"
        self._reader = Thread(target=self._read, name="plane events", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        clean = False
        with self._process.stdout as lines:
            for line in lines:
                event = msgspec.json.decode(line, type=dict[str, Any])
                clean = clean or event["event"] == "ended"
                if event["event"] == "failed":
                    self.failure = event["text"]
                elif event["event"] == "ready":
                    self._ready.set()
                with suppress(BrokenPipeError):  # standard error was closed
                    self._on_event(event)
        code = self._process.wait()
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        if not clean and not self.failure:
            self.failure = f"forwarding ended unexpectedly ({_ending(code)})"
        self._ready.set()

    def wait_until_ready(self) -> bool:
        """Wait until it listens or has failed; return whether it listens."""
        self._ready.wait()
        return not self.failure

    def stop(self) -> None:
        """Ask it to end; a second call does not wait for requests in flight."""
        if self._process.poll() is None:
            self._process.terminate()

    def join(self, seconds: float | None = None) -> bool:
        """Wait for its end, for `seconds` at most; return whether it has ended."""
        self._reader.join(seconds)
        return not self._reader.is_alive()

    def end(self, drain: float) -> None:
        """Stop it, and kill it if it does not end in time.

        :param drain: seconds for requests in flight
        """
        self.stop()
        if not self.join(drain + _END_SECONDS):
            self._process.kill()
            self.join(_END_SECONDS)


def _ending(code: int) -> str:
    return f"signal {-code}" if code < 0 else f"exit code {code}"
