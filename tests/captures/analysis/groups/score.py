"""Accuracy of rebalance causes in recordings with a truth: the table of ``docs/groups.md``.

``python -m tests.captures.analysis.groups.score`` prints it; ``--write`` updates the page. The recordings are those of
``tests/data/groups``: each as a whole, with the connections of one member only, from the middle on, and, for clusters,
as seen by one of three brokers.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from captures.analysis.groups.model import Rebalance
from captures.analysis.groups.vocabulary import Certainty, TimeoutCause, Trigger
from tests.captures.analysis.groups.compare import is_of, opens, pairs, read_groups
from tests.captures.analysis.groups.cut import brokers_of, cut
from tests.captures.analysis.groups.exceptions import NAMES, rebalances
from tests.captures.analysis.groups.test_cut import ALONE, LATER, alone, later, matched
from tests.captures.analysis.groups.truth import FOLDER, ExpectedRebalance, Truth, read

PAGE = Path(__file__).parents[4] / "docs" / "groups.md"
_PLACE = re.compile(r"(<!-- score -->\n).*?(<!-- /score -->)", re.DOTALL)
_COLUMNS = "right", "wrong", "possible", "unknown"

Pairs = list[tuple[ExpectedRebalance, Rebalance]]


@dataclass
class Score:
    """Counts of correct causes.

    :ivar rebalances: causes that opened them
    :ivar silences: causes of members' silence
    """

    rebalances: Counter[str] = field(default_factory=Counter)
    silences: Counter[str] = field(default_factory=Counter)

    def add(self, truth: Truth, both: Pairs) -> None:
        """Count the reported causes of some rebalances."""
        for expected, story in both:
            true = opens(truth, expected, story)
            unknown = story.trigger is Trigger.UNKNOWN
            self.rebalances[_judged(true, unknown, story.certainty)] += 1
            self.silences.update(_of_silences(truth, expected, story))


def _judged(true: bool, unknown: bool, certainty: Certainty) -> str:
    if unknown:
        return "unknown"
    if true:
        return "right"
    return "possible" if certainty is Certainty.POSSIBLE else "wrong"


def _of_silences(truth: Truth, expected: ExpectedRebalance, story: Rebalance) -> Iterator[str]:
    for happened in expected.causes:
        if happened.why is None:
            continue
        for cause in story.causes:
            if cause.session_end is not None and is_of(
                truth, happened, cause.client, cause.instance, cause.member
            ):
                end = cause.session_end
                yield _judged(end.cause is happened.why, end.cause is TimeoutCause.UNKNOWN, end.certainty)


def scores() -> dict[str, Score]:
    """Return the scores of whole recordings, and of parts of them."""
    found = {
        name: Score()
        for name in (
            "whole recordings",
            "the connections of one member",
            "from the middle on",
            "at one of three brokers",
        )
    }
    whole, single, rest, local = found.values()
    for name in NAMES:
        truth = read(name)
        told = read_groups(str(FOLDER / f"{name}.pcap.zst"))[truth.group].rebalances
        whole.add(truth, pairs(rebalances(name), told))
    with TemporaryDirectory() as folder:
        for name, who in ALONE:
            truth, told = read(name), alone(Path(folder), name, who).rebalances
            single.add(truth, matched(truth, rebalances(name), who, told))
        for name in LATER:
            timeline, happened = later(Path(folder), name)
            rest.add(read(name), pairs(happened, timeline.rebalances))
        for name in NAMES:
            brokers = brokers_of(name)
            if len(brokers) > 1:
                for place, broker in enumerate(brokers):
                    groups = read_groups(cut(name, Path(folder) / f"{name}-at-{place}.pcapng", broker=broker))
                    told = groups[read(name).group].rebalances if read(name).group in groups else []
                    local.add(read(name), pairs(rebalances(name), told))
    return found


OF_THE_TESTS = f"{len(NAMES)} recordings of brokers and clients from 0.9 to 4.3"


def table(found: dict[str, Score], recordings: str = OF_THE_TESTS) -> str:
    """Return scores as a Markdown table.

    :param recordings: description of the recordings
    """
    lines = [
        f"| {recordings} | causes of | {' | '.join(_COLUMNS)} |",
        f"|---|---|{'---|' * len(_COLUMNS)}",
    ]
    for name, score in found.items():
        for what, counts in (("rebalances", score.rebalances), ("silences", score.silences)):
            lines.append(f"| {name} | {what} | {' | '.join(str(counts[column]) for column in _COLUMNS)} |")
    return "\n".join(lines) + "\n"


def on_page() -> str:
    """Return the table in the page."""
    found = _PLACE.search(PAGE.read_text())
    assert found is not None
    return found[0].removeprefix(found[1]).removesuffix(found[2]).strip() + "\n"


def main() -> None:
    """Print the table, or write it to the page."""
    made = table(scores())
    if "--write" in sys.argv[1:]:
        PAGE.write_text(_PLACE.sub(lambda found: f"{found[1]}\n{made}\n{found[2]}", PAGE.read_text()))
    else:
        sys.stdout.write(made)


if __name__ == "__main__":
    main()
