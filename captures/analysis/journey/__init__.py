"""Journeys of records through a cluster, as a capture shows them: sent, acknowledged, delivered, committed.

:class:`~captures.analysis.journey.journeys.Journeys` receives exchanges and reports at the end. Meanwhile it keeps
ranges of offsets (:mod:`.ledger`); batches are decoded only if they may contain wanted records (:mod:`.found_records`).

Requests, responses and their content are observed. Inferred are the group and the member of a Fetch, which names
neither; that two requests sent the same batch, if the producer is not idempotent; and the offset of a batch without a
response, by its checksum.
"""

from captures.analysis.journey.journeys import JourneyResult, Journeys
from captures.analysis.journey.record_query import RecordQuery, place_of

__all__ = ["JourneyResult", "Journeys", "RecordQuery", "place_of"]
