"""The way of records through a cluster, from what a capture shows: sent, acknowledged, delivered, committed.

:class:`~captures.analysis.journey.journeys.Journeys` is shown exchanges and tells in the end. What it notes on the way
are ranges of offsets (:mod:`.ledger`); records are looked into only where those sought may be (:mod:`.found`).

What is seen and what is inferred: requests, answers and what they hold are seen. Inferred are the group and the member
of a Fetch, which names neither; that two requests sent the same batch, where the producer is not idempotent; and the
offset of a batch whose answer is missing, by its checksum.
"""

from captures.analysis.journey.journeys import JourneyResult, Journeys
from captures.analysis.journey.record_query import RecordQuery, place_of

__all__ = ["JourneyResult", "Journeys", "RecordQuery", "place_of"]
