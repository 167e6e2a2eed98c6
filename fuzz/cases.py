"""The cases that break a target. Each kind is kept once, however often it occurs, and does not end the run."""

from __future__ import annotations

import hashlib
import json
import re
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.target import HERE, Target, Violation, limited, whole

_ROOT = HERE.parent
_FRAMES = 4
"""Innermost frames of this repository that tell one way to break from another."""
_NUMBERS = re.compile(r"0x[0-9a-f]+|\d+|'[^']*'|\[.*|\{.*|\(.*")


class Cases:
    """The known cases of a target, in a file beside its work folder, and the inputs that cause them.

    :param index: file with a JSON line per case: its signature, its input, and its traceback
    :param folder: folder for the inputs
    """

    def __init__(self, index: Path, folder: Path) -> None:
        self._index = index
        self._folder = folder
        self._known = {line["told_by"] for line in self.lines()}

    def lines(self) -> list[dict[str, str]]:
        """Return the lines of the file."""
        if not self._index.exists():
            return []
        return [json.loads(line) for line in self._index.read_text(encoding="utf-8").splitlines()]

    def forget_mended(self, target: Target) -> None:
        """Rerun the inputs of all cases, and drop cases that no longer fail or whose input is gone."""
        run = guarded(target, whole(target))
        left = []
        for line in self.lines():
            path = self._folder / line["input"]
            try:
                if path.exists():
                    run(path.read_bytes())
            except Exception:  # it still fails
                left.append(line)
        self._index.write_text("".join(json.dumps(line) + "\n" for line in left), encoding="utf-8")
        self._known = {line["told_by"] for line in left}

    def warm(self, target: Target) -> Iterator[Path]:
        """Run the seeds of a target, and yield the cases among them.

        This imports modules that load on first use, so that their import does not count as the time of a later input.
        """
        for _, data in target.seeds():
            try:
                target.run(data)
            except Exception as error:  # any exception is a case
                if path := self.take(data, error):
                    yield path

    def take(self, data: bytes, error: BaseException) -> Path | None:
        """Store an input if it breaks the target in a new way, and return its file; else return None."""
        told_by = signature(error)
        if told_by in self._known:
            return None
        self._known.add(told_by)
        name = f"crash-{hashlib.sha1(data).hexdigest()}"
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / name).write_bytes(data)
        text = "".join(traceback.format_exception(error))
        with self._index.open("a", encoding="utf-8") as out:
            out.write(json.dumps({"told_by": told_by, "input": name, "traceback": text}) + "\n")
        return self._folder / name


def signature(error: BaseException) -> str:
    """Return the signature of a case: the kind of error, and where it was raised."""
    frames = [
        f"{Path(each.filename).relative_to(_ROOT) if each.filename.startswith(str(_ROOT)) else '...'}:{each.name}"
        for each in traceback.extract_tb(error.__traceback__)
    ]
    own = [frame for frame in frames if not frame.startswith("...")]
    said = _NUMBERS.sub("#", str(error).partition("\n")[0])[:80] if isinstance(error, Violation) else ""
    return " ".join((type(error).__name__, said, *own[-_FRAMES:])).replace("  ", " ")


def guarded(target: Target, run: Callable[[Any], None] | None = None) -> Callable[[Any], None]:
    """Return a function that runs inputs within the target's limits of processor time and memory growth."""
    run = limited(target, run)

    def within(data: Any) -> None:
        with seconds(target.seconds):
            run(data)

    return within


@contextmanager
def seconds(most: int) -> Iterator[None]:
    """Raise :class:`Violation` in the body after the given processor time."""
    if signal.getsignal(signal.SIGPROF) is not _too_long:
        signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, most)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_long(number: int, frame: FrameType | None) -> None:
    raise Violation("it took more processor time than its target allows")
