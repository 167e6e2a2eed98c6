"""Selection of a run's input files: those that are already in the tables are left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import time_ns

from captures.packets import CaptureError
from captures.packets.files import find_files, is_one_file, is_readable_once
from captures.packets.remote import absolute
from captures.packets.spool import DEFAULT_SPOOL, Quota
from captures.tables.folder import Folder
from captures.tables.manifest import Input, InputComparison
from captures.tables.options import ALREADY_READ, CHANGED, OmittedFile, TablesOptions, TablesSummary

SETTLED = 60
"""Seconds without a write after which the newest file of a folder counts as finished."""
GROWING = f"it was written to within the last {SETTLED} s: the next run with --append reads it"
"""Reason for leaving out the newest file of a folder."""
NO_CAPTURE = "this is no capture: neither pcap nor pcapng"
"""Reason for passing over a file."""


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The files of a run.

    :ivar read: paths of the files to read
    :ivar inputs: the same files, except pipes, which cannot be recognized again
    :ivar skipped: files that an earlier run has read
    :ivar unreadable: files that cannot be read
    :ivar passed_over: files in folders, or matched by patterns, that are no captures
    """

    read: Sequence[str]
    inputs: Sequence[Input] = ()
    skipped: Sequence[OmittedFile] = ()
    unreadable: Sequence[OmittedFile] = ()
    passed_over: Sequence[str] = ()

    def summary(self, out: str, engine: str) -> TablesSummary:
        """Return the summary of a run that has not read anything yet."""
        left_out = tuple(self.unreadable), tuple(self.skipped), tuple(self.passed_over)
        return TablesSummary(out, engine, (), *left_out)


def find_inputs(paths: Sequence[str], folder: Folder, options: TablesOptions, *, logs: bool) -> RunInputs:
    """Find captures, and leave out those that are already in the tables.

    :param paths: files, folders and patterns, which together are one capture; ``-`` for standard input
    :param logs: whether the engine matches request logs with packets; otherwise logs beside packets are not read
    :raises CaptureError: with ``strict``, if a file cannot be read or is no capture
    """
    if any(map(is_readable_once, paths)):
        return RunInputs(paths)
    files = find_files(paths, Quota(DEFAULT_SPOOL), logs_beside_packets=logs, joined=False)
    # a named pipe can be read only once, and cannot be recognized again
    pipes = [file.path for file in files.files if file.source is not None]
    for file in files.files:
        if file.source is not None:
            file.source.close()
    inputs = [Input.of(file.path) for file in files.files if file.source is None]
    compared, skipped, changed = choose_inputs(inputs, folder, paths, options)
    unreadable = [*(OmittedFile(error.path, error.reason) for error in files.unreadable), *changed]
    if options.strict:
        for each in (*unreadable, *(OmittedFile(path, NO_CAPTURE) for path in files.passed_over)):
            raise CaptureError(each.path, 0, each.reason)
    read = [*pipes, *(each.path for each in compared.new)]
    return RunInputs(read, compared.new, skipped, unreadable, files.passed_over)


def choose_inputs(
    inputs: Sequence[Input], folder: Folder, paths: Sequence[str], options: TablesOptions
) -> tuple[InputComparison, list[OmittedFile], list[OmittedFile]]:
    """Select the files to read.

    With ``append`` the newest file of folders and patterns is left to the next run while it may still be written to; if
    a file has grown nevertheless after a run has read it, it is read again, with the other files of that run.

    :param inputs: all captures
    :param paths: paths given by the user
    :return: the comparison, whose ``new`` files are read; skipped files; files that should be read, but cannot be
    """
    compared = folder.compare(inputs)
    growing = _growing([*compared.new, *compared.changed], paths) if options.append else None
    if options.append:
        there = [each for each in inputs if each is not growing]
        compared = folder.reread(folder.compare(there), there)
    skipped = [OmittedFile(each.path, ALREADY_READ) for each in compared.known]
    if growing is not None:
        skipped.append(OmittedFile(growing.path, GROWING))
    return compared, skipped, [OmittedFile(each.path, CHANGED) for each in compared.changed]


def _growing(inputs: Sequence[Input], paths: Sequence[str]) -> Input | None:
    """Return the newest file of folders and patterns, if it may still be written to."""
    named = {absolute(path) for path in paths if is_one_file(path)}
    found = max(
        (each for each in inputs if each.path not in named), key=lambda each: each.mtime_ns, default=None
    )
    return found if found is not None and time_ns() - found.mtime_ns < SETTLED * 1e9 else None
