"""Internal errors triggered by a capture: contained where they occur, counted, and reported.

Bytes are untrusted, and some of them will trigger a bug. That is no reason to lose everything else: the failed part is
left out, the rest continues, and the user learns which exchange it was, what was being done, and what to report. Code
that works step by step (exchange by exchange, rule by rule, row by row) contains each step with one of three:

* :meth:`Faults.note` in an ``except Exception``, in the innermost loops: without an error, ``try`` costs nothing;
* :meth:`Faults.guarded`, a function that never fails;
* :meth:`Faults.contained`, for a single value, with a replacement.

Errors that end the whole operation are not contained: a failing file or pipe, a reader that has gone away, a capture
that cannot be read further (:data:`ENDING`). Tests plant an error in a decoder, a rule, a row.
"""

from __future__ import annotations

import errno
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from traceback import walk_tb
from typing import NamedTuple, Protocol, TypeVar

from captures.packets.errors import CaptureError
from dissectors.printable import printable

ENDING = (CaptureError, OSError)
"""Errors that are not bugs, and end the operation."""
TOLD = 5
"""Most errors that are listed one by one; further ones are only counted."""

_KEPT = 50
_GROWN = 10
_REMEMBERED = 2_000
"""Most errors that are recognised when they recur, because exchanges are inspected more than once."""
_OF_TIMES = frozenset({errno.EOVERFLOW, errno.ERANGE, errno.EINVAL})
"""Error numbers of the C library for times out of range."""
_LONGEST = 160
_ROOT = Path(__file__).resolve().parents[1]
_OURS = ("captures/", "dissectors/", "kproxy/")

T = TypeVar("T")


class HasNumber(Protocol):
    """An exchange, as far as error reports need it."""

    @property
    def number(self) -> int:
        """Its number in the capture."""
        ...


N = TypeVar("N", bound=HasNumber)


class Fault(NamedTuple):
    """One internal error.

    :ivar number: number of the exchange; 0 if it was no single one
    :ivar doing: the activity that failed: ``the rule slow_polls``, ``decoding``
    :ivar error: what was raised, and where, on one printable line
    :ivar path: file with the first byte of the exchange; empty if unknown
    """

    number: int
    doing: str
    error: str
    path: str = ""

    @property
    def sentence(self) -> str:
        """A sentence for users."""
        file = f" of {printable(self.path)}" if self.path else ""
        where = f"exchange {self.number:,}{file}: " if self.number else ""
        return f"{where}{self.doing} failed: {self.error}"


class Faults:
    """Collects the internal errors of one capture.

    :ivar count: number of errors
    :ivar first: the first of them
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Fault] = []
        self._by_doing: Counter[str] = Counter()
        self._known: set[Fault] = set()
        self._reported = 0

    def __bool__(self) -> bool:
        return self.count > 0

    # ------------------------------------------------------------ containing
    def note(self, error: Exception, doing: str, number: int = 0) -> None:
        """Record an error that was caught.

        :param number: number of the exchange that triggered it; 0 if it was no single one
        :raises Exception: the error itself, if it is one that ends everything
        """
        if isinstance(error, ENDING) and not (isinstance(error, OSError) and error.errno in _OF_TIMES):
            raise error
        self._add(Fault(number, doing, described(error)))

    def guarded(self, add: Callable[[N], None], doing: str) -> Callable[[N], None]:
        """Return a function that calls `add` with an exchange, and contains its errors."""

        def guard(exchange: N) -> None:
            try:
                add(exchange)
            except Exception as error:
                self.note(error, doing, exchange.number)

        return guard

    def contained(self, make: Callable[[], T], doing: str, without: T, number: int = 0) -> T:
        """Return the result of `make`.

        :param without: the result if it fails
        """
        try:
            return make()
        except Exception as error:
            self.note(error, doing, number)
            return without

    def contained_items(self, items: Iterable[T], doing: str, number: int = 0) -> Iterator[T]:
        """Yield items up to the first that raises."""
        coming = iter(items)
        while True:
            try:
                item = next(coming)
            except StopIteration:
                return
            except Exception as error:
                self.note(error, doing, number)
                return
            # outside of the try: errors of the receiver are its own
            yield item

    def merge(self, other: Faults) -> None:
        """Add errors recorded elsewhere, such as in another process."""
        for fault in other.first:
            self._add(fault)
        rest = other._by_doing - Counter(fault.doing for fault in other.first)
        self.count += rest.total()
        self._by_doing += rest

    def locate(self, path_of: Callable[[int], str]) -> None:
        """Set the files of the exchanges that triggered errors.

        :param path_of: returns the file of an exchange by its number; empty if unknown
        """
        self.first = [
            fault if fault.path or not fault.number else fault._replace(path=path_of(fault.number))
            for fault in self.first
        ]
        self._known.update(self.first)

    def _add(self, fault: Fault) -> None:
        if fault in self._known:
            return
        if len(self._known) < _REMEMBERED:
            self._known.add(fault)
        self.count += 1
        self._by_doing[fault.doing] += 1
        if len(self.first) < _KEPT:
            self.first.append(fault)

    # ------------------------------------------------------------ reporting
    def of(self, doing: str) -> int:
        """Return how often `doing` failed."""
        return self._by_doing[doing]

    def lines(self) -> list[str]:
        """Return lines for users about all of them."""
        return _lines(self.first[:TOLD], self.count)

    def log(self) -> None:
        """Log them as warnings where no user would see them, such as in a task on a cluster."""
        for line in self.lines():
            logging.getLogger(__name__).warning("%s", line)

    def news(self) -> list[str]:
        """Return lines for users about the errors since the last call.

        If there are many, the next report waits until there are ten times as many: untrusted input can trigger them,
        and must not flood the screen.
        """
        if self._reported >= _KEPT and self.count < _GROWN * self._reported:
            return []
        new, shown = self.count - self._reported, self.first[self._reported : self._reported + TOLD]
        self._reported = self.count
        return _lines(shown, new)


class RaisedFaults(Faults):
    """A substitute where there is no capture to collect errors: raises them."""

    def note(self, error: Exception, doing: str, number: int = 0) -> None:
        raise error


RAISED = RaisedFaults()
"""For arguments that have no faults by default."""


def _lines(shown: list[Fault], count: int) -> list[str]:
    if not count:
        return []
    one = count == 1
    more = f" ({count - len(shown):,} of them are not listed)" if count > len(shown) else ""
    what = (
        f"{'this is an internal error' if one else f'these are {count:,} internal errors'} in kproxy{more}:"
        f" what failed is left out, everything else continues. Please report {'it' if one else 'them'}"
    )
    return [*(fault.sentence for fault in shown), what]


def described(error: BaseException) -> str:
    """Return an error's type, message and place on one line: ``KeyError: 'Metadata' (captures/…py:281)``."""
    text = printable(" ".join(str(error).split()), _LONGEST)
    where = next(reversed([place for place in map(_place, walk_tb(error.__traceback__)) if place]), "")
    return f"{type(error).__name__}{f': {text}' if text else ''}{f' ({where})' if where else ''}"


def _place(at: tuple[object, int]) -> str:
    """Return file and line of a frame, empty if it is not kproxy's."""
    frame, line = at
    name = str(frame.f_code.co_filename).removeprefix(f"{_ROOT}/")  # type: ignore[attr-defined]
    return f"{name}:{line}" if name.startswith(_OURS) and name != "captures/faults.py" else ""
