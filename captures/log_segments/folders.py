"""Which paths are logs of partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from captures.meaning.places import TopicPartition
from captures.packets import CaptureError

_SEGMENT = re.compile(r"\d{20}\.log|\d{20}-\d{10}\.checkpoint")
"""A segment, or a snapshot of ``__cluster_metadata``, which has the same form (``LogFileUtils.java``)."""
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,9})(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
"""The folder of a partition (``UnifiedLog.java``)."""


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of a partition.

    :ivar segments: in the order of offsets
    """

    tp: TopicPartition
    segments: tuple[Path, ...]


def partition_logs(paths: Iterable[str]) -> list[PartitionLog]:
    """Return the logs among paths: segments, folders of partitions, and folders of such folders.

    :returns: ordered by topic and partition; empty if no path is a log
    :raises CaptureError: if only some paths are logs, or the folder of a segment does not name a partition
    """
    segments = {path: _segments(Path(path)) for path in paths if path != "-"}
    if not any(segments.values()):
        return []
    others = [path for path in paths if not segments.get(path)]
    if others:
        raise CaptureError(
            others[0], 0, "not a log segment: read captures and log segments by runs of their own"
        )
    found: dict[TopicPartition, set[Path]] = {}
    for path in sorted({each for several in segments.values() for each in several}):
        found.setdefault(_partition(path), set()).add(path)
    return [PartitionLog(tp, tuple(sorted(found[tp]))) for tp in sorted(found)]


def base_offset(segment: Path) -> int:
    """Return the base offset in the name of a segment or of a file beside it."""
    return int(segment.name[:20])


def _segments(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if _SEGMENT.fullmatch(path.name) and path.is_file() else []
    pattern = "[0-9]" * 20 + ".log"
    return list(path.glob(pattern)) or list(path.glob(f"*/{pattern}"))


def _partition(segment: Path) -> TopicPartition:
    folder = segment.resolve().parent.name
    named = _FOLDER.fullmatch(folder)
    if named is None:
        raise CaptureError(
            str(segment), 0, f"its folder {folder!r} is not named after a partition, such as orders-0"
        )
    return TopicPartition(named["topic"], int(named["partition"]))
