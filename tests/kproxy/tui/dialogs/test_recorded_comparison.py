"""Comparing two recorded responses from the list: two marked ones, or one and the previous one of its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from kproxy.session.response_pairs import PairError, response_pair
from kproxy.tui.dialogs.comparison import FieldComparison
from kproxy.tui.widgets.row_table import RowTable
from kproxy.tui.widgets.table_rows import text_of
from tests.kproxy.tui.kit import REBALANCE, main_of, opened, read_session, settled, shown_lines

DATA = Path(__file__).parents[3] / "data"
UNANSWERED = DATA / "captures" / "06_noida_acks0_java.pcap"


async def numbers_of(pilot: Pilot[Any], api: str) -> list[int]:
    def found(access: Any) -> list[int]:
        return [
            number
            for number in range(1, len(access.plain) + 1)
            if access.exchange(number).api == api and access.exchange(number).response is not None
        ]

    return await main_of(pilot).session.run(found)


def marks(pilot: Pilot[Any]) -> dict[str, tuple[str, str, str]]:
    """Return the sign and both values of each field that differs, by name."""
    table = pilot.app.screen.query_one(RowTable)
    cells = [[text_of(cell) for cell in row.cells] for row in table.rows]
    return {name.strip(): (sign, one, other) for name, sign, one, other in cells if sign.strip()}


@pytest.mark.slow
async def test_two_marked_exchanges_are_compared_field_by_field() -> None:
    async with opened(size=(150, 40)) as pilot:
        first, *_, last = await numbers_of(pilot, "JoinGroup")
        await main_of(pilot).session.mark([first, last])
        await pilot.press("equals_sign")
        await settled(pilot)
        assert isinstance(pilot.app.screen, FieldComparison)
        text = "\n".join(shown_lines(pilot))
        assert f"#{first}" in text
        assert f"#{last}" in text
        found = marks(pilot)
        assert found["generation_id"][0] == "≠"  # expected to differ between two clusters, significant here
        assert found["generation_id"][1] != found["generation_id"][2]


@pytest.mark.slow
async def test_without_marks_it_is_the_last_of_its_kind() -> None:
    async with opened(size=(150, 40)) as pilot:
        beats = await numbers_of(pilot, "Heartbeat")
        main_of(pilot).go_to(beats[-1])
        await settled(pilot)
        await pilot.press("equals_sign")
        await settled(pilot)
        assert isinstance(pilot.app.screen, FieldComparison)
        assert f"#{beats[-1]}" in "\n".join(shown_lines(pilot))


@pytest.mark.slow
async def test_the_one_before_is_of_the_same_client_api_and_broker() -> None:
    async with read_session(REBALANCE) as session:

        def pairs(access: Any) -> list[tuple[Any, Any]]:
            found = []
            for number in range(1, len(access.plain) + 1):
                try:
                    pair = response_pair(access, (number,))
                except PairError:
                    continue
                found.append((pair.first, pair.second))
            return found

        found = await session.run(pairs)
        assert len(found) > 100
        for first, second in found:
            assert first.number < second.number
            assert (first.api, first.client_id, first.broker) == (second.api, second.client_id, second.broker)


@pytest.mark.parametrize("numbers", [(1,), (1, 3), (1, 100_000)])
async def test_what_cannot_be_compared_is_said(numbers: tuple[int, ...]) -> None:
    async with read_session(UNANSWERED) as session:
        with pytest.raises(PairError):
            await session.run(lambda access: response_pair(access, numbers))
