"""Tables of statistics."""

from __future__ import annotations

import pytest

from captures.analysis.api_stats import ApiRow
from captures.analysis.percentiles import Percentiles
from kproxy.text.stats import api_table

TIMES = Percentiles(3, 6_000_000, 1_000_000, 2_000_000, 3_000_000, 3_000_000)


@pytest.mark.parametrize("not_recorded", [0, 2])
@pytest.mark.parametrize("intervened", [0, 1])
def test_what_was_waited_stands_below_the_times_whatever_else_was_counted(
    not_recorded: int, intervened: int
) -> None:
    row = ApiRow(
        api="Fetch",
        api_key=1,
        version=17,
        latency=TIMES,
        broker_time=TIMES,
        waited=TIMES,
        wait_reasons={},
        exchanges=5,
        not_recorded=not_recorded,
        intervened=intervened,
    )
    _, head, above, below = api_table([row]).lines(None)
    assert ("not recorded" in head) is bool(not_recorded)
    assert ("kproxy" in head) is bool(intervened)
    assert len(above) == len(below)
    assert above.split()[-4:] == below.split()[-4:] == ["1.0", "2.0", "3.0", "3.0"]
