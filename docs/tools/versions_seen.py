"""The page about layouts seen live: the versions of each API by broker release. Made from ``versions-seen.json``.

``python -m tests.lanes.eras --write`` writes that file: release -> part of the lane -> API -> versions, such as ``0-3
5``. A version counts as seen if a broker answered a request of that version in the same version.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

from dissectors.apis import api, api_name, version_limits

DOCS = Path(__file__).parent.parent
RESULTS = DOCS / "versions-seen.json"
PAGE = DOCS / "versions-seen.md"  # written by docs.generate, like other pages

#: names of the APIs in the order of their keys
KEYS = {api_name(key): key for key in sorted(version_limits())}

Ranges = dict[str, str]
Results = dict[str, dict[str, Ranges]]
#: API and version
Layout = tuple[str, int]

#: layouts per version of an API: request and response
_SIDES = 2
#: parts of the lane
CLIENTS, LIBRARIES, SWEEP, CLUSTER, CAPTURES = PARTS = (
    "clients",
    "libraries",
    "sweep",
    "cluster",
    "captures",
)

#: (API, versions) -> why no released broker supports them
UNSPOKEN: dict[tuple[str, str], str] = {}

_INTRO = """# Versions seen live

Every version of every API is declared in `dissectors/apis/`, and tested against the protocol's own descriptions. This
page shows which of them kproxy has seen in traffic of real brokers and clients: {seen} of {all} layouts (requests and
responses, each version counted), with {brokers} releases of Apache Kafka. Each of these messages was decoded to its
last byte, in the version it announced, and Kafka's own classes read the same values.

A version counts if a broker answered a request of that version in that version. `.ci/brokers` starts the brokers and
repeats the check (`tests/lanes/eras`); `.ci/brokers --write` updates this page and `versions-seen.json`. The traffic
comes from these parts of the lane:

- **clients**: the command line tools of the release (with 4.4.0 those of 4.3.1, as Maven Central has no others),
  current kafka-python and librdkafka, through `kproxy proxy`;
- **sweep**: everything that the broker announces, requested once by requests that kproxy builds;
- **libraries**: current clients, through `kproxy proxy`: [what each does](clients.md#libraries-through-kproxy);
- **cluster**: traffic among brokers and controllers;
- **captures**: earlier recordings of many client libraries, which are too large for this repository."""


def number(release: str) -> tuple[int, ...]:
    """Return a release as a comparable tuple."""
    return tuple(map(int, release.split(".")))


def load() -> Results:
    """Return the content of the file."""
    results: Results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return results


def as_text(versions: Iterable[int]) -> str:
    """Return versions in the form of the file."""
    runs: list[list[int]] = []
    for version in sorted(versions):
        if runs and runs[-1][1] == version - 1:
            runs[-1][1] = version
        else:
            runs.append([version, version])
    return " ".join(f"{low}-{high}" if high > low else f"{low}" for low, high in runs)


def _versions(runs: str) -> Iterator[int]:
    for run in runs.split():
        low, _, high = run.partition("-")
        yield from range(int(low), int(high or low) + 1)


def layouts(ranges: Ranges) -> Iterator[Layout]:
    """Yield API and version of each layout in ranges."""
    for name, runs in ranges.items():
        for version in _versions(runs):
            yield name, version


def declared() -> list[Layout]:
    """Return all declared versions."""
    return [(name, version) for name, key in KEYS.items() for version in _declared(key)]


def _declared(key: int) -> Iterable[int]:
    known = api(key)
    assert known is not None
    return range(known.request.versions.first, known.request.versions.last + 1)


def brokers_of(results: Results) -> dict[Layout, list[str]]:
    """Return the releases with which each layout was seen, oldest first."""
    found: dict[Layout, set[str]] = defaultdict(set)
    for release, parts in results.items():
        for ranges in parts.values():
            for layout in layouts(ranges):
                found[layout].add(release)
    return {layout: sorted(releases, key=number) for layout, releases in found.items()}


def unseen(results: Results) -> list[Layout]:
    """Return the layouts that were not seen with any broker."""
    seen = brokers_of(results)
    return [layout for layout in declared() if layout not in seen]


def unspoken() -> dict[Layout, str]:
    """Return the layouts that no released broker supports, each with the reason."""
    return {(name, version): why for (name, runs), why in UNSPOKEN.items() for version in _versions(runs)}


def page(results: Results) -> str:
    """Return the text of the page."""
    seen = brokers_of(results)
    everything = declared()
    count = sum(layout in seen for layout in everything)
    intro = _INTRO.format(seen=_SIDES * count, all=_SIDES * len(everything), brokers=len(results))
    parts = [intro, _by_api(seen, everything), _unseen(results), _by_broker(results)]
    return "\n\n".join(parts) + "\n"


def _by_api(seen: dict[Layout, list[str]], everything: list[Layout]) -> str:
    rows = [
        "## By API",
        "",
        "For each version, the first and the last release with which it was seen.",
        "",
        "| API | seen | with |",
        "|---|---|---|",
    ]
    for name in KEYS:
        versions = [version for one, version in everything if one == name]
        groups: dict[str, list[int]] = {}
        for version in versions:
            releases = seen.get((name, version))
            if releases:
                span = releases[0] if len(releases) == 1 else f"{releases[0]} to {releases[-1]}"
                groups.setdefault(span, []).append(version)
        told = "; ".join(f"{as_text(members)}: {span}" for span, members in groups.items())
        count = sum(map(len, groups.values()))
        rows.append(f"| {name} | {count} of {len(versions)} | {told} |")
    return "\n".join(rows)


def _unseen(results: Results) -> str:
    left = unseen(results)
    if not left:
        return "## Not seen\n\nNone: every declared version was seen."
    reasons = unspoken()
    rows = ["## Not seen", "", "| version | why |", "|---|---|"]
    for name, version in left:
        rows.append(
            f"| {name} v{version} | {reasons.get((name, version), 'not yet asked for by the lane')} |"
        )
    return "\n".join(rows)


def _by_broker(results: Results) -> str:
    text = ["## By broker"]
    for release, parts in results.items():
        spoken = {layout for part, ranges in parts.items() if part != SWEEP for layout in layouts(ranges)}
        swept = set(layouts(parts.get(SWEEP, {}))) - spoken
        text.append(f"### {release}\n\n{_SIDES * len(spoken | swept)} layouts ({', '.join(parts)}).")
        text.append(_listed(spoken))
        if swept:
            text.append(f"Only in the sweep: {_listed(swept)}")
    return "\n\n".join(text)


def _listed(found: set[Layout]) -> str:
    told = []
    for name in KEYS:
        versions = [version for one, version in found if one == name]
        if versions:
            told.append(f"{name} {as_text(versions)}")
    return ", ".join(told) + "."
