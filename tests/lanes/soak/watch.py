"""Memory and descriptors of processes over time, and their growth."""

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
_SETTLING = 0.25  # part of the time in which everything is used for the first time
_ROOM = 4 << 20  # permitted growth of memory in bytes
_SHARE = 0.03  # or as a share of it
_DESCRIPTORS = 4


@dataclass(frozen=True)
class Sample:
    """A measurement of a process.

    :ivar at: seconds since the watch began
    :ivar memory: private memory in bytes (USS), because queues and libraries are shared
    """

    at: float
    memory: int
    descriptors: int


@dataclass(frozen=True)
class Course:
    """The development of a process after a settling time: medians of the first and of the last quarter.

    :ivar grown: text about excessive growth, or empty
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
    """Measures all processes of some proxies every few seconds, in a thread, and reads their own status.

    :param log: file for a JSON line per measurement
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
                    continue  # a process is just being replaced

    def _look(self, name: str, kproxy: Kproxy) -> None:
        at = time.monotonic() - self._began
        line: dict[str, Any] = {"at": round(at, 1), "proxy": name, "status": kproxy.ask("status")}
        for role, process in kproxy.processes.items():
            sample = Sample(at, process.memory_full_info().uss, process.num_fds())
            self._samples.setdefault(f"{name} {role}", []).append(sample)
            line[role] = [sample.memory, sample.descriptors]
        self._log.write(json.dumps(line) + "\n")

    def end(self) -> list[Course]:
        """Stop, and return the development of each process."""
        self._ended.set()
        self._thread.join()
        self._log.close()
        return [course(name, samples) for name, samples in self._samples.items()]


def course(name: str, samples: Sequence[Sample]) -> Course:
    """Return the development of a process."""
    begin, end = samples[0].at, samples[-1].at
    settled = begin + _SETTLING * (end - begin)
    quarter = (end - settled) / 4
    first = [each for each in samples if settled <= each.at <= settled + quarter]
    last = [each for each in samples if each.at >= end - quarter]

    def of(what: str) -> tuple[float, float]:
        return median(getattr(each, what) for each in first), median(getattr(each, what) for each in last)

    return Course(name, of("memory"), of("descriptors"), max(each.memory for each in samples))
