"""The folder of tables: runs are added whole or not at all, and manifests record what each has read and written.

::

    OUT/TABLE/date=2026-11-22/hour=7/part-00000-TASK.parquet    rows of run 0, by date and hour (UTC) of their `time`
    OUT/_kproxy/run-00000.json                                  manifest of run 0, written last
    OUT/.staging-ID/                                            files that are being written

Any reader of Parquet folders can read the tables, because they consist of complete runs only. Every task writes below a
hidden folder of its own. :meth:`Folder.commit` moves the files to their places and writes the manifest of the run. A
run that dies before that leaves its hidden folder, one that dies in between files of a run without a manifest; the next
run removes both. A manifest names the runs that it replaces, whose files are removed after it is written: a run that
dies in between leaves them to the next run, so the folder always contains at least one complete state. A lock ensures
that only one run at a time writes to a folder (:mod:`captures.tables.lock`), if the folder is on a file system.

Paths may be local, or of anything that pyarrow or fsspec reach (``s3://bucket/tables``). Moving a file is atomic on a
file system; object stores copy and delete.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from captures.export.parquet import ParquetMissing
from captures.json_objects import to_json
from captures.tables.lock import NAME as LOCK
from captures.tables.lock import FolderLock, FolderLockError
from captures.tables.manifest import Input, InputComparison, Manifest
from captures.tables.schema import TABLES, VERSION, schema

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.fs as pafs
    import pyarrow.parquet as pq

MANIFESTS = "_kproxy"
STAGING = ".staging-"
ROW_GROUP_BYTES = 64 << 20
ROW_GROUP_ROWS = 128 << 10
MOST_OPEN = 16
"""Most files that one task has open."""
MOST_WAITING = 256 << 20
"""Most bytes of rows that one task keeps in memory before it writes them."""
_FEW = 100
"""Files with fewer rows are written without compression and dictionaries: twice as fast, and no larger."""
_AS_IT_IS = {"compression": "none", "use_dictionary": False}

_HOUR = 3_600_000_000_000
_PART = re.compile(r"part-(\d{5,})-[0-9a-z]+(?:-\d+)?\.parquet$")
"""Files of runs; files written by Spark itself have longer names."""
_TASK = re.compile(r"[0-9a-z]+")
_RUN = re.compile(r"run-(\d+)\.json$")
_NO_ROWS = "date=1970-01-01/hour=0"
"""Folder of an empty table's file, if no other table has rows either."""


class FolderError(ValueError):
    """Tables cannot be written to a folder; the message gives the reason and the remedy."""


# ---------------------------------------------------------------- files of a run
class Part(NamedTuple):
    """A file that a task has written.

    :ivar staged: its current path, in the file system of the folder
    :ivar path: its final path below the folder: ``exchanges/date=2026-11-22/hour=7/part-00000-3.parquet``
    """

    table: str
    staged: str
    path: str
    rows: int
    bytes: int


class StagingFolder(NamedTuple):
    """The hidden folder that the tasks of a run write to; it can be sent to other processes.

    :ivar out: the folder of the tables
    :ivar run: number of the run
    :ivar staging: name of the hidden folder
    """

    out: str
    run: int
    staging: str


def file_system(path: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a path or URI, and the path in it.

    :raises FolderError: if no installed package supports such URIs
    :raises ParquetMissing: if pyarrow is not installed
    """
    try:
        import pyarrow as pa
        from pyarrow import fs
    except ImportError:
        raise ParquetMissing from None
    if "://" not in path:
        return fs.LocalFileSystem(), str(Path(path).absolute())
    try:
        found: tuple[pafs.FileSystem, str] = fs.FileSystem.from_uri(path)
    except (pa.ArrowInvalid, NotImplementedError):
        found = _by_fsspec(path)
    return found


def _by_fsspec(path: str) -> tuple[pafs.FileSystem, str]:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    scheme = path.partition("://")[0]
    try:
        from fsspec.core import url_to_fs

        files, full_path = url_to_fs(path)
    except (ImportError, ValueError) as error:
        raise FolderError(
            f"{path}: nothing is installed that reaches {scheme}:// ({error}); install fsspec with its package for it"
        ) from None
    return PyFileSystem(FSSpecHandler(files)), full_path


# ---------------------------------------------------------------- the folder
class Folder:
    """A folder of tables, opened for one run by :func:`open_folder`.

    :ivar out: its path or URI
    :ivar manifests: manifests of earlier runs, in their order
    :ivar run: number of this run
    """

    def __init__(self, out: str, *, overwrite: bool = False) -> None:
        self.out = out
        self._files, self._root = file_system(out)
        self._overwrite = overwrite
        self._lock: FolderLock | None = None
        self._staging = f"{STAGING}{uuid.uuid4().hex[:12]}"
        self._committed: dict[str, Part] = {}
        self._look()

    def _look(self) -> None:
        self.manifests = _manifests(self._files, self._root)
        self.run = max((each.run for each in self.manifests), default=-1) + 1
        self._replaced = {each.run for each in self.manifests} if self._overwrite else set()

    @property
    def staged(self) -> StagingFolder:
        """The hidden folder of this run."""
        return StagingFolder(self.out, self.run, self._staging)

    def compare(self, inputs: Iterable[Input]) -> InputComparison:
        """Split inputs into new, known and changed ones; a run that overwrites knows none."""
        before = [known for each in self.manifests if each.run not in self._replaced for known in each.inputs]
        contents, paths = {each.content for each in before}, {each.path: each for each in before}
        found = InputComparison([], [], [])
        for each in inputs:
            if each.content in contents:
                found.known.append(each)
            elif each.path in paths and each.grown_from(paths[each.path]):
                found.changed.append(each)
            else:
                found.new.append(each)
        return found

    def reread(self, found: InputComparison, inputs: Sequence[Input]) -> InputComparison:
        """Let this run replace earlier ones whose files have grown, provided that their other files still exist.

        The rows of a file may change when it grows: a response arrives later, a group continues.

        :param found: result of :meth:`compare`
        :return: the same, with the files of replaced runs among the new ones
        """
        there = {each.content for each in found.known}
        grown = {each.path: each for each in found.changed}
        for each in self.manifests:
            grown_inputs = [known for known in each.inputs if known.path in grown]
            if grown_inputs and all(known.path in grown or known.content in there for known in each.inputs):
                self._replaced.add(each.run)
        return self.compare(inputs) if self._replaced else found

    def commit(
        self,
        parts: Iterable[Part],
        *,
        tables: Sequence[str],
        inputs: Iterable[Input] = (),
        summary: Mapping[str, Any] | None = None,
        replacing: str | None = None,
    ) -> Manifest:
        """Move the files of a run to their places, and write its manifest.

        A run that follows a folder commits batch by batch; inputs and summary cover all batches so far.

        Files of failed attempts are not among the parts, and are removed with the hidden folder.

        :param tables: requested tables; one without any rows gets an empty file, so that it can be read
        :param replacing: name of a task, if a run commits again: its files of the previous commit are removed
        :raises FolderError: if another run was committed meanwhile
        """
        committed = list(parts)
        if not self._committed and self._exists(self._manifest_path(self.run)):
            raise FolderError(f"{self.out}: another run was written there meanwhile; run it again")
        before, self.manifests = (
            self.manifests,
            [each for each in self.manifests if each.run not in self._replaced],
        )
        committed += self._empty(tables, committed)
        self._make(part.path.rpartition("/")[0] for part in committed)
        for part in committed:
            self._files.move(part.staged, f"{self._root}/{part.path}")
        self._replace({part.path: part for part in committed}, replacing)
        manifest = self._manifest(list(self._committed.values()), tables, inputs, summary)
        self._write_manifest(manifest)
        self._remove(each for each in before if each.run in self._replaced)
        self._remove_staged()
        self.manifests = [*(each for each in self.manifests if each.run != self.run), manifest]
        return manifest

    def _replace(self, new: dict[str, Part], task: str | None) -> None:
        """Record committed files; remove those of `task` that were committed before and not written again."""
        old = [path for path in self._committed if f"-{task}" in path.rpartition("/")[2]] if task else []
        for path in old:
            del self._committed[path]
            if path not in new:
                self._files.delete_file(f"{self._root}/{path}")
        self._committed |= new

    def discard(self) -> None:
        """Remove uncommitted files, and release the lock."""
        try:
            self._remove_staged()
        finally:
            if self._lock is not None:
                self._lock.release()

    def lock(self) -> None:
        """Lock the folder until :meth:`discard`, or the end of the process.

        :raises FolderError: if another run has locked it, or it is not writable
        """
        from pyarrow import fs

        if not isinstance(self._files, fs.LocalFileSystem):
            return
        try:
            self._lock = FolderLock(self._root)
        except FolderLockError as error:
            by = f" ({error.holder})" if error.holder else ""
            raise FolderError(
                f"{self.out}: another run of kproxy writes to it{by}: wait for its end, or name another folder"
            ) from None
        except OSError as error:
            raise FolderError(f"{self.out} cannot be written: {error.strerror or error}") from None
        self._look()

    def _remove_staged(self) -> None:
        full_path = f"{self._root}/{self._staging}"
        if self._exists(full_path):
            self._files.delete_dir(full_path)

    # ------------------------------------------------------------ leftovers
    def sweep(self) -> None:
        """Remove leftovers of runs that died: hidden folders, and files of runs without a manifest, or replaced."""
        from pyarrow import fs

        runs = {each.run for each in self.manifests}
        for info in self._listed(""):
            if info.base_name.startswith(STAGING):
                self._files.delete_dir(info.path)
            elif info.type == fs.FileType.Directory and info.base_name in (*TABLES, MANIFESTS):
                for file in self._listed(info.base_name, recursive=True):
                    found = _PART.match(file.base_name) or _RUN.match(file.base_name)
                    if found and int(found[1]) not in runs:
                        self._files.delete_file(file.path)

    def _remove(self, runs: Iterable[Manifest]) -> None:
        """Remove replaced runs; each manifest last, so that remaining files still belong to a known run."""
        for each in runs:
            for name in (
                *(file["path"] for table in each.tables.values() for file in table["files"]),
                self._manifest_path(each.run).removeprefix(f"{self._root}/"),
            ):
                if self._exists(f"{self._root}/{name}"):
                    self._files.delete_file(f"{self._root}/{name}")
        for info in self._listed(""):
            if info.base_name in TABLES:
                self._remove_empty(info.path)

    def _remove_empty(self, full_path: str) -> bool:
        """Remove hour folders without files; return whether `full_path` itself was removed."""
        from pyarrow import fs

        found = self._files.get_file_info(fs.FileSelector(full_path))
        left = [
            info for info in found if info.type != fs.FileType.Directory or not self._remove_empty(info.path)
        ]
        if not left:
            self._files.delete_dir(full_path)
        return not left

    # ------------------------------------------------------------ helpers
    def _listed(self, below: str, *, recursive: bool = False) -> list[Any]:
        from pyarrow import fs

        full_path = f"{self._root}/{below}".rstrip("/")
        found: list[Any] = self._files.get_file_info(
            fs.FileSelector(full_path, recursive=recursive, allow_not_found=True)
        )
        return found

    def _exists(self, full_path: str) -> bool:
        from pyarrow import fs

        return bool(self._files.get_file_info(full_path).type != fs.FileType.NotFound)

    def _make(self, folders: Iterable[str]) -> None:
        for each in sorted(set(folders)):
            self._files.create_dir(f"{self._root}/{each}", recursive=True)

    def _manifest_path(self, run: int) -> str:
        return f"{self._root}/{MANIFESTS}/run-{run:05d}.json"

    def _empty(self, tables: Sequence[str], parts: Sequence[Part]) -> list[Part]:
        """Write empty files for tables that would have none."""
        with_rows = {part.table for part in parts}
        before = {name for each in self.manifests for name, table in each.tables.items() if table["files"]}
        without = [name for name in tables if name not in with_rows | before]
        if not without:
            return []
        hours = sorted(part.path.split("/", 1)[1].rpartition("/")[0] for part in parts)
        writer = PartWriter(self.staged, "none")
        for name in without:
            writer.write_empty(name, hours[0] if hours else _NO_ROWS)
        return writer.close()

    def _manifest(
        self,
        parts: Sequence[Part],
        tables: Sequence[str],
        inputs: Iterable[Input],
        summary: Mapping[str, Any] | None,
    ) -> Manifest:
        tables_written: dict[str, dict[str, Any]] = {name: {"rows": 0, "files": []} for name in tables}
        for part in sorted(parts, key=lambda part: part.path):
            table = tables_written.setdefault(part.table, {"rows": 0, "files": []})
            table["rows"] += part.rows
            table["files"].append({"path": part.path, "rows": part.rows, "bytes": part.bytes})
        try:
            program = version("kproxy")
        except PackageNotFoundError:
            program = ""
        now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        replaced = sorted(self._replaced)
        return Manifest(
            self.run, VERSION, program, now, list(inputs), tables_written, dict(summary or {}), replaced
        )

    def _write_manifest(self, manifest: Manifest) -> None:
        self._make([MANIFESTS])
        full_path = self._manifest_path(manifest.run)
        hidden = f"{self._root}/{MANIFESTS}/.run-{manifest.run:05d}.json"
        with self._files.open_output_stream(hidden) as file:
            file.write(json.dumps(to_json(manifest), indent=1).encode())
        self._files.move(hidden, full_path)


def open_folder(out: str, *, append: bool = False, overwrite: bool = False) -> Folder:
    """Open a folder for a run, and remove leftovers of runs that died.

    :param append: add to the existing tables, if any
    :param overwrite: replace the existing tables when this run is committed
    :raises FolderError: if there are tables already and neither was given, the folder contains other files, or was
        written with another version of the schema
    :raises ParquetMissing: if pyarrow is not installed
    """
    if append and overwrite:
        raise FolderError("tables are either added to, or overwritten: say one of both")
    folder = Folder(out, overwrite=overwrite)
    try:
        _check(folder, append=append, overwrite=overwrite)
        folder.lock()
        _check(folder, append=append, overwrite=overwrite)  # another run may have ended meanwhile
        folder.sweep()
    except BaseException:
        folder.discard()
        raise
    return folder


def _check(folder: Folder, *, append: bool, overwrite: bool) -> None:
    """Raise FolderError if the run must not write to the folder."""
    out = folder.out
    others = _others(folder)
    if others is None:
        raise FolderError(f"{out} is a file; name a folder for the tables")
    if folder.manifests and not (append or overwrite):
        raise FolderError(f"{out} has tables already: --append adds to them, --overwrite replaces them")
    if others and not folder.manifests:
        raise FolderError(
            f"{out} is not empty, and has no tables of kproxy ({others[0]}): name another folder"
        )
    written = {each.schema for each in folder.manifests} - {VERSION}
    if append and written:
        raise FolderError(
            f"{out} was written with version {max(written)} of the schema, this is version {VERSION}: write to another"
            " folder, or --overwrite"
        )


def read_manifests(out: str) -> list[Manifest]:
    """Return the manifests of a folder, in the order of runs; none if there is no such folder.

    :raises FolderError: if a manifest is malformed
    """
    return _manifests(*file_system(out))


def _others(folder: Folder) -> list[str] | None:
    """Return the names in a folder, without leftovers of runs that died; None if it is not a folder."""
    from pyarrow import fs

    files, root = file_system(folder.out)
    if files.get_file_info(root).type == fs.FileType.File:
        return None
    found = files.get_file_info(fs.FileSelector(root, allow_not_found=True))
    return sorted(
        info.base_name
        for info in found
        if not info.base_name.startswith((STAGING, LOCK)) and not _unfinished(files, info)
    )


def _unfinished(files: pafs.FileSystem, info: Any) -> bool:
    """Return whether a folder contains only leftovers of a first run that died during its commit."""
    from pyarrow import fs

    if info.type != fs.FileType.Directory or info.base_name not in (*TABLES, MANIFESTS):
        return False
    below = files.get_file_info(fs.FileSelector(info.path, recursive=True))
    return all(
        each.type == fs.FileType.Directory
        or _PART.match(each.base_name)
        or each.base_name.startswith(".run-")
        for each in below
    )


def _manifests(files: pafs.FileSystem, root: str) -> list[Manifest]:
    from pyarrow import fs

    found = files.get_file_info(fs.FileSelector(f"{root}/{MANIFESTS}", allow_not_found=True))
    made: list[Manifest] = []
    for info in sorted(found, key=lambda info: str(info.path)):
        if not _RUN.match(info.base_name):
            continue
        with files.open_input_stream(info.path) as file:
            text = file.read()
        try:
            made.append(msgspec.json.decode(text, type=Manifest))
        except msgspec.DecodeError as error:
            raise FolderError(f"{info.path} is no manifest of kproxy: {error}") from None
    replaced = {run for each in made for run in each.replaces}
    return [each for each in made if each.run not in replaced]


# ---------------------------------------------------------------- writing
class _Open:
    """A file that is being written.

    :param files: file system of :attr:`staged`; the file is created when the first rows are written
    :ivar waiting: batches that are not in the file yet
    """

    def __init__(self, files: pafs.FileSystem, columns: pa.Schema, staged: str, path: str) -> None:
        self._files = files
        self._columns = columns
        self._writer: pq.ParquetWriter | None = None
        self.staged = staged
        self.path = path
        self.waiting: list[pa.RecordBatch] = []
        self.rows = self.waiting_rows = self.waiting_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self.waiting.append(batch)
        self.rows += len(batch)
        self.waiting_rows += len(batch)
        self.waiting_bytes += batch.nbytes

    def flush(self) -> None:
        self._write(compression="zstd")

    def close(self) -> None:
        """Write the waiting rows, and close the file."""
        # a jumping clock creates thousands of files with a few rows
        self._write(**_AS_IT_IS if self.rows < _FEW else {"compression": "zstd"})
        self.abandon()

    def abandon(self) -> None:
        """Close the file without the waiting rows."""
        if self._writer is not None:
            self._writer.close()

    def _write(self, **encoding: Any) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(self.staged, self._columns, filesystem=self._files, **encoding)
        if self.waiting:
            table = pa.Table.from_batches(self.waiting)
            self._writer.write_table(table, row_group_size=max(len(table), 1))
        self.waiting, self.waiting_rows, self.waiting_bytes = [], 0, 0


class PartWriter:
    """Writes the rows of one task, below a hidden folder of its own, by table, date and hour.

    As a context manager it removes its files if an exception is raised.

    :param staged: hidden folder of the run
    :param task: name of the task in file names, of digits and lowercase letters; the same for all attempts
    :raises ValueError: for another name
    """

    def __init__(self, staged: StagingFolder, task: int | str) -> None:
        self._run = staged.run
        self._task = f"{task:05d}" if isinstance(task, int) else task
        if not _TASK.fullmatch(self._task):
            raise ValueError(f"{task!r} is no name of a task: it has to be of digits and small letters")
        self._files, root = file_system(staged.out)
        self._place = f"{root}/{staged.staging}/{self._task}-{uuid.uuid4().hex[:8]}"
        self._open: dict[tuple[str, str], _Open] = {}
        self._count: dict[tuple[str, str], int] = {}
        self._parts: list[Part] = []

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self.abort()

    def write_all(self, batches: Iterable[tuple[str, pa.RecordBatch]]) -> None:
        """Write rows of several tables, each with the name of its table."""
        for table, batch in batches:
            self.write(table, batch)

    def write(self, table: str, batch: pa.RecordBatch) -> None:
        """Write rows of a table; they must have the column ``time_ns``."""
        if not len(batch):
            return
        times = batch.column(batch.schema.get_field_index("time_ns")).to_numpy(zero_copy_only=False)
        hours = times // _HOUR
        first = hours[0]
        if (hours == first).all():
            self._add(table, int(first), batch)
            return
        import pyarrow as pa

        order = np.argsort(hours, kind="stable")
        batch, hours = batch.take(pa.array(order)), hours[order]
        edges = [0, *(np.flatnonzero(np.diff(hours)) + 1).tolist(), len(hours)]
        for low, high in pairwise(edges):
            self._add(table, int(hours[low]), batch.slice(low, high - low))

    def write_empty(self, table: str, hour: str) -> None:
        """Write a file without rows.

        :param hour: its folder, as in ``date=2026-11-22/hour=7``
        """
        self._opened(table, hour, schema(table))

    def close(self) -> list[Part]:
        """Close all files, and return them."""
        for key in list(self._open):
            self._close(key)
        return self._parts

    def abort(self) -> None:
        """Remove everything that was written."""
        for opened in self._open.values():
            opened.abandon()
        self._open.clear()
        self._parts.clear()
        from pyarrow import fs

        if self._files.get_file_info(self._place).type != fs.FileType.NotFound:
            self._files.delete_dir(self._place)

    def _add(self, table: str, hour: int, batch: pa.RecordBatch) -> None:
        opened = self._opened(table, _hour_folder(hour), batch.schema)
        opened.add(batch)
        if opened.waiting_rows >= ROW_GROUP_ROWS or opened.waiting_bytes >= ROW_GROUP_BYTES:
            opened.flush()
        while sum(each.waiting_bytes for each in self._open.values()) > MOST_WAITING:
            max(self._open.values(), key=lambda each: each.waiting_bytes).flush()

    def _opened(self, table: str, hour: str, columns: pa.Schema) -> _Open:
        key = table, hour
        opened = self._open.pop(key, None)
        if opened is None:
            while len(self._open) >= MOST_OPEN:  # the least recently written one
                self._close(next(iter(self._open)))
            opened = self._new(table, hour, columns)
        self._open[key] = opened
        return opened

    def _new(self, table: str, hour: str, columns: pa.Schema) -> _Open:
        count = self._count[table, hour] = self._count.get((table, hour), -1) + 1
        more = f"-{count}" if count else ""
        path = f"{table}/{hour}/part-{self._run:05d}-{self._task}{more}.parquet"
        staged = f"{self._place}/{path}"
        self._files.create_dir(staged.rpartition("/")[0], recursive=True)
        metadata = {"kproxy.table": table, "kproxy.schema": str(VERSION)}
        return _Open(self._files, columns.with_metadata(metadata), staged, path)

    def _close(self, key: tuple[str, str]) -> None:
        opened = self._open.pop(key)
        opened.close()
        size = int(self._files.get_file_info(opened.staged).size or 0)
        self._parts.append(Part(key[0], opened.staged, opened.path, opened.rows, size))


def _hour_folder(hour: int) -> str:
    """Return the folder of an hour, counted from the epoch."""
    day, rest = divmod(hour, 24)
    return f"date={np.datetime64(day, 'D')}/hour={rest}"
