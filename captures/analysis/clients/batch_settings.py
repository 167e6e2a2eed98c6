"""Batch settings of a producer: ``linger.ms``, ``batch.size``, and conclusions from missing compression."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import median

from captures.analysis.clients.fields import BatchFacts
from captures.analysis.clients.libraries import JAVA, SARAMA, Library
from captures.analysis.clients.settings import MOST_EVIDENCE, Setting, ValueSource
from dissectors.units import MS

_LEAST_BATCHES = 8
_SMALL = 1000
"""bytes; shorter batches may grow when compressed."""
_ALWAYS_COMPRESS = frozenset({JAVA, SARAMA})
_CLOCKS_APART = 5 * MS
"""ns by which a record may seem to be sent before its creation while the clocks still count as equal."""
_SHARE = 0.6
_ALIKE = 0.1
_LEAST_ALIKE = 2 * MS
"""Tolerance, as a share or in ns, within which waits of requests' records count as equal."""
_MOST_LINGER = 60_000 * MS
_HALF_A_TICK = MS // 2
"""Timestamps of records are truncated to milliseconds."""


def estimates(seen: BatchFacts) -> Iterator[Setting]:
    """Yield the settings that a producer's batches reveal."""
    linger = _linger(seen)
    if linger is not None:
        yield linger
    size, number = seen.largest
    if seen.count >= _LEAST_BATCHES:
        note = (
            f"the largest of {seen.count:,} batches: the limit is no lower, unless a single record is larger"
        )
        yield Setting(
            "batch.size", size, ValueSource.ESTIMATED, seen.count, (-number,), note=note, at_least=True
        )


def compression(read: Setting, seen: BatchFacts, library: Library | None) -> Setting:
    """Return what a setting from requests really shows; this matters for ``compression.type``.

    Compressed batches are certain. Uncompressed ones may have other reasons than the setting: most libraries send a
    batch uncompressed if compression does not make it smaller.
    """
    if read.key != "compression.type" or read.value != "none":
        return read
    if library is not None and library.name in _ALWAYS_COMPRESS:
        return read
    size = seen.largest[0]
    if size < _SMALL:
        note = f"batches of {size:,} bytes at most are not compressed, which may not have made them smaller"
        return Setting(read.key, note=note)
    note = "no batch is compressed; one that compression does not make smaller would not be, either"
    return replace(read, how=ValueSource.ESTIMATED, note=note)


def _linger(seen: BatchFacts) -> Setting | None:
    """Estimate how long batches wait for more records: the age of a request's first record when it is sent.

    A batch that has waited long enough is sent together with those of other partitions on the same broker, whatever
    their age.
    """
    if len(seen.ages) < _LEAST_BATCHES:
        return None
    ages = [age for age, _ in seen.ages]
    if min(ages) < -_CLOCKS_APART or min(ages) > _MOST_LINGER:
        return None  # the client's clock differs from the capture's, or the application sets timestamps
    middle = median(ages)
    alike = [age for age in ages if abs(age - middle) <= max(_ALIKE * middle, _LEAST_ALIKE)]
    if len(alike) < _SHARE * len(ages):
        return None  # batches are sent when full, or when the application flushes
    value = max(middle - _HALF_A_TICK, 0)
    note = (
        f"{len(alike):,} of {len(ages):,} requests are sent about {value / MS:,.0f} ms after their first record was "
        "made; takes the client's clock to be that of the capture"
    )
    numbers = tuple(number for _, number in seen.ages[:MOST_EVIDENCE])
    return Setting("linger.ms", round(value / MS), ValueSource.ESTIMATED, len(ages), numbers, note=note)
