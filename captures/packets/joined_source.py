"""The bytes of several files as one source.

An offset in a joined capture has the file number in its upper bits and the place in that file in its lower ones, so it
means the same byte in every reading. There may be thousands of files: only the most recently used ones are open, apart
from pipes and followed files, which are open until they are read.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from captures.packets.alignment import ClockComparison
from captures.packets.errors import CaptureError, FileGone
from captures.packets.files import CaptureFile, FileStatus, FoundFiles, Rotation
from captures.packets.source import Source, open_source
from captures.packets.spool import Quota
from captures.packets.stores import Store

MOST_OPEN = 64
"""Number of files open at a time, apart from pipes and followed files."""

PLACE_BITS = 44
"""Bits of an offset for the place in its file: 16 TiB, and a quarter of a million files below ``KEPT``."""
_PLACE = (1 << PLACE_BITS) - 1


def base_of(number: int) -> int:
    """Return the offset of the first byte of a file."""
    return number << PLACE_BITS


def file_at(offset: int) -> int:
    """Return the number of the file that contains `offset`, which is below :data:`~captures.packets.source.KEPT`."""
    return offset >> PLACE_BITS


class _OpenFiles(Store):
    """The files of a joined capture as one store of bytes. Of files that can be reopened, only a few are open.

    It counts as complete: a file that is not waits by itself.
    """

    def __init__(self, files: list[CaptureFile], quota: Quota) -> None:
        self._files = files
        self._quota = quota
        self._sizes = {number: file.size for number, file in enumerate(files)}
        self._total = sum(self._sizes.values())
        self._unknown: set[int] = set()  # files of unknown final size
        self._open: OrderedDict[int, Source] = OrderedDict()

    @property
    def size(self) -> int:
        return base_of(len(self._files))

    @property
    def expected(self) -> int | None:
        return None if self._unknown else self._total

    def file(self, number: int) -> Source:
        """Return one of the files, open. The next call may close it.

        :raises CaptureError: if it cannot be opened
        """
        file = self._files[number]
        source = file.source or self._open.get(number)
        if source is None:
            source = self._opened(file)
            self.take_over(number, source)
        elif file.source is None:
            self._open.move_to_end(number)
        if number in self._unknown or not source.complete:
            self.expect(number, source.expected)
        return source

    def take_over(self, number: int, source: Source) -> None:
        """Keep a file open until others have been used more recently."""
        self._open[number] = source
        self.expect(number, source.expected)
        if len(self._open) > MOST_OPEN:
            self._open.popitem(last=False)[1].close()

    def expect(self, number: int, size: int | None) -> None:
        if size is None:
            self._unknown.add(number)
            return
        self._unknown.discard(number)
        self._total += size - self._sizes.get(number, 0)
        self._sizes[number] = size

    def drop_deleted(self, numbers: set[int]) -> None:
        """Close those files among `numbers` that were deleted: while open, they take disk space that a ring's limit
        excludes.
        """
        for number in numbers & self._open.keys():
            if not Path(self._files[number].path).exists():
                self._open.pop(number).close()

    def held(self, offset: int) -> bool:
        try:
            return self.file(offset >> PLACE_BITS).held(offset & _PLACE)
        except FileGone:
            return False

    def read(self, offset: int, size: int) -> bytes:
        return self.file(offset >> PLACE_BITS).read(offset & _PLACE, size)

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return self.file(offset >> PLACE_BITS).read_into(offset & _PLACE, buffer)

    def close(self) -> None:
        for source in [*self._open.values(), *(file.source for file in self._files if file.source)]:
            source.close()
        self._open.clear()

    def _opened(self, file: CaptureFile) -> Source:
        try:
            now = FileStatus.of(file.path)
        except OSError as error:
            raise FileGone(file.path, error.strerror or str(error)) from error
        if now.identity != file.identity or now.size < file.size:
            raise FileGone(file.path, "another file replaced it while it was read")
        try:
            return open_source(file.path, spool=self._quota)
        except CaptureError as error:
            if Path(file.path).exists():
                raise
            raise FileGone(file.path, error.reason) from error


class JoinedSource(Source):
    """The bytes of several files. ``size`` is the end of their offsets, ``expected`` their size in bytes.

    :param rotation: where more files are added, None if they are not followed
    :ivar files: the captures, in the order of their first packets; added files are last
    :ivar unreadable: files that could not be read completely
    :ivar passed_over: files in folders, or matched by patterns, that are not captures
    :ivar deleted: files of a followed ring that were deleted before they were read completely
    :ivar clocks: clock comparisons of the files, from the first reading
    :ivar aligned: whether times are by one clock
    :ivar quota: shared by the spools of all files
    :ivar copies: number of packets that several files contain, of which the first reading delivers one each
    """

    def __init__(self, found: FoundFiles, quota: Quota, rotation: Rotation | None = None) -> None:
        self.files = found.files
        self.clocks: list[ClockComparison] | None = None
        self.aligned = any(file.clock for file in found.files)
        self.copies = 0
        self.unreadable = found.unreadable
        self.passed_over = found.passed_over
        self.deleted: list[str] = []
        self._done: set[int] = set()
        self._bytes = files = _OpenFiles(found.files, quota)
        self._rotation = rotation
        self._stopped = False
        closing = ExitStack()
        closing.callback(files.close)
        super().__init__("", lambda _: files, quota, closing)
        self._started()
        self._follow_last()
        for number, file in enumerate(self.files):
            if file.source is not None:
                files.expect(number, file.source.expected)

    def part(self, number: int) -> Source:
        """Return one of the files by itself. Bytes kept beside it are kept beside the joined capture."""
        return _FilePart(self, self._bytes, number)

    def finished(self, number: int) -> None:
        """Record that a file was read to its end; a followed one can now be reopened like any other."""
        file = self.files[number]
        self._done.add(number)
        if self._rotation is not None and file.source is not None and file.reopened:
            file.size = file.source.size
            self._bytes.take_over(number, file.source)
            file.source = None

    def report(self, error: CaptureError) -> None:
        """Record that a file cannot be read completely; repeated reports of later readings are dropped."""
        if self._rotation is not None and isinstance(error, FileGone):
            self.deleted.append(error.path)
        elif str(error) not in map(str, self.unreadable):
            self.unreadable.append(error)

    def identities(self) -> list[tuple[int, ...]] | None:
        found: list[tuple[int, ...]] = []
        if self.unreadable or self.aligned or self.clocks or self.live:
            return None
        for number, file in enumerate(self.files):
            try:
                identities = self._bytes.file(number).identities()
            except CaptureError:  # the reading reports it
                identities = None
            if identities is None:
                return None
            found.append((file.lag, *identities[0]))
        return found

    @property
    def complete(self) -> bool:
        return all(file.source is None or file.source.complete for file in self.files)

    @property
    def live(self) -> bool:
        return any(file.source is not None and file.source.live for file in self.files)

    @property
    def stopped(self) -> bool:
        return self._stopped

    def stop(self) -> None:
        self._stopped = True
        for file in self.files:
            if file.source is not None:
                file.source.stop()

    def _follow_last(self) -> None:
        """Follow the newest file until there is a newer one."""
        self.path = f"{len(self.files):,} file{'s' if len(self.files) > 1 else ''}"
        last = self.files[-1]
        if self._rotation is not None and last.source is None and not self._stopped:
            number = len(self.files)
            try:
                last.source = open_source(
                    last.path, follow=True, over=lambda: self._is_over(number), spool=self.quota
                )
            except CaptureError:  # deleted since it was listed, so there are newer ones
                if not self._rotation.look():
                    raise
                self._follow_last()

    def _is_over(self, number: int) -> bool:
        """Return whether there are more than `number` files, or nothing more will be written."""
        assert self._rotation is not None
        over = self._rotation.over()  # first, so that the following look is complete
        if number == len(self.files) and self._rotation.look():
            if self._rotation.succession is not None:
                self._bytes.drop_deleted(self._done)
            self._follow_last()
        return over or number < len(self.files)


class _FilePart(Source):
    """One file of a joined capture, for the reader of its packets. It is open only while in use."""

    def __init__(self, joined: JoinedSource, files: _OpenFiles, number: int) -> None:
        self._joined = joined
        self._file = file = partial(files.file, number)
        super().__init__(joined.files[number].path, lambda _: file(), joined.quota, ExitStack())

    @property
    def _store(self) -> Source:  # type: ignore[override]  # using another file may close this one
        return self._file()

    @property
    def live(self) -> bool:
        return self._file().live

    @property
    def stopped(self) -> bool:
        return self._file().stopped

    def stop(self) -> None:
        self._file().stop()

    def read_into(self, offset: int, buffer: memoryview) -> int:
        return self._file().read_into(offset, buffer)

    def keep(self, data: bytes) -> int:
        return self._joined.keep(data)
