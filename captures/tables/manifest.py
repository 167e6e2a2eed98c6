"""What a folder of tables knows of the runs that have written it, and of the files that they have read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from captures.packets import remote
from captures.packets.files import FileStatus, head_of

HEAD_BYTES = 64 << 10
"""Bytes at the beginning of an input by which it is known again."""


@dataclass(frozen=True, slots=True)
class Input:
    """A file that was read.

    :ivar path: as it was given, absolute if it is of this machine
    :ivar size: in bytes
    :ivar mtime_ns: when it was last written to, in ns since the epoch; 0 if that is not known
    :ivar head: SHA-256 of its first :data:`HEAD_BYTES`, in hex
    """

    path: str
    size: int
    mtime_ns: int
    head: str

    @classmethod
    def of(cls, path: str) -> Input:
        """Look at a file.

        :raises OSError: if it cannot be read
        :raises CaptureError: likewise, of one that is elsewhere
        """
        told = FileStatus.of(path)
        shown = remote.absolute(path)
        return cls(shown, told.size, told.changed, head_of(shown, min(told.size, HEAD_BYTES)))

    @property
    def content(self) -> tuple[int, str]:
        """What stays the same where it is moved, or copied."""
        return self.size, self.head

    def grown_from(self, before: Input) -> bool:
        """Whether this is what a file has become that was written to, and not another one under its name.

        :raises OSError: if it cannot be read
        :raises CaptureError: likewise, of one that is elsewhere
        """
        if self.size < before.size:
            return False
        return head_of(self.path, min(before.size, HEAD_BYTES)) == before.head


class InputComparison(NamedTuple):
    """Inputs, and what a folder knows of them.

    :ivar new: those that no run has read
    :ivar known: those that one has
    :ivar changed: those that one has read under this path, and that have grown since: a file that is being written to
        was read too early, and its exchanges are in the tables already
    """

    new: list[Input]
    known: list[Input]
    changed: list[Input]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a run has read and written.

    :ivar schema: version of the schema
    :ivar kproxy: version of the program
    :ivar written: when it was committed (RFC 3339, UTC)
    :ivar tables: table -> rows and files
    :ivar summary: what else there is to tell of it
    :ivar replaces: numbers of runs before that are no longer part of the tables
    """

    run: int
    schema: int
    kproxy: str
    written: str
    inputs: list[Input] = field(default_factory=list)
    tables: dict[str, dict[str, Any]] = field(default_factory=dict)
    summary: dict[str, Any] = field(default_factory=dict)
    replaces: list[int] = field(default_factory=list)

    @classmethod
    def from_json(cls, shape: Mapping[str, Any]) -> Manifest:
        """Read it back; keys that a later version has added are skipped.

        :raises KeyError: if it is none
        """
        known = {name: shape[name] for name in ("run", "schema", "kproxy", "written", "tables", "summary")}
        inputs = [
            Input(**{name: each[name] for name in Input.__dataclass_fields__}) for each in shape["inputs"]
        ]
        return cls(**known, inputs=inputs, replaces=list(shape.get("replaces", ())))
