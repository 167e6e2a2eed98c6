"""Manifests of a folder of tables: the runs that wrote it, and the files that they have read."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from captures.packets import remote
from captures.packets.files import FileStatus, head_of

HEAD_BYTES = 64 << 10
"""Bytes at the start of an input that identify it."""


@dataclass(frozen=True, slots=True)
class Input:
    """A file that was read.

    :ivar path: as given; local paths are absolute
    :ivar size: in bytes
    :ivar mtime_ns: time of the last write, in ns since the epoch; 0 if unknown
    :ivar head: SHA-256 of its first :data:`HEAD_BYTES`, in hex
    """

    path: str
    size: int
    mtime_ns: int
    head: str

    @classmethod
    def of(cls, path: str) -> Input:
        """Return the current state of a file.

        :raises OSError: if it cannot be read
        :raises CaptureError: if it is remote and cannot be read
        """
        status = FileStatus.of(path)
        shown = remote.absolute(path)
        return cls(shown, status.size, status.changed, head_of(shown, min(status.size, HEAD_BYTES)))

    @property
    def content(self) -> tuple[int, str]:
        """Identity of its content, which survives moving and copying."""
        return self.size, self.head

    def grown_from(self, before: Input) -> bool:
        """Return whether this is the same file as `before`, longer or unchanged, and not another one under its name.

        :raises OSError: if it cannot be read
        :raises CaptureError: if it is remote and cannot be read
        """
        if self.size < before.size:
            return False
        return head_of(self.path, min(before.size, HEAD_BYTES)) == before.head


class InputComparison(NamedTuple):
    """Inputs, compared with those of earlier runs.

    :ivar new: inputs that no run has read
    :ivar known: inputs that a run has read
    :ivar changed: inputs that a run has read under this path and that have grown since: the file was read while it was
        still being written, and its exchanges are in the tables already
    """

    new: list[Input]
    known: list[Input]
    changed: list[Input]


@dataclass(frozen=True, slots=True)
class Manifest:
    """Inputs and outputs of a run.

    :ivar schema: version of the schema
    :ivar kproxy: version of the program
    :ivar written: time of the commit (RFC 3339, UTC)
    :ivar tables: table -> rows and files
    :ivar summary: summary of the run
    :ivar replaces: numbers of earlier runs that are no longer part of the tables
    """

    run: int
    schema: int
    kproxy: str
    written: str
    inputs: list[Input] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    replaces: list[int] = field(default_factory=list)
