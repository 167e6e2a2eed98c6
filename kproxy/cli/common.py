"""Shared by commands that read captures: exit codes, options, and progress bars."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import tzinfo
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

import click

from kproxy.output import echo
from kproxy.signals import ended_by_signals

if TYPE_CHECKING:
    from captures.exchanges import Capture
    from captures.filters import Filter
    from captures.names import Names
    from captures.packets.tls import KeyLog

EXIT_UNREADABLE = 1
EXIT_INCOMPLETE = 3


@contextmanager
def reported_endings(concerned: Callable[[OSError], object] = lambda error: error.filename) -> Iterator[None]:
    """Report errors that end a command early, and exit with the corresponding code.

    :param concerned: returns the subject of an operating system error, for the message
    """
    from captures.packets import CaptureError

    try:
        yield
    except CaptureError as error:
        echo(f"kproxy: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    except BrokenPipeError:
        # the reader of the output has closed it (head, less): nothing is wrong
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        echo(f"kproxy: {concerned(error)}: {error.strerror or error}", err=True)
        sys.exit(EXIT_UNREADABLE)


@contextmanager
def usage_errors(*kinds: type[Exception], before: str = "") -> Iterator[None]:
    """Report errors of some kinds as wrong usage, with their message.

    :param before: text before the message
    """
    try:
        yield
    except kinds as error:
        raise click.UsageError(f"{before}{error}") from None


def refuse_contradictions(wrong: Mapping[str, object]) -> None:
    """Raise the first sentence whose condition is met.

    :param wrong: sentence -> condition
    :raises click.UsageError: if there is one
    """
    for sentence, met in wrong.items():
        if met:
            raise click.UsageError(sentence)


_MANY = 20_000  # exchanges: some seconds of work
_STEPS = 500

T = TypeVar("T")


def keylog_option(path: str | None, *, growing: bool = False, file: BinaryIO | None = None) -> KeyLog | None:
    """Return the key log of ``--keylog``, None if it was not given.

    :param growing: the capture is still growing, and the key log may be too: it is followed, and need not exist yet
    :param file: the key log, if it is already open
    :raises click.UsageError: if it cannot be read
    """
    if path is None:
        return None
    from captures.packets.tls import KeyLog

    try:
        keylog = KeyLog(path, growing=growing, file=file)
    except OSError as error:
        raise click.UsageError(f"the key log {path} cannot be read: {error.strerror}") from None
    if file is None and not Path(path).exists():
        echo(f"the key log {path} does not exist yet: kproxy reads it as soon as it does", err=True)
    return keylog


def names_of(hosts: Sequence[str]) -> Names:
    """Return the names in the files of ``--hosts``.

    :raises click.UsageError: if one cannot be read, or has an invalid line
    """
    from captures.names import NamesError, read_names

    try:
        with usage_errors(NamesError, before="--hosts: "):
            return read_names(hosts)
    except OSError as error:
        raise click.UsageError(f"--hosts: {error.filename} cannot be read: {error.strerror}") from None


def filter_option(text: str | None, zone: tzinfo | None, clusters: Sequence[str] = ()) -> Filter | None:
    """Return the filter of ``-Y``, None if it was not given.

    :param clusters: names of all clusters; empty if they are not known
    :raises click.UsageError: with a caret under the position of the error
    """
    if text is None:
        return None
    from captures.filters import FilterError, compile_filter, unknown_cluster

    try:
        wanted = compile_filter(text, zone)
        unknown = unknown_cluster(wanted, clusters) if clusters else None
        if unknown is not None:
            raise unknown
    except FilterError as error:
        raise click.UsageError(f"invalid filter: {error.render()}") from None
    return wanted


def read_all(capture: Capture) -> None:
    """Read a capture, with a progress bar if it takes time; Ctrl-C ends a pipe early.

    :raises CaptureError: if it cannot be read
    """
    ending = ended_by_signals(capture.source.stop) if capture.source.live else nullcontext()
    with ending, progress_bar(f"reading {capture.source.path}") as progress:
        capture.read(progress)


def undecided_notes(filter_: Filter | None) -> list[str]:
    """Return, in words, which limits left undecided whether exchanges match a filter."""
    from dissectors.budget import shown

    return [
        f"whether the filter fits is undecided of {count:,} exchange{'s' if count > 1 else ''}:"
        f" more to read than the limit {shown(name)}"
        for name, count in sorted(filter_.undecided.items() if filter_ is not None else ())
    ]


def with_progress(items: Iterable[T], position: Callable[[T], int], total: int, label: str) -> Iterator[T]:
    """Yield the items, with a progress bar on a terminal if there are many.

    :param position: returns the progress when an item is done, up to ``total``
    """
    if total < _MANY or not sys.stderr.isatty():
        yield from items
        return
    from dissectors.printable import printable

    steps = max(total // _STEPS, 1)
    with click.progressbar(
        length=total, label=printable(label), file=sys.stderr, update_min_steps=steps
    ) as bar:
        done = 0
        for item in items:
            yield item
            now = position(item)
            bar.update(now - done)
            done = now
        bar.update_min_steps = 1
        bar.update(total - done)


class RateBar:
    """A progress bar on standard error, with the rate in bytes.

    :param total: 0 if unknown
    """

    def __init__(self, label: str, total: int, *, rated: bool = True) -> None:
        self._shown = 0
        self._begin = monotonic()
        self._bar: Any = click.progressbar(
            length=total,
            label=label,
            show_percent=bool(total),
            show_eta=bool(total),
            item_show_func=self._rate if rated else None,
            file=sys.stderr,
        )
        self._bar.__enter__()

    def update(self, done: int, total: int) -> None:
        """Show progress: `done` out of `total`."""
        self._bar.length = total
        self._bar.update(done - self._shown, done)
        self._shown = done

    def _rate(self, done: int | None) -> str | None:
        took = monotonic() - self._begin
        return f"{done / took / 1e6:,.0f} MB/s" if done and took else None

    def close(self) -> None:
        """Stop updating the bar and leave it on the screen."""
        self._bar.__exit__(None, None, None)


_LARGE = 64 << 20  # bytes


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int | None], None] | None]:
    """Show the progress of reading a large capture, its rate and the remaining time.

    Only on a terminal, and only if the size is known.
    """
    from dissectors.printable import printable

    bar: RateBar | None = None

    def update(done: int, size: int | None) -> None:
        nonlocal bar
        if size is not None and size >= _LARGE:
            bar = bar or RateBar(printable(label), size)
            bar.update(done, size)  # the total of a compressed file is an estimate

    try:
        yield update if sys.stderr.isatty() else None
    finally:
        if bar is not None:
            bar.close()


# ---------------------------------------------------------------- files that commands write
def refuse_to_overwrite(output: str, captures: Iterable[str], *, force: bool) -> None:
    """Check that a file may be written.

    :param output: its path, ``-`` for standard output
    :param captures: files, folders and patterns that are read, which are never overwritten
    :param force: whether other files may be overwritten
    :raises click.UsageError: if it may not be written
    """
    from captures.packets.files import expanded, is_readable_once
    from captures.packets.remote import is_remote

    out = Path(output)
    if output == "-" or not out.exists():
        return
    here = (path for path in captures if not is_remote(path))
    read = (name for path in here for name in expanded(path) if not is_readable_once(name))
    if any(Path(name).exists() and out.samefile(name) for name in read):
        raise click.UsageError(f"{output} is one of the captures")
    if not force and out.is_file():
        raise click.UsageError(f"{output} exists; --force overwrites it")
