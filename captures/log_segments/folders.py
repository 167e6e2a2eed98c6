"""Which paths are logs of partitions."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from captures.meaning.topic_partitions import TopicPartition
from captures.packets import CaptureError
from captures.packets.files import LOG_SEGMENTS, find_files
from captures.packets.spool import Quota

_SEGMENT = re.compile(r"\d{20}\.log|\d{20}-\d{10}\.checkpoint")
"""A segment, or a snapshot of ``__cluster_metadata``, which has the same form (``LogFileUtils.java``)."""
_FOLDER = re.compile(r"(?P<topic>.+)-(?P<partition>\d{1,9})(?:\.[0-9a-f]{32}-(?:delete|future|stray))?")
"""The folder of a partition (``UnifiedLog.java``)."""


@dataclass(frozen=True, slots=True)
class PartitionLog:
    """The log of a partition in one folder: the same partition may have others, of replicas and of moved logs.

    :ivar segments: in the order of offsets
    """

    tp: TopicPartition
    folder: Path
    segments: tuple[Path, ...]


def partition_logs(paths: Iterable[str]) -> list[PartitionLog]:
    """Return the logs among paths: segments, folders of partitions, and folders of such folders.

    :returns: ordered by topic, partition and folder; empty if no path is a log
    :raises CaptureError: if there are captures, too, or the folder of a segment does not name a partition
    """
    segments = {path: _segments(Path(path)) for path in paths if path != "-"}
    if not any(segments.values()):
        return []
    folders = [path for path in segments if Path(path).is_dir()]
    others = [path for path in paths if not segments.get(path)]
    others += [file.path for file in find_files(folders, Quota()).files]
    if others:
        raise CaptureError(
            others[0], 0, "not a log segment: read captures and log segments by runs of their own"
        )
    found: dict[tuple[TopicPartition, Path], dict[str, Path]] = {}
    for path in chain.from_iterable(segments.values()):
        found.setdefault(_place(path), {})[path.name] = path
    return [
        PartitionLog(tp, folder, tuple(files[name] for name in sorted(files)))
        for (tp, folder), files in sorted(found.items())
    ]


def is_log(path: str) -> bool:
    """Return whether a path is a segment, the folder of a partition, or a folder of such folders."""
    return path != "-" and bool(_segments(Path(path)))


def base_offset(segment: Path) -> int:
    """Return the base offset in the name of a segment or of a file beside it."""
    return int(segment.name[:20])


def _segments(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path] if _SEGMENT.fullmatch(path.name) and path.is_file() else []
    return list(path.glob(LOG_SEGMENTS)) or list(path.glob(f"*/{LOG_SEGMENTS}"))


def _place(segment: Path) -> tuple[TopicPartition, Path]:
    """Return the partition of a segment and its folder; a link to a segment may be in any folder."""
    for folder in (Path(os.path.realpath(segment.parent)), Path(os.path.realpath(segment)).parent):
        if named := _FOLDER.fullmatch(folder.name):
            return TopicPartition(named["topic"], int(named["partition"])), folder
    reason = f"its folder {folder.name!r} is not named after a partition, such as orders-0"
    raise CaptureError(str(segment), 0, reason)
