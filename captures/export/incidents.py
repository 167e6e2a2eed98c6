"""Incidents as Markdown, to be put into a ticket or a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from captures.analysis.groups.model import Certainty
from captures.analysis.incidents.model import Incident
from captures.exchanges import rfc3339
from captures.export.findings import escaped


def incidents_markdown(found: Sequence[Incident], *, level: int = 2) -> Iterator[str]:
    """Yield incidents as lines of Markdown, one heading each.

    :param level: of the headings
    """
    for each in found:
        end = "" if each.end is None else f" to {rfc3339(each.end)}"
        sure = "" if each.certainty is Certainty.OBSERVED else f", {each.certainty}"
        heading = f"{each.kind.heading}: {', '.join(each.who)}"
        yield from (
            "",
            f"{'#' * level} {escaped(heading)}",
            "",
            escaped(each.sentence),
            "",
            f"- Incident: `{each.id}`{sure}",
            f"- Time: {rfc3339(each.begin)}{end}",
        )
        yield from (f"- Or else: {escaped(text)}" for text in each.alternatives)
        for consequence in each.consequences:
            yield f"- {rfc3339(consequence.time)}: {escaped(consequence.sentence)}"
        yield f"- Do: {escaped(each.advice)}"
        if each.evidence:
            yield f"- Exchanges: {', '.join(f'#{number}' for number in each.evidence[:20])}"
