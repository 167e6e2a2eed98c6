"""The process that fuzzes without coverage: it mutates stored inputs and runs them as fast as the target allows.

Code instrumented by atheris takes two to ten times as long. Coverage-guided runs leave their inputs in the work folder;
this process continues from them, with the code that users run. It reports to :mod:`fuzz.engine` in libFuzzer's format.
"""

from __future__ import annotations

import argparse
import gc
import mmap
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

from fuzz.cases import Cases, guarded
from fuzz.mutate import havoc
from fuzz.target import RESIDENT_UNIT, Target, kept, load, together

_BATCH = 32
_COLLECT = 500
"""Executions after which cyclic garbage is collected: doing so when Python wants to takes longer."""
_TOLD_EVERY = 5.0
_ADDRESSES = 6 << 30
"""Bytes of address space; what wants more gets a MemoryError."""
_BY_HAND = 0.2
"""Of inputs of a target that has a mutator: the share that is changed without it, anywhere."""


def main(arguments: list[str]) -> int:
    """Fuzz a target; return the exit code."""
    options = _parser().parse_args(arguments)
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESSES, _ADDRESSES))
    target = load(options.target)
    cases = Cases(options.cases, options.found)
    for path in cases.warm(target):
        print(f"Test unit written to {path}", flush=True)
    cases.forget_mended(target)
    gc.collect()
    gc.freeze()
    gc.disable()
    inputs = [path.read_bytes() for path in kept(target.name)]
    if options.work.is_dir():
        inputs += [path.read_bytes() for path in options.work.iterdir()]
    run = Runs(target, cases, inputs, Random(options.seed), options.current)
    run.go(options.seconds or float("inf"), options.runs or sys.maxsize)
    return 0


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser("python -m fuzz.plain")
    made.add_argument("target")
    for name in ("--cases", "--found", "--work", "--current"):
        made.add_argument(name, type=Path, required=True)
    made.add_argument("--seconds", type=int, default=0)
    made.add_argument("--runs", type=int, default=0)
    made.add_argument("--seed", type=int, default=0)
    return made


class Runs:
    """Executions of a target, and their cases.

    :param current: file with the inputs of the current execution, to be read if this process dies
    """

    def __init__(
        self, target: Target, cases: Cases, inputs: Sequence[bytes], rng: Random, current: Path
    ) -> None:
        self._target = target
        self._cases = cases
        self._inputs = [data[: target.longest] for data in inputs]
        self._kin: dict[bytes, list[bytes]] = {}
        for data in self._inputs:
            self._kin.setdefault(target.kin(data), []).append(data)
        self._rng = rng
        self._words = tuple(target.words())
        self._run = guarded(target)
        self._done = 0
        current.write_bytes(bytes(8 + (target.longest + 8) * _BATCH))
        with current.open("r+b") as file:
            self._current = mmap.mmap(file.fileno(), 0)

    def go(self, most_seconds: float, most_runs: int) -> None:
        """Run inputs until a limit is reached."""
        started = told = time.monotonic()
        collected = 0
        batch = self._batched() if self._target.several else None
        while self._done < most_runs and (now := time.monotonic()) - started < most_seconds:
            if batch is None:
                self._one(self.changed(self._inputs))
            else:
                next(batch)
            if self._done - collected >= _COLLECT:
                collected = self._done
                gc.collect()
            if now - told > _TOLD_EVERY:
                told = now
                self._tell()
        self._tell()

    def changed(self, inputs: Sequence[bytes]) -> bytes:
        """Return an input made from existing ones."""
        rng, target = self._rng, self._target
        data, other = rng.choice(inputs), rng.choice(inputs)
        if target.mutate is not None and rng.random() >= _BY_HAND:
            return target.mutate(data, other, rng)[: target.longest]
        return havoc(data, rng, target.longest, self._words, other)

    def _one(self, data: bytes) -> None:
        self._note((data,))
        self._done += 1
        self._broken(data)

    def _broken(self, data: bytes) -> bool:
        try:
            self._run(data)
        except Exception as error:  # any exception is a case
            self._case(data, error)
            return True
        return False

    def _batched(self) -> Iterator[None]:
        run = guarded(self._target, self._target.several)
        while True:
            batch = self._related()
            self._note(batch)
            try:
                run(batch)
            except Exception as error:  # run each alone to find the one that failed
                broken = [self._broken(data) for data in batch]
                if not any(broken):
                    self._case(together(batch), error)
            self._done += _BATCH
            yield

    def _related(self) -> list[bytes]:
        kin = self._kin[self._target.kin(self._rng.choice(self._inputs))]
        return self._target.alike([self.changed(kin) for _ in range(_BATCH)])

    def _note(self, inputs: Sequence[bytes]) -> None:
        said = len(inputs).to_bytes(8, "big") + b"".join(
            len(each).to_bytes(8, "big") + each for each in inputs
        )
        self._current[: len(said)] = said

    def _case(self, data: bytes, error: Exception) -> None:
        path = self._cases.take(data, error)
        if path is not None:
            print(f"{type(error).__name__}: {error}"[:300])
            print(f"Test unit written to {path}", flush=True)

    def _tell(self) -> None:
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * RESIDENT_UNIT >> 20
        print(f"stat::number_of_executed_units: {self._done}\nstat::peak_rss_mb: {grown}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
