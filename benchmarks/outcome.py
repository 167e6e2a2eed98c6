"""What every benchmark tells: figures, the aims that they are held against, and what could not be measured.

``--json`` of each prints these three as one object, ``figures``, ``aims`` and ``missing``; the performance book
(:mod:`benchmarks.book`) keeps them as they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Aim:
    """A figure to reach.

    :ivar target: what it has to be at least, or at most
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
    """Return what a benchmark has found, as JSON.

    :param missing: what is compared with elsewhere, and why it is not here
    """
    return json.dumps(
        {"figures": figures, "aims": [asdict(aim) for aim in aims], "missing": missing or {}}, indent=2
    )
