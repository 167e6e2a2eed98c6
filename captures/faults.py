"""Errors of this program that something in a capture brought out: contained where they come up, counted, and told.

Bytes come from strangers, and some of them will meet a fault of ours. That is no reason to lose what all others say:
what failed is left out, everything else continues, and the user learns which exchange it was, what was being done, and
what to report. Code that works step by step (exchange by exchange, rule by rule, row by row) contains each with one of
three:

* :meth:`Faults.note` in an ``except Exception``, in the innermost loops: where nothing fails, ``try`` costs nothing;
* :meth:`Faults.guarded`, a function that never fails;
* :meth:`Faults.made`, for what is made once, with something that takes its place.

Not contained is what ends the whole for a reason of its own: a file or pipe that fails, a reader that has gone away, a
capture that cannot be read on (:data:`ENDING`). A test of a fault plants an error in a decoder, a rule, a row.
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
"""Errors that are no faults, and end what is done."""
TOLD = 5
"""Faults that are listed one by one; further ones are only counted."""

_KEPT = 50
_GROWN = 10
_REMEMBERED = 2_000
"""Faults that are recognised when they recur, because exchanges are inspected more than once."""
_OF_TIMES = frozenset({errno.EOVERFLOW, errno.ERANGE, errno.EINVAL})
"""What the C library says of times that no calendar has."""
_LONGEST = 160
_ROOT = Path(__file__).resolve().parents[1]
_OURS = ("captures/", "dissectors/", "kproxy/")

T = TypeVar("T")


class HasNumber(Protocol):
    """An exchange, as far as faults are concerned."""

    @property
    def number(self) -> int:
        """Its number in the capture."""
        ...


N = TypeVar("N", bound=HasNumber)


class Fault(NamedTuple):
    """One error.

    :ivar number: of the exchange; 0 if it was no single one
    :ivar doing: what was being done: ``the rule slow_polls``, ``decoding``
    :ivar error: what was raised, and where, on one line that is fit to be shown
    :ivar path: file with the first byte of the exchange; empty if that is not known
    """

    number: int
    doing: str
    error: str
    path: str = ""

    @property
    def sentence(self) -> str:
        """What happened, for users."""
        file = f" of {printable(self.path)}" if self.path else ""
        where = f"exchange {self.number:,}{file}: " if self.number else ""
        return f"{where}{self.doing} failed: {self.error}"


class Faults:
    """Collects the faults of one capture.

    :ivar count: how many there were
    :ivar first: the first of them
    """

    def __init__(self) -> None:
        self.count = 0
        self.first: list[Fault] = []
        self._by_doing: Counter[str] = Counter()
        self._known: set[Fault] = set()
        self._told = 0

    def __bool__(self) -> bool:
        return self.count > 0

    # ------------------------------------------------------------ containing
    def note(self, error: Exception, doing: str, number: int = 0) -> None:
        """Take in an error that was caught.

        :param number: of the exchange that it came up with; 0 if it was no single one
        :raises Exception: the error itself, if it is one that ends everything
        """
        if isinstance(error, ENDING) and not (isinstance(error, OSError) and error.errno in _OF_TIMES):
            raise error
        self._add(Fault(number, doing, described(error)))

    def guarded(self, add: Callable[[N], None], doing: str) -> Callable[[N], None]:
        """Return a function that does the same with an exchange, and contains its errors."""

        def guard(exchange: N) -> None:
            try:
                add(exchange)
            except Exception as error:
                self.note(error, doing, exchange.number)

        return guard

    def made(self, make: Callable[[], T], doing: str, without: T, number: int = 0) -> T:
        """Return what a function makes.

        :param without: what takes its place if it fails
        """
        try:
            return make()
        except Exception as error:
            self.note(error, doing, number)
            return without

    def whole(self, items: Iterable[T], doing: str, number: int = 0) -> Iterator[T]:
        """Yield items up to the first that fails to come."""
        coming = iter(items)
        while True:
            try:
                item = next(coming)
            except StopIteration:
                return
            except Exception as error:
                self.note(error, doing, number)
                return
            # not what becomes of it: that is up to the receiver
            yield item

    def merge(self, other: Faults) -> None:
        """Take in what was noted elsewhere, such as in another process."""
        for fault in other.first:
            self._add(fault)
        rest = other._by_doing - Counter(fault.doing for fault in other.first)
        self.count += rest.total()
        self._by_doing += rest

    def locate(self, path_of: Callable[[int], str]) -> None:
        """Note which files the exchanges are in that faults came up with.

        :param path_of: returns the file of an exchange by its number; empty if it is not known
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

    # ------------------------------------------------------------ telling
    def of(self, doing: str) -> int:
        """Return how often something failed."""
        return self._by_doing[doing]

    def lines(self) -> list[str]:
        """Return the lines that users see about all of them."""
        return _lines(self.first[:TOLD], self.count)

    def log(self) -> None:
        """Log them as warnings where no user would see them, such as in a task on a cluster."""
        for line in self.lines():
            logging.getLogger(__name__).warning("%s", line)

    def news(self) -> list[str]:
        """Return the same of those that came up since this was asked before.

        If there are many, further ones are reported when there are ten times as many: untrusted input can trigger them
        out, and shall not fill the screen with them.
        """
        if self._told >= _KEPT and self.count < _GROWN * self._told:
            return []
        new, shown = self.count - self._told, self.first[self._told : self._told + TOLD]
        self._told = self.count
        return _lines(shown, new)


class RaisedFaults(Faults):
    """Stands where there is no capture to note faults with: they are raised."""

    def note(self, error: Exception, doing: str, number: int = 0) -> None:
        """Raise the error."""
        raise error


def _lines(shown: list[Fault], count: int) -> list[str]:
    if not count:
        return []
    one = count == 1
    more = f" ({count - len(shown):,} of them are not listed)" if count > len(shown) else ""
    what = (
        f"{'this is a fault' if one else f'these are {count:,} faults'} of kproxy{more}: what failed is left out,"
        f" everything else goes on. Please report {'it' if one else 'them'}"
    )
    return [*(fault.sentence for fault in shown), what]


def described(error: BaseException) -> str:
    """Return what an error says and where it was raised, on one line: ``KeyError: 'Metadata' (captures/…py:281)``."""
    said = printable(" ".join(str(error).split()), _LONGEST)
    where = next(reversed([place for place in map(_place, walk_tb(error.__traceback__)) if place]), "")
    return f"{type(error).__name__}{f': {said}' if said else ''}{f' ({where})' if where else ''}"


def _place(at: tuple[object, int]) -> str:
    """Return file and line of a frame, empty if it is of another program's."""
    frame, line = at
    name = str(frame.f_code.co_filename).removeprefix(f"{_ROOT}/")  # type: ignore[attr-defined]
    return f"{name}:{line}" if name.startswith(_OURS) and name != "captures/faults.py" else ""
