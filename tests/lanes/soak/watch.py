"""Memory and descriptors of processes over time, and whether they stay."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from kproxy.proxy.control import CommandError
from tests.lanes.kproxy_run import Kproxy

_MIB = 1 << 20
_EVERY_S = 5.0
_SETTLING = 0.25  # of the time, until everything has been used once
_ROOM = 4 << 20  # bytes by which memory may differ
_SHARE = 0.03  # or so much of it
_DESCRIPTORS = 4


@dataclass(frozen=True)
class Sample:
    """One look at a process.

    :ivar at: seconds since the watch began
    :ivar memory: bytes that it has for itself (USS): queues and libraries are shared
    """

    at: float
    memory: int
    descriptors: int


@dataclass(frozen=True)
class Course:
    """How a process did, after a time to settle: medians of the first and of the last quarter.

    :ivar grown: what is more than it may be, in words, or empty
    """

    name: str
    memory: tuple[float, float]
    descriptors: tuple[float, float]
    largest: int

    @property
    def grown(self) -> str:
        first, last = self.memory
        more = []
        if last - first > max(_ROOM, _SHARE * first):
            more.append(f"memory from {first / _MIB:.1f} to {last / _MIB:.1f} MiB")
        if self.descriptors[1] - self.descriptors[0] > _DESCRIPTORS:
            more.append(f"descriptors from {self.descriptors[0]:.0f} to {self.descriptors[1]:.0f}")
        return f"{self.name}: {', '.join(more)}" if more else ""

    def __str__(self) -> str:
        memory = " -> ".join(f"{each / _MIB:.1f}" for each in self.memory)
        descriptors = " -> ".join(f"{each:.0f}" for each in self.descriptors)
        return f"{self.name}: {memory} MiB (largest {self.largest / _MIB:.1f}), {descriptors} descriptors"


class Watch:
    """Looks at all processes of some proxies every few seconds, in a thread, and at what they say of themselves.

    :param log: gets a JSON line for each look
    """

    def __init__(self, proxies: dict[str, Kproxy], log: Path) -> None:
        self._proxies = proxies
        self._log = log.open("a", buffering=1)
        self._samples: dict[str, list[Sample]] = {}
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._ended.wait(_EVERY_S):
            for name, kproxy in self._proxies.items():
                try:
                    self._look(name, kproxy)
                except (psutil.Error, CommandError, OSError):
                    continue  # one of them is just being replaced

    def _look(self, name: str, kproxy: Kproxy) -> None:
        at = time.monotonic() - self._began
        line: dict[str, Any] = {"at": round(at, 1), "proxy": name, "status": kproxy.ask("status")}
        for role, process in kproxy.processes.items():
            sample = Sample(at, process.memory_full_info().uss, process.num_fds())
            self._samples.setdefault(f"{name} {role}", []).append(sample)
            line[role] = [sample.memory, sample.descriptors]
        self._log.write(json.dumps(line) + "\n")

    def end(self) -> list[Course]:
        """Stop, and return how each process did."""
        self._ended.set()
        self._thread.join()
        self._log.close()
        return [course(name, samples) for name, samples in self._samples.items()]


def course(name: str, samples: Sequence[Sample]) -> Course:
    """Return how a process did."""
    begin, end = samples[0].at, samples[-1].at
    settled = begin + _SETTLING * (end - begin)
    quarter = (end - settled) / 4
    first = [each for each in samples if settled <= each.at <= settled + quarter]
    last = [each for each in samples if each.at >= end - quarter]

    def of(what: str) -> tuple[float, float]:
        return median(getattr(each, what) for each in first), median(getattr(each, what) for each in last)

    return Course(name, of("memory"), of("descriptors"), max(each.memory for each in samples))
