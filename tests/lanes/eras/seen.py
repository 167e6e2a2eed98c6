"""The APIs and versions seen live with each broker release: kept in ``docs/versions-seen.json``.

A run of the lane replaces earlier results for a release, part by part (clients, sweep, cluster), and leaves the rest.
The part "captures" is the content of the recordings in the reference folder (``tests/reference.py``); these were
compared with Kafka's classes when they were made, and ``tests/captures/test_oracle.py`` still does so.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator

from captures.exchanges import ExchangeReader, open_capture
from dissectors.apis import api_name
from docs.tools import versions_seen
from docs.tools.versions_seen import Ranges, as_text
from tests.lanes.eras.official import spoken
from tests.reference import captures_dir

#: API key and version
Place = tuple[int, int]

_BROKER = re.compile(r"Apache Kafka (\d+(?:\.\d+)+)")


class SeenLayouts:
    """Layouts by release and by the part in which they were seen."""

    def __init__(self) -> None:
        self._places: dict[str, dict[str, set[Place]]] = defaultdict(lambda: defaultdict(set))

    def add(self, release: str, part: str, places: Iterable[Place]) -> None:
        """Add exchanges that were decoded to the last byte."""
        self._places[release][part] |= set(places)

    def to_json(self) -> dict[str, dict[str, Ranges]]:
        """Return release -> part -> API -> versions, in the format of the file."""
        return {
            release: {part: _ranges(places) for part, places in parts.items() if places}
            for release, parts in self._places.items()
        }


def _ranges(places: set[Place]) -> Ranges:
    found: dict[int, list[int]] = defaultdict(list)
    for key, version in places:
        found[key].append(version)
    return {api_name(key): as_text(versions) for key, versions in sorted(found.items())}


def update(found: SeenLayouts) -> None:
    """Update the file with new results, and write the page."""
    kept = versions_seen.load()
    for release, parts in found.to_json().items():
        kept.setdefault(release, {}).update(parts)
    ordered = {
        release: {part: kept[release][part] for part in versions_seen.PARTS if part in kept[release]}
        for release in sorted(kept, key=versions_seen.number)
    }
    versions_seen.RESULTS.write_text(json.dumps(ordered, indent=1) + "\n")
    versions_seen.PAGE.write_text(versions_seen.page(ordered))


def of_captures() -> Iterator[tuple[str, set[Place]]]:
    """Yield the release and the content of each recording of a real broker in the reference folder."""
    with (captures_dir() / "INDEX.tsv").open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    for row in rows:
        broker = _BROKER.match(row["broker"])
        if broker is None:
            continue
        capture = open_capture(str(captures_dir() / row["file"]))
        capture.read()
        exchanges = ExchangeReader(capture, annotate=False, summary=False)
        places = {spoken(exchange) for exchange in exchanges if not exchange.problems}
        yield broker[1], {place for place in places if place is not None}
