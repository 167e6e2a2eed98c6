"""The segments of a partition's log as a broker keeps them on disk.

A log segment contains the record batches that are also sent in Produce and Fetch, one after the other, so
:mod:`dissectors.records` reads them. ``kproxy records`` lists the records
(:mod:`captures.analysis.records.log_listing`).

::

    folders.py     which folders and files are logs, of which partition
    segment.py     one segment: batches with their position, and damaged bytes
    indexes.py     the files beside a segment: offset, time and transaction index, snapshot of the producers
    survey.py      facts about a whole log: transactions, gaps, damage
"""

from captures.log_segments.folders import PartitionLog, partition_logs
from captures.log_segments.segment import Damage, StoredBatch, read_segment
from captures.log_segments.survey import LogSurvey

__all__ = [
    "Damage",
    "LogSurvey",
    "PartitionLog",
    "StoredBatch",
    "partition_logs",
    "read_segment",
]
