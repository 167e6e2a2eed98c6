"""Exchanges as kproxy itself shows them: JSON, lines, trees, a filter, a diagram."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import tzinfo
from io import BytesIO

from captures.exchanges import Capture, Exchange
from captures.export.jsonlines import write_json_lines
from captures.export.mermaid import SequenceDiagram
from captures.meaning import words
from kproxy.text.lines import Lines
from kproxy.text.tree import exchange_tree


def json_lines(exchanges: Sequence[Exchange]) -> str:
    """Return an object per line, as ``kproxy read --json --text`` prints it."""
    out = BytesIO()
    write_json_lines(exchanges, out, text=True)
    return out.getvalue().decode()


def lines(exchanges: Sequence[Exchange], zone: tzinfo | None) -> str:
    """Return a line for each, as ``kproxy read`` prints it to a pipe, without column names."""
    return "".join(f"{line}\n" for line in _lines(exchanges, zone, trees=False))


def trees(exchanges: Sequence[Exchange], zone: tzinfo | None) -> str:
    """Return a line for each with every field below it, as ``kproxy read -V`` prints it."""
    return "".join(f"{line}\n" for line in _lines(exchanges, zone, trees=True))


def _lines(exchanges: Sequence[Exchange], zone: tzinfo | None, *, trees: bool) -> Iterator[str]:
    form = Lines(None, zone)
    form.fit(list(exchanges))
    for exchange in exchanges:
        yield form.line(exchange)
        if trees:
            yield from exchange_tree(exchange)


def filter_text(exchanges: Sequence[Exchange]) -> str:
    """Return the filter that shows these exchanges and no others."""
    numbers = words.runs(exchange.number for exchange in exchanges)
    if len(exchanges) == 1:
        return f"number == {numbers[0]}\n"
    return f"number in {{{', '.join(numbers).replace('-', '..')}}}\n"


def mermaid(exchanges: Sequence[Exchange], capture: Capture) -> str:
    """Return a sequence diagram of the exchanges."""
    diagram = SequenceDiagram()
    diagram.add(capture, exchanges)
    return "".join(f"{line}\n" for line in diagram.lines())
