"""What members of groups wait for in a capture that goes on."""

from __future__ import annotations

import numpy as np

from captures.analysis.groups.calls import OF_MEMBERS
from captures.exchanges import Capture, Exchange, ExchangeReader
from dissectors.knowledge import Knowledge


def pending_calls(capture: Capture, knowledge: Knowledge) -> list[Exchange]:
    """Return the calls of members that may still be answered; they have no numbers yet, which is 0.

    :param knowledge: of the reader that decodes the capture
    """
    rows = capture.unfinished_rows()
    rows = rows[np.isin(capture.table.column("api_key")[rows], sorted(OF_MEMBERS))]
    reader = ExchangeReader(capture, annotate=False, gist=False, live=True, knowledge=knowledge)
    reader.extend(rows)
    made = list(reader)
    for exchange in made:
        exchange.number = 0
    return made
