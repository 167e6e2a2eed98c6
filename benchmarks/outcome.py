"""The results of every benchmark: figures, aims, and what could not be measured.

``--json`` prints them as one object with the keys ``figures``, ``aims`` and ``missing``, which the performance book
(:mod:`benchmarks.book`) stores unchanged.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Aim:
    """A figure to reach.

    :ivar target: its minimum or maximum
    """

    what: str
    value: float
    target: float
    at_most: bool = False

    @property
    def reached(self) -> bool:
        return self.value <= self.target if self.at_most else self.value >= self.target

    def __str__(self) -> str:
        bound = "at most" if self.at_most else "at least"
        verdict = "reached" if self.reached else "MISSED"
        return f"  {self.value:10,.2f}  {self.what}, {bound} {self.target:,.2f}: {verdict}"


def for_programs(
    figures: Mapping[str, Any], aims: Iterable[Aim] = (), missing: Mapping[str, str] | None = None
) -> str:
    """Return the results of a benchmark as JSON.

    :param missing: programs that could not be compared here, with the reason
    """
    return json.dumps(
        {"figures": figures, "aims": [asdict(aim) for aim in aims], "missing": missing or {}}, indent=2
    )
