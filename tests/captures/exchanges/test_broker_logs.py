"""Entries of request logs, by packet and by row."""

from __future__ import annotations

import numpy as np

from captures.exchanges.broker_logs import BrokerLogs
from captures.interventions import BrokerLog


def test_captured_requests_of_one_packet_have_entries_of_their_own() -> None:
    logs = BrokerLogs()
    logs.add([(9, BrokerLog(local=1))])
    for row, local in ((1, 3), (0, 2)):
        logs.add_captured(row, BrokerLog(local=local, captured=True))
    packets = np.array([5, 5, 5, 9])
    found = logs.column_of_rows("local", np.arange(4), packets)
    assert found.values[found.present].tolist() == [2, 3, 1]
    assert found.present.tolist() == [True, True, False, True]
    shown = [logs.of_row(row, packet) for row, packet in enumerate(packets.tolist())]
    assert [each and each.local for each in shown] == [2, 3, None, 1]
    assert [each and each.captured for each in shown] == [True, True, None, False]
    assert not logs.lacks
