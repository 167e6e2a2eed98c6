"""Two recorded responses to be compared: of two exchanges, or of one and the last of its kind before it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from captures.arrays import distinct_values
from captures.exchanges import Exchange
from kproxy.replay.differences import Difference
from kproxy.replay.response_comparison import compared
from kproxy.session.access import Access


class PairError(Exception):
    """There are no two responses to compare; the message is for the user."""


@dataclass(frozen=True, slots=True)
class ResponsePair:
    """Two exchanges whose responses were compared.

    :ivar first: the earlier one, decoded for counting
    :ivar found: the differences
    """

    first: Exchange
    second: Exchange
    found: list[Difference]


def response_pair(access: Access, numbers: tuple[int, ...]) -> ResponsePair:
    """Return two compared responses; in the engine's thread.

    :param numbers: numbers of two exchanges, or of one to be compared with the last of its kind before it
    :raises PairError: if there are no two responses of one API
    """
    if len(numbers) == 1:
        numbers = (_before(access, numbers[0]), numbers[0])
    try:
        first, second = (access.plain.exchange(access.index(number)) for number in sorted(numbers))
    except LookupError as error:
        raise PairError(str(error)) from None
    if first.api_key != second.api_key:
        raise PairError(
            f"{first.number:,} is {first.api}, {second.number:,} is {second.api}: responses of one API differ"
        )
    for each in (first, second):
        if each.response is None or each.api_key is None:
            raise PairError(f"exchange {each.number:,} has no response")
    assert first.response is not None, "it was looked at"
    assert second.response is not None, "it was looked at"
    names = access.plain.knowledge.topic_name
    found, _ = compared(first.response, second.response, names, names, differing={})
    return ResponsePair(first, second, found)


def _before(access: Access, number: int) -> int:
    """Return the last earlier exchange with a response of the same API, client and broker.

    :raises PairError: if there is none
    """
    index, reader, capture = access.index(number), access.plain, access.capture
    rows = reader.rows[: index + 1]
    columns = {
        name: capture.table.column(name)[rows]
        for name in ("api_key", "client_id", "connection", "response_size")
    }
    alike = columns["response_size"] > 0
    for name in ("api_key", "client_id"):
        alike &= columns[name] == columns[name][-1]
    alike[-1] = False
    client, broker = capture.endpoints(int(columns["connection"][-1]))
    host = client.rpartition(":")[0]
    for connection in distinct_values(columns["connection"][alike]).tolist():
        ends = capture.endpoints(connection)
        if ends[1] != broker or ends[0].rpartition(":")[0] != host:
            alike &= columns["connection"] != connection
    found = np.flatnonzero(alike)
    if not len(found):
        raise PairError("there is no response of this kind before: m marks two that are to be compared")
    return int(found[-1]) + reader.first
