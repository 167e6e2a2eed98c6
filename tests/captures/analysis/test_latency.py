"""Latency distributions: buckets, percentiles, slices of time, groups, and memory bounds."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise, product

import numpy as np
import pytest

from captures.analysis import latency
from captures.analysis.latency import (
    BUCKETS,
    MOST_GROUPS,
    MOST_SLICES,
    SCALE,
    Dimension,
    LatencyStats,
    Measure,
    percentile,
)
from captures.exchanges import ExchangeReader
from captures.exchanges.columns import ExchangeColumns
from captures.filters import compile_filter, context_of
from tests.captures.analysis.kit import MS, exchange, unanswered
from tests.captures.export.files import SAMPLE, opened

SECOND = 1_000 * MS


def counted(*exchanges) -> LatencyStats:
    stats = LatencyStats()
    for each in exchanges:
        stats.add(each)
    return stats


@pytest.mark.parametrize("most", [1, MOST_GROUPS])
def test_columns_tell_the_same_as_one_exchange_after_another(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(latency, "MOST_GROUPS", most)
    reader = ExchangeReader(opened(SAMPLE), annotate=False, summary=False)
    by_columns, plain = LatencyStats(), counted(*reader)
    by_columns.add_columns(ExchangeColumns(reader.capture, reader.rows), reader, np.arange(len(reader)))
    assert len(by_columns) == len(plain) > 0
    assert (by_columns.unmeasured, by_columns.only_waited) == (plain.unmeasured, plain.only_waited)
    for dimension, measure in product(Dimension, Measure):
        mine, theirs = (stats.distributions(dimension, measure) for stats in (by_columns, plain))
        for found, told in zip(mine, theirs, strict=True):
            assert replace(found, counts=None) == replace(told, counts=None)
            assert (found.counts == told.counts).all()
            over = [
                each.over_time(dimension, measure, found.label, found.condition)
                for each in (by_columns, plain)
            ]
            assert (over[0].begin, over[0].width) == (over[1].begin, over[1].width)
            assert (over[0].counts == over[1].counts).all()


def test_bounds_are_round_and_rise_by_a_quarter_or_so() -> None:
    assert SCALE[:4] == (1_000, 1_200, 1_500, 2_000)
    assert SCALE[-1] == 10**13
    steps = [after / before for before, after in pairwise(SCALE)]
    assert 1.19 < min(steps) <= max(steps) < 1.34


def test_percentiles_are_at_most_five_percent_off() -> None:
    chance = random.Random(7)
    times = sorted(
        int(math.exp(chance.uniform(math.log(2_000), math.log(60 * SECOND)))) for _ in range(2_000)
    )
    found, *_ = counted(*(exchange(latency=time) for time in times)).distributions(
        Dimension.API, Measure.MEASURED
    )
    for rank, value in ((50, found.p50), (95, found.p95), (99, found.p99)):
        exact = times[math.ceil(len(times) * rank / 100) - 1]
        assert abs(value - exact) <= 0.05 * exact
    assert found.max == times[-1]
    assert found.count == int(found.counts.sum()) == 2_000


def test_few_times_are_told_as_they_are() -> None:
    found, *_ = counted(exchange(latency=123_456)).distributions(Dimension.API, Measure.MEASURED)
    assert (found.p50, found.p95, found.p99, found.max) == (123_456,) * 4


@pytest.mark.parametrize("time", [-5, 0, 999, 10**13, 10**15])
def test_times_off_the_scale_are_counted(time: int) -> None:
    found, *_ = counted(exchange(latency=time)).distributions(Dimension.API, Measure.MEASURED)
    assert int(found.counts[0 if time < 1_000 else BUCKETS - 1]) == 1
    assert found.max == max(time, 0)


def test_designed_waiting_is_left_out_unless_it_is_asked_for() -> None:
    stats = counted(
        exchange(1, latency=502 * MS, wait=500 * MS), exchange(1, latency=500 * MS, wait=500 * MS)
    )
    excess, *_ = stats.distributions(Dimension.API, Measure.EXCESS)
    measured, *_ = stats.distributions(Dimension.API, Measure.MEASURED)
    assert (excess.count, excess.max) == (1, 2 * MS)
    assert (measured.count, measured.max) == (2, 502 * MS)
    assert stats.only_waited == 1


def test_what_was_not_answered_is_only_counted() -> None:
    stats = counted(exchange(), unanswered())
    assert stats.unmeasured == 1
    assert [found.count for found in stats.distributions(Dimension.API, Measure.EXCESS)] == [1, 1]


def test_groups_come_with_the_filter_for_them() -> None:
    capture = opened(SAMPLE)
    exchanges = list(ExchangeReader(capture, annotate=False, summary=False))
    stats = counted(*exchanges)
    context = context_of(ExchangeReader(capture))
    for dimension in Dimension:
        every, *groups = stats.distributions(dimension, Measure.MEASURED)
        assert sum(group.count for group in groups) == every.count == 402
        assert groups == sorted(groups, key=lambda group: -group.count)
        for group in groups:
            wanted = compile_filter(group.condition)
            assert sum(wanted.match(each, context) for each in exchanges) == group.count, group.condition
        by_excess = [found.label for found in stats.distributions(dimension, Measure.EXCESS)]
        assert by_excess == [every.label, *(group.label for group in groups)]


def test_a_client_without_id_is_known_by_its_host() -> None:
    (_, group) = counted(exchange(client_id=None, client="[::1]:4000")).distributions(
        Dimension.CLIENT, Measure.EXCESS
    )
    assert group.condition == "not client_id and client.host == ::1"
    compile_filter(group.condition)


def test_names_in_filters_are_quoted() -> None:
    odd = 'a "b" or c'
    (_, group) = counted(exchange(client_id=odd)).distributions(Dimension.CLIENT, Measure.EXCESS)
    assert group.label == odd
    assert group.condition == r'client_id == "a \"b\" or c"'


def test_groups_beyond_the_bound_are_counted_together() -> None:
    stats = counted(*(exchange(client_id=f"c{number}") for number in range(MOST_GROUPS + 5)))
    _, others, *groups = stats.distributions(Dimension.CLIENT, Measure.EXCESS)
    assert (others.label, others.count, others.condition) == ("others", 5, "")
    assert len(groups) == MOST_GROUPS


def test_slices_cover_all_of_the_time() -> None:
    begin = 1_700_000_000 * SECOND
    stats = counted(*(exchange(time=begin + each * SECOND) for each in (0, 1, 1, 9)))
    found = stats.over_time(Dimension.API, Measure.EXCESS, "all", "")
    assert found.begin <= begin
    assert found.begin + found.width * len(found) > begin + 9 * SECOND
    at = [(time - found.begin) // found.width for time in (begin, begin + SECOND, begin + 9 * SECOND)]
    assert found.counts[at].sum(axis=1).tolist() == [1, 2, 1]
    assert int(found.counts.sum()) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize("days", [0.001, 1, 30, 20_000])
def test_slices_get_longer_so_that_there_are_not_more_of_them(days: float) -> None:
    length = int(days * 86_400 * SECOND)
    begin = 1_700_000_000 * SECOND
    times = [begin + length * part // 4_000 for part in range(4_000)]
    times[1], times[-2] = times[-2], times[1]  # they may be out of order
    stats = counted(*(exchange(time=time) for time in times))
    found = stats.over_time(Dimension.API, Measure.EXCESS, "Metadata", "api == Metadata")
    assert len(found) <= MOST_SLICES
    assert len(found) > MOST_SLICES // 6 or days > 10_000
    assert int(found.counts.sum()) == 4_000
    assert found.begin % found.width == 0
    for most in (200, 50, 7, 1):
        merged = found.merged(most)
        assert len(merged) <= most
        assert int(merged.counts.sum()) == 4_000
        assert merged.begin <= times[0]
        assert merged.begin + merged.width * len(merged) > times[-1]


def test_widths_are_multiples_of_those_before() -> None:
    # counts of short slices can be added up to longer ones
    widths = latency._WIDTHS
    assert all(after % before == 0 for before, after in pairwise(widths))


def test_a_group_that_is_not_there_has_no_slices() -> None:
    assert len(counted(exchange()).over_time(Dimension.API, Measure.EXCESS, "Fetch", "api == Fetch")) == 0
    assert len(LatencyStats().over_time(Dimension.API, Measure.EXCESS, "all", "")) == 0


def test_nothing_has_no_percentile() -> None:
    counts = np.zeros(BUCKETS, np.int64)
    assert percentile(counts, 50) is None
    counts[[3, 8]] = 9, 1
    assert [percentile(counts, rank) for rank in (50, 90, 91, 100)] == [3, 3, 8, 8]
