"""Differences between two sides, by subject."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace

from captures.analysis.client_stats import ClientRow
from captures.analysis.clients.inventory import Client
from captures.analysis.clients.setting_display import DisplayedSetting
from captures.analysis.clients.settings import ValueSource, alike
from captures.analysis.comparison.model import Aspect, Difference, SideValue
from captures.analysis.comparison.side import ErrorKind, Side
from captures.analysis.comparison.time_slices import MOST_EXAMPLES, Key, TimeSlicedCounts
from captures.analysis.comparison.uncertainty import (
    Interval,
    binomial_dispersion,
    dispersion,
    percentile_interval,
    rate_ratio,
    share_interval,
)
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.groups.model import Rebalance
from captures.analysis.latency import SCALE, Dimension, Distribution, Measure, percentile
from captures.analysis.negotiation import ClientVersions, Matrix, shown
from captures.analysis.percentiles import Percentiles
from captures.analysis.releases import lines_matching
from captures.analysis.time_shares import ShareRow
from captures.arrays import Int64s
from captures.json_objects import Range
from captures.meaning import words
from captures.time_format import span
from dissectors.apis import api_name

# ---------------------------------------------------------------- rates

NOTABLE = 2.0
"""Ratio from which on an unproven difference is reported."""
_LEAST_COUNT = 3
"""Unproven differences with smaller counts are not reported."""
_SMALL_SHARE = 0.05
"""Share of all requests per second: a difference of that size has half its weight."""
_ZERO = 0.5
"""Stands for a count of 0 in a ratio that is shown or weighted."""
_ERROR_WEIGHT, _EXPECTED_WEIGHT, _UNANSWERED_WEIGHT = 2.0, 0.3, 1.5


@dataclass(frozen=True, slots=True)
class EventCount:
    """Number of events on one side.

    :ivar slices: their distribution over time
    """

    total: int
    seconds: float
    slices: list[int]
    examples: tuple[int, ...]

    @property
    def rate(self) -> float:
        """Events per second."""
        return self.total / self.seconds

    @property
    def spread(self) -> float:
        """Dispersion in comparison with a Poisson process."""
        return dispersion(self.slices)

    def shown(self, noun: str, plural: str = "") -> SideValue:
        """Return it in words, with the interval of its rate."""
        worth = self.total / self.spread
        # a Poisson count is a share of a very long time
        low, high = _poisson(worth)
        factor = self.spread / self.seconds
        return SideValue(
            f"{words.counted(self.total, noun, plural)}, {rate(self.rate)}",
            value=self.rate,
            count=self.total,
            low=low * factor,
            high=high * factor,
            examples=self.examples,
        )


def counted(side: Side, rhythm: TimeSlicedCounts[Key], key: Key) -> EventCount:
    """Return the number of events of a side."""
    return EventCount(rhythm.total(key), side.seconds, rhythm.slices(key), rhythm.examples(key))


def ratio_of(good: EventCount, bad: EventCount) -> Interval:
    """Return the interval of the ratio of two rates, bad to good."""
    spread = max(good.spread, bad.spread)
    return rate_ratio(good.total, good.seconds, bad.total, bad.seconds, spread)


def rate(per_second: float, beside: float = 0.0) -> str:
    """Return a rate as text: ``12/s``, ``3.5/min``.

    :param beside: a rate it is compared with, which determines the unit if it is larger
    """
    largest = max(per_second, beside)
    factor, unit = next(
        ((factor, unit) for factor, unit in ((1, "s"), (60, "min")) if largest * factor >= 1), (3600, "h")
    )
    value = per_second * factor
    return f"{value:,.0f}/{unit}" if value >= 999.5 else f"{value:.3g}/{unit}"


def times(ratio: float) -> str:
    """Return a ratio as the number of times more or less."""
    value = ratio if ratio >= 1 else 1 / ratio
    return f"{value:.2f}" if value < 1.95 else f"{value:.1f}" if value < 9.95 else f"{value:,.0f}"


def compare(
    good: EventCount,
    bad: EventCount,
    *,
    aspect: Aspect,
    subject: str,
    what: str,
    noun: tuple[str, str],
    weight: Callable[[float], float],
) -> Difference | None:
    """Compare two rates; return None if they do not differ, or not notably.

    :param noun: singular and plural of the events
    :param weight: returns the weight of a difference of rates in 1/s
    """
    if not (good.seconds and bad.seconds) or not (good.total or bad.total):
        return None
    sure = ratio_of(good, bad).sure
    certain = sure != 1.0
    measured = (max(bad.total, _ZERO) / bad.seconds) / (max(good.total, _ZERO) / good.seconds)
    if not certain and (
        abs(math.log(measured)) < math.log(NOTABLE) or max(good.total, bad.total) < _LEAST_COUNT
    ):
        return None
    return Difference(
        aspect=aspect,
        subject=subject,
        what=what,
        sentence=_rate_sentence(subject, noun[1], good, bad, sure),
        good=good.shown(*noun),
        bad=bad.shown(*noun),
        ratio=measured if good.total and bad.total else None,
        sure=sure,
        certain=certain,
        score=abs(math.log2(sure if certain else measured)) * weight(abs(bad.rate - good.rate)),
    )


def _rate_sentence(subject: str, plural: str, good: EventCount, bad: EventCount, sure: float) -> str:
    if not good.total:
        text = f"{subject}: {plural} in bad only, {rate(bad.rate)}"
    elif not bad.total:
        text = f"{subject}: {plural} in good only, {rate(good.rate)}"
    else:
        more = "more" if bad.rate > good.rate else "fewer"
        ratio = times(bad.rate / good.rate)
        both = f"{rate(good.rate, bad.rate)} in good and {rate(bad.rate, good.rate)} in bad"
        text = f"{subject}: {ratio} times {more} {plural} a second, {both}"
    return f"{text}{proof(sure)}"


def proof(sure: float) -> str:
    """Return a clause about the certainty of a ratio."""
    if sure == 1.0:
        return "; too little data to be sure"
    return "" if math.isinf(sure) or not sure else f" (at least {times(sure)} times, at 99.9 %)"


def rate_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences of requests, errors, and requests without an answer."""
    total = max(
        _per_second(sum(side.requests.total(api) for api in side.requests.kinds()), side)
        for side in (good, bad)
    )
    found = [
        *(
            _of_requests(good, bad, api, total)
            for api in sorted(good.requests.kinds() | bad.requests.kinds())
        ),
        *(_of_errors(good, bad, kind) for kind in _sorted(good.errors.kinds() | bad.errors.kinds())),
        *(_of_unanswered(good, bad, api) for api in sorted(good.unanswered.kinds() | bad.unanswered.kinds())),
    ]
    return [each for each in found if each is not None]


def _of_requests(good: Side, bad: Side, api: str, total: float) -> Difference | None:
    return compare(
        counted(good, good.requests, api),
        counted(bad, bad.requests, api),
        aspect=Aspect.RATES,
        subject=api,
        what="requests",
        noun=("request", "requests"),
        weight=lambda size: size / (size + _SMALL_SHARE * total) if size else 0.0,
    )


def _of_errors(good: Side, bad: Side, kind: ErrorKind) -> Difference | None:
    return compare(
        counted(good, good.errors, kind),
        counted(bad, bad.errors, kind),
        aspect=Aspect.ERRORS,
        subject=f"{kind.name} of {kind.api}",
        what="expected_errors" if kind.expected else "errors",
        noun=("response", "responses"),
        weight=lambda _: _EXPECTED_WEIGHT if kind.expected else _ERROR_WEIGHT,
    )


def _of_unanswered(good: Side, bad: Side, api: str) -> Difference | None:
    return compare(
        counted(good, good.unanswered, api),
        counted(bad, bad.unanswered, api),
        aspect=Aspect.ERRORS,
        subject=f"{api} without an answer",
        what="unanswered",
        noun=("request", "requests"),
        weight=lambda _: _UNANSWERED_WEIGHT,
    )


def _sorted(kinds: set[ErrorKind]) -> list[ErrorKind]:
    return sorted(kinds, key=lambda kind: (kind.api, kind.name, kind.expected))


def _per_second(count: int, side: Side) -> float:
    return count / side.seconds if side.seconds else 0.0


_LONG = 1e9


def _poisson(count: float) -> tuple[float, float]:
    """Return the interval of a Poisson count (Garwood 1936): the limit of binomial ones with many trials."""
    share = share_interval(count, _LONG)
    return share.low * _LONG, share.high * _LONG


# ---------------------------------------------------------------- latencies

_RANKS = {"median": 50, "p95": 95}
_LEAST_EXCHANGES = 20
"""Number of exchanges on both sides from which on an unproven difference is reported."""
_SMALL_LATENCY = 5_000_000
"""ns: a difference of that size has half its weight."""
_LATENCY_WEIGHT = 1.5


_PARTS = {
    "broker": "the broker's own work",
    "followers": "waiting for followers",
    "paused": "pauses by a quota",
    "network": "the network",
}
"""Shares of the time (:mod:`captures.analysis.time_shares`), in words."""
_MOST_OF_IT = 0.5


@dataclass(frozen=True, slots=True)
class _Point:
    """A percentile of one side."""

    value: int
    interval: Interval
    count: int

    def shown(self, examples: tuple[int, ...]) -> SideValue:
        high = self.interval.high
        return SideValue(
            f"{span(self.value)} of {words.counted(self.count, 'exchange')}",
            value=float(self.value),
            count=self.count,
            low=self.interval.low,
            high=None if math.isinf(high) else high,
            examples=examples,
        )


def latency_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences, at most one per API: of the median or of p95, whichever differs more."""
    sides = [
        {
            each.label: each
            for each in side.latency.distributions(Dimension.API, Measure.EXCESS)[1:]
            if each.count
        }
        for side in (good, bad)
    ]
    shares = good.time_shares(), bad.time_shares()
    found = []
    for api in sorted(sides[0].keys() & sides[1].keys()):
        both = [_difference(api, what, (good, sides[0][api]), (bad, sides[1][api])) for what in _RANKS]
        known = [each for each in both if each is not None]
        if known:
            largest = max(known, key=lambda each: (each.certain, each.score))
            part = _largest_part(*(each.get(api) for each in shares)) if largest.certain else ""
            found.append(replace(largest, sentence=f"{largest.sentence}{part}"))
    return found


def _largest_part(good: ShareRow | None, bad: ShareRow | None) -> str:
    """Return a clause about the part of the time that makes up most of the difference; empty if unknown.

    Means are compared, since only they add up.
    """
    if good is None or bad is None:
        return ""
    means = {part: (_mean(good, part), _mean(bad, part)) for part in _PARTS}
    whole = sum(after - before for before, after in means.values())
    part, (before, after) = max(means.items(), key=lambda each: abs(each[1][1] - each[1][0]))
    if not whole or (after - before) / whole < _MOST_OF_IT:
        return ""
    return f"; most of it is {_PARTS[part]}, on average {span(round(before))} and {span(round(after))}"


def _mean(row: ShareRow, part: str) -> float:
    """Return the mean of a part of the time in ns, over all exchanges of an API that did not only wait."""
    of: Percentiles | None = getattr(row, part)
    return of.total / row.broker.count if of is not None and row.broker is not None else 0.0


def _difference(
    api: str, what: str, good: tuple[Side, Distribution], bad: tuple[Side, Distribution]
) -> Difference | None:
    rank = _RANKS[what]
    one, other = _point(*good, rank), _point(*bad, rank)
    sure = _latency_ratio(one.interval, other.interval)
    measured = max(other.value, 1) / max(one.value, 1)
    certain = sure != 1.0
    little = min(one.count, other.count) < _LEAST_EXCHANGES
    if not certain and (little or abs(math.log(measured)) < math.log(NOTABLE)):
        return None
    size = abs(other.value - one.value)
    slower = "longer" if other.value > one.value else "shorter"
    both = f"{span(one.value)} in good and {span(other.value)} in bad"
    text = f"{api}: {what} {times(measured)} times {slower} without designed waiting, {both}"
    weight = _LATENCY_WEIGHT * size / (size + _SMALL_LATENCY) if size else 0.0
    return Difference(
        aspect=Aspect.LATENCY,
        subject=api,
        what=what,
        sentence=f"{text}{proof(sure)}",
        good=one.shown(good[0].slowest(api)),
        bad=other.shown(bad[0].slowest(api)),
        ratio=measured,
        sure=sure,
        certain=certain,
        score=abs(math.log2(sure if certain else measured)) * weight,
    )


def _latency_ratio(good: Interval, bad: Interval) -> float:
    """Return the ratio of at least so many times, or at most if it is below 1; 1 if the intervals overlap."""
    if bad.low > good.high:
        return bad.low / good.high
    if bad.high < good.low:
        return bad.high / good.low
    return 1.0


def _point(side: Side, found: Distribution, rank: int) -> _Point:
    value = found.p50 if rank == _RANKS["median"] else found.p95
    overdispersion = _latency_spread(side, found, rank)
    interval = percentile_interval(found.counts, SCALE, rank / 100, overdispersion)
    assert interval is not None, "there is something in it"
    return _Point(value, interval, found.count)


def _latency_spread(side: Side, found: Distribution, rank: int) -> float:
    """Return how much more often than by chance exchanges slower than the percentile occur together."""
    bucket = percentile(found.counts, rank)
    over_time = side.latency.over_time(Dimension.API, Measure.EXCESS, found.label, found.condition).merged(64)
    counts: Int64s = over_time.counts
    if bucket is None or not len(counts):
        return 1.0
    return binomial_dispersion(counts[:, bucket:].sum(axis=1), counts.sum(axis=1))


# ---------------------------------------------------------------- findings and rebalances

_SCORES = {Severity.INFO: 0.5, Severity.LOW: 1.5, Severity.MEDIUM: 4.0, Severity.HIGH: 8.0}
_GONE = 0.5
"""Weight of findings only in good."""
_REBALANCE_WEIGHT = 1.5


def finding_differences(good: Side, bad: Side) -> list[Difference]:
    """Return findings on only one side, or with different severity."""
    sides = [{each.key: each for each in side.findings()} for side in (good, bad)]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        difference = _of_finding(sides[0].get(key), sides[1].get(key))
        if difference is not None:
            found.append(difference)
    return found


def _of_finding(good: Finding | None, bad: Finding | None) -> Difference | None:
    finding = bad or good
    assert finding is not None, "it was found on one side at least"
    if good is not None and bad is not None and good.severity == bad.severity:
        return None
    if good is None:
        sentence, score = f"only in bad: {finding.sentence}", _SCORES[finding.severity]
    elif bad is None:
        sentence, score = f"only in good: {finding.sentence}", _SCORES[finding.severity] * _GONE
    else:
        graver = "graver" if bad.severity > good.severity else "less grave"
        sentence = (
            f"{graver} in bad ({good.severity.word} in good, {bad.severity.word} in bad): {bad.sentence}"
        )
        score = abs(_SCORES[bad.severity] - _SCORES[good.severity])
    return Difference(
        aspect=Aspect.FINDINGS,
        subject=finding.subject,
        what=finding.rule,
        sentence=sentence,
        good=_found(good),
        bad=_found(bad),
        score=score,
    )


def _found(finding: Finding | None) -> SideValue:
    if finding is None:
        return SideValue("not found")
    times = f"{finding.severity.word}, {words.counted(finding.count, 'time')}"
    return SideValue(times, count=finding.count, examples=finding.evidence[:MOST_EXAMPLES])


def rebalance_differences(
    good: Side, bad: Side, rebalances: tuple[list[Rebalance], list[Rebalance]]
) -> list[Difference]:
    """Return the differences in frequency of rebalances, by trigger."""
    sides = [_by_trigger(each) for each in rebalances]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        group, trigger = key
        one, other = (
            _rebalances_counted(each.get(key, []), side)
            for each, side in zip(sides, (good, bad), strict=True)
        )
        difference = compare(
            one,
            other,
            aspect=Aspect.REBALANCES,
            subject=f"group {group}, {trigger.replace('_', ' ')}",
            what=trigger,
            noun=("rebalance", "rebalances"),
            weight=lambda _: _REBALANCE_WEIGHT,
        )
        if difference is not None:
            found.append(difference)
    return found


def _by_trigger(rebalances: list[Rebalance]) -> dict[tuple[str, str], list[Rebalance]]:
    found: dict[tuple[str, str], list[Rebalance]] = defaultdict(list)
    for each in rebalances:
        found[each.group, str(each.trigger)].append(each)
    return found


def _rebalances_counted(rebalances: list[Rebalance], side: Side) -> EventCount:
    # a storm counts as few events: each rebalance leads to the next, so they are no Poisson process
    storms = {(each.group, each.trigger) for each in rebalances if each.storm}
    slices = [len(rebalances), *[0] * 7] if storms else []
    examples = tuple(each.evidence[0] for each in rebalances[:MOST_EXAMPLES] if each.evidence)
    return EventCount(len(rebalances), side.seconds, slices, examples)


# ---------------------------------------------------------------- clients and versions

_ARRIVED, _LEFT, _OTHER_SOFTWARE, _OTHER_PRINCIPAL = 1.0, 1.0, 4.0, 4.0
_SHARE_WEIGHT = 4.0
_OFFER_WEIGHT, _USE_WEIGHT = 5.0, 1.0
_APIS_SHOWN = 6


def client_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the clients that are on only one side, and those with other software or another principal."""
    sides = [{each.name: each for each in side.clients} for side in (good, bad)]
    totals = [sum(each.exchanges for each in clients.values()) for clients in sides]
    found = []
    for name in sorted(sides[0].keys() | sides[1].keys()):
        one, other = (clients.get(name) for clients in sides)
        if one is None or other is None:
            found.append(_one_sided(one, other, totals, _numbers(good, name), _numbers(bad, name)))
            continue
        for what, before, after, score in (
            ("software", one.software, other.software, _OTHER_SOFTWARE),
            ("principal", one.principals, other.principals, _OTHER_PRINCIPAL),
        ):
            if before and after and set(before) != set(after):
                both = f"{words.listed(before)} in good and {words.listed(after)} in bad"
                sentence = f"client {name}: other {what}, {both}"
                found.append(
                    Difference(
                        aspect=Aspect.CLIENTS,
                        subject=name,
                        what=what,
                        sentence=sentence,
                        good=SideValue(words.listed(before), examples=_numbers(good, name)),
                        bad=SideValue(words.listed(after), examples=_numbers(bad, name)),
                        score=score,
                    )
                )
    return found


def _one_sided(
    good: ClientRow | None,
    bad: ClientRow | None,
    totals: list[int],
    good_examples: tuple[int, ...],
    bad_examples: tuple[int, ...],
) -> Difference:
    row, where, total, weight = (
        (bad, "bad", totals[1], _ARRIVED) if good is None else (good, "good", totals[0], _LEFT)
    )
    assert row is not None, "one side has it"
    share = row.exchanges / total if total else 0.0
    software = f" ({words.listed(row.software)})" if row.software else ""
    text = f"{words.counted(row.exchanges, 'exchange')}, {100 * share:.0f} % of all"
    absent = SideValue("not there")
    there = SideValue(text, count=row.exchanges, examples=good_examples or bad_examples)
    return Difference(
        aspect=Aspect.CLIENTS,
        subject=row.name,
        what="presence",
        sentence=f"client {row.name}{software} is in {where} only: {text}",
        good=absent if good is None else there,
        bad=there if good is None else absent,
        score=weight + _SHARE_WEIGHT * share,
    )


def _numbers(side: Side, client: str) -> tuple[int, ...]:
    """Return numbers of the first exchanges of a client."""
    found = {
        number
        for api, name in side.shares.kinds()
        if name == client
        for number in side.shares.examples((api, name))
    }
    return tuple(sorted(found)[:MOST_EXAMPLES])


# ------------------------------------------------------------ versions
def version_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the differences in versions that brokers offer, and that clients on both sides use."""
    one, other = good.matrix(), bad.matrix()
    found = [*_of_offers(one, other)]
    clients = {each.name: each for each in one.clients}
    for client in other.clients:
        before = clients.get(client.name)
        if before is not None:
            difference = _of_use(before, client)
            if difference is not None:
                found.append(difference)
    return found


def _of_offers(good: Matrix, bad: Matrix) -> list[Difference]:
    one, other = _offered(good), _offered(bad)
    if not one or not other:
        return []
    changed = [key for key in sorted(one.keys() | other.keys()) if one.get(key) != other.get(key)]
    if not changed:
        return []
    parts = [f"{api_name(key)} {_ranges(one.get(key))} to {_ranges(other.get(key))}" for key in changed]
    names = [_looks_like(each) for each in (good, bad)]
    like = f" (they look like {names[0]} and {names[1]})" if all(names) and names[0] != names[1] else ""
    return [
        Difference(
            aspect=Aspect.VERSIONS,
            subject="brokers",
            what="offered",
            sentence=f"brokers offer other versions{like}: {words.some(parts, _APIS_SHOWN, ', ')}",
            good=_offer_shown(good, len(one)),
            bad=_offer_shown(bad, len(other)),
            score=_OFFER_WEIGHT + math.log2(1 + len(changed)) / 4,
        )
    ]


def _offered(matrix: Matrix) -> dict[int, frozenset[Range]]:
    """Return the version ranges that the brokers offer, by API."""
    found: dict[int, set[Range]] = {}
    for broker in matrix.brokers:
        for key, versions in broker.apis.items():
            found.setdefault(key, set()).add(versions)
    return {key: frozenset(ranges) for key, ranges in found.items()}


def _ranges(found: frozenset[Range] | None) -> str:
    return " or ".join(shown(each) for each in sorted(found)) if found else "none"


def _looks_like(matrix: Matrix) -> str:
    names = [name for broker in matrix.brokers if broker.apis for name in lines_matching(broker.apis)[:1]]
    return words.listed(dict.fromkeys(names))


def _offer_shown(matrix: Matrix, apis: int) -> SideValue:
    numbers = sorted(each.announced_by for each in matrix.brokers if each.announced_by is not None)
    name = _looks_like(matrix)
    text = f"{apis} APIs{f', as {name}' if name else ''}"
    return SideValue(text, count=len(numbers), examples=tuple(numbers[:MOST_EXAMPLES]))


def _of_use(good: ClientVersions, bad: ClientVersions) -> Difference | None:
    """Compare the highest version of each API that a client uses on both sides."""
    one, other = _tops(good), _tops(bad)
    changed = [key for key in sorted(one.keys() & other.keys()) if one[key] != other[key]]
    if not changed:
        return None
    parts = [f"{api_name(key)} v{one[key]} to v{other[key]}" for key in changed]
    texts = [
        words.some((f"{api_name(key)} v{tops[key]}" for key in changed), _APIS_SHOWN, ", ")
        for tops in (one, other)
    ]
    return Difference(
        aspect=Aspect.VERSIONS,
        subject=bad.name,
        what="used",
        sentence=f"client {bad.name} uses other versions: {words.some(parts, _APIS_SHOWN, ', ')}",
        good=SideValue(texts[0], examples=_firsts(good, changed)),
        bad=SideValue(texts[1], examples=_firsts(bad, changed)),
        score=_USE_WEIGHT + math.log2(1 + len(changed)) / 4,
    )


def _tops(client: ClientVersions) -> dict[int, int]:
    found: dict[int, int] = {}
    for use in client.uses:
        found[use.key] = max(found.get(use.key, 0), *use.used)
    return found


def _firsts(client: ClientVersions, keys: list[int]) -> tuple[int, ...]:
    return tuple(sorted(use.first for use in client.uses if use.key in keys)[:MOST_EXAMPLES])


# ---------------------------------------------------------------- settings

_READ, _ESTIMATED, _DANGEROUS = 3.0, 0.5, 2.0
_IDENTIFYING = frozenset({"client.id"})
"""Settings that identify a client."""


def setting_differences(good: Side, bad: Side) -> list[Difference]:
    """Return the settings that were seen on both sides, with different values.

    Estimates from the timing of requests prove nothing, and are reported as possible differences.
    """
    clients = {each.name: each for each in good.configured()}
    found = []
    for client in bad.configured():
        before = clients.get(client.name)
        if before is not None:
            found += _of_settings(before, client)
    return found


def _of_settings(good: Client, bad: Client) -> list[Difference]:
    known = {each.setting.key: each for each in good.settings if each.setting.how is not ValueSource.NOT_SEEN}
    found = []
    for after in bad.settings:
        before = known.get(after.setting.key)
        if (
            before is not None
            and after.setting.how is not ValueSource.NOT_SEEN
            and after.setting.key not in _IDENTIFYING
        ):
            difference = _of_setting(bad.name, before, after)
            if difference is not None:
                found.append(difference)
    return found


def _of_setting(client: str, good: DisplayedSetting, bad: DisplayedSetting) -> Difference | None:
    read = good.setting.how is ValueSource.READ and bad.setting.how is ValueSource.READ
    if read and good.setting.value == bad.setting.value:
        return None
    if not read and (alike(bad.setting, good.setting.value) or alike(good.setting, bad.setting.value)):
        return None
    values = [each.text or "not set" for each in (good, bad)]
    warning = f". {bad.danger[:1].upper()}{bad.danger[1:]}" if bad.danger and not good.danger else ""
    estimated = "" if read else ", an estimate"
    score = (_READ if read else _ESTIMATED) + (_DANGEROUS if warning else 0.0)
    return Difference(
        aspect=Aspect.SETTINGS,
        subject=client,
        what=bad.setting.key,
        sentence=f"client {client}: {bad.name} is {values[0]} in good and {values[1]} in bad{estimated}{warning}",
        good=_setting_shown(good, values[0]),
        bad=_setting_shown(bad, values[1]),
        score=score,
        certain=read,
    )


def _setting_shown(setting: DisplayedSetting, text: str) -> SideValue:
    return SideValue(text, count=setting.setting.count, examples=tuple(setting.setting.evidence))
