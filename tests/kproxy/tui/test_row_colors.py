"""Colours of lines by rules."""

from __future__ import annotations

import pytest

from captures.filters.context import NO_CONTEXT
from kproxy.tui.config import parsed
from kproxy.tui.row_colors import USUAL, RowColor, RowColors
from kproxy.tui.widgets.exchange_list import ExchangeList
from tests.kproxy.tui.kit import main_of, opened, read_session, settled


async def test_the_first_rule_that_fits_decides() -> None:
    rules = RowColors.of({"mine": RowColor("api == JoinGroup", "success"), "slow": RowColor()})
    async with read_session() as session:
        exchanges = {number: await session.exchange(number) for number in (11, 15, 19)}
        colors = {each.api: rules.color(each, NO_CONTEXT, session.faults) for each in exchanges.values()}
    assert colors == {"Produce": "", "ApiVersions": "muted", "JoinGroup": "success"}


@pytest.mark.parametrize("name", USUAL)
def test_every_usual_rule_can_be_dropped(name: str) -> None:
    assert len(RowColors.of({name: RowColor()}).rules) == len(USUAL) - 1


async def test_lines_are_coloured_until_they_are_to_be_plain() -> None:
    async with opened(size=(150, 40)) as pilot:
        main = main_of(pilot)
        summaries = main.session.summaries
        made = summaries.get(1)
        assert made is not None
        assert made.color == "muted"
        painter = main.query_one(ExchangeList)._paint()
        assert painter.styles.rows["muted"].color != painter.styles.plain.color
        await pilot.press("percent_sign")
        await settled(pilot)
        made = summaries.get(1)
        assert made is not None
        assert made.color == ""
        await pilot.press("percent_sign")
        await settled(pilot)
        made = summaries.get(1)
        assert made is not None
        assert made.color == "muted"


def test_what_makes_no_sense_in_the_configuration_is_told() -> None:
    config, problems = parsed(
        {
            "row-colors": {
                "a": {"filter": "api ==", "color": "error"},
                "b": {"color": "pink"},
                "c": {"filter": "error"},
            }
        }
    )
    assert set(config.row_colors) == {"c"}
    assert [problem.split(":")[0] for problem in problems] == ["ui.row-colors.a", "ui.row-colors.b.color"]
