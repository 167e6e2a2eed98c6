"""The page about the reactions of client libraries to fault rules."""

from __future__ import annotations

import pytest

from docs.tools.reactions import Reaction, table


@pytest.mark.parametrize(
    ("reaction", "text"),
    [
        (Reaction(0, 0.1, 0.1, {}), "sends none"),
        (Reaction(3, 0.2, 0.4, {}), "goes on"),
        (Reaction(1, 2.0, 2.1, {}), "produces after 2.0 s"),
        (Reaction(1, 0.1, 5.0, {}), "consumes after 5.0 s"),
        (Reaction(1, 2.0, 5.9, {}), "produces after 2.0 s; consumes after 5.9 s"),
        (Reaction(1, None, None, {"UnknownError": 2783}), "**produces no more**; `UnknownError` each time"),
        (Reaction(1, 0.1, None, {}), "**consumes no more**"),
        (Reaction(3, 0.1, 0.1, {"Timeout": 3, "Closed": 1}), "`Closed` 1×, `Timeout` 3×"),
    ],
)
def test_a_reaction_in_words(reaction: Reaction, text: str) -> None:
    assert reaction.text == text


def test_a_row_per_rule_and_a_column_per_library() -> None:
    goes_on, waits = Reaction(1, 0.1, 0.1, {}), Reaction(1, 3.0, 3.0, {})
    assert table({"=> drop": {"java": goes_on, "aiokafka": waits}}).splitlines() == [
        "| rule | java | aiokafka |",
        "|---|---|---|",
        "| `=> drop` | goes on | produces after 3.0 s |",
    ]
