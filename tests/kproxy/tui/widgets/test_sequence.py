"""The sequence diagram: positions, the cursor, scrolling, and harmful text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC
from typing import Any

import pytest
from textual.app import App, ComposeResult
from textual.pilot import Pilot

from captures.analysis.conversation import Kind, Participant, Step, exchange_step, folded, participants
from captures.exchanges import Exchange
from captures.filters.regex import TextRegex
from kproxy.tui.widgets.sequence import SequenceDiagram
from kproxy.tui.widgets.sequence_lines import Line, lines_of
from tests.captures.analysis.kit import MS, error, exchange, unanswered


def step(made: Exchange, request: str = "", response: str = "ok") -> Step:
    return exchange_step(made, participants(made), (request, response))


def chat(count: int, **fields: Any) -> list[Step]:
    """Return exchanges that do not repeat: each has another API than the one before."""
    keys = (3, 0, 10, 9, 8, 2, 19, 22, 60)
    return [
        step(
            exchange(keys[at % len(keys)], 4, number=at + 1, time=at * MS, **fields), f"t{chr(97 + at % 26)}"
        )
        for at in range(count)
    ]


def ends(steps: Sequence[Step]) -> tuple[Participant, ...]:
    clients = dict.fromkeys(step.client for step in steps)
    return (*clients, *dict.fromkeys(step.broker for step in steps))


class DiagramApp(App[None]):
    def __init__(self, steps: Sequence[Step] = ()) -> None:
        super().__init__()
        self.steps = steps
        self.entered: list[Line] = []

    def compose(self) -> ComposeResult:
        yield SequenceDiagram(UTC, empty="No exchanges to show.")

    def on_mount(self) -> None:
        self.show(self.steps)
        self.diagram.focus()

    def show(self, steps: Sequence[Step]) -> None:
        self.diagram.show("a title", ends(steps), lines_of(folded(steps), frozenset()))

    @property
    def diagram(self) -> SequenceDiagram:
        return self.query_one(SequenceDiagram)

    def on_sequence_diagram_entered(self, message: SequenceDiagram.Entered) -> None:
        self.entered.append(message.line)

    @property
    def drawn(self) -> list[str]:
        """The lines of the screen."""
        return [self.diagram.render_line(y).text.rstrip() for y in range(self.diagram.size.height)]


def run(steps: Sequence[Step], size: tuple[int, int] = (80, 12)) -> tuple[DiagramApp, Any]:
    app = DiagramApp(steps)
    return app, app.run_test(size=size)


async def test_arrows_go_there_and_back() -> None:
    app, running = run([step(exchange(), "orders", "3 brokers")], (80, 8))
    async with running:
        title, names, addresses, there, back, *_ = app.drawn
        assert title == " a title"
        assert names.split() == ["app", "10.0.0.1:9092"]
        assert addresses.split() == ["client", "10.0.0.9", "broker"]
        assert there.startswith("▌  00:00:01.000 │ Metadata v12 orders ────")
        assert there.endswith("──▶│")
        assert back.startswith("                │◀╌╌╌")
        assert back.endswith("╌ 2.0 ms  3 brokers │")
        assert len(there) == len(back)


async def test_arrows_cross_the_lifelines_between() -> None:
    made = [exchange(time=1, broker="b1:9092"), exchange(0, 9, time=2, broker="b2:9092")]
    app, running = run([step(each, "x") for each in made], (100, 12))
    async with running:
        far = app.drawn[SequenceDiagram.HEADER + 2]
        assert far.count("┼") == 1
        assert app.drawn[SequenceDiagram.HEADER].count("│") == 3
        assert far.index("┼") == app.drawn[SequenceDiagram.HEADER].index("▶") + 1


@pytest.mark.parametrize(
    ("made", "there", "back"),
    [
        (unanswered(), "▶│", "│✗╌╌"),
        (exchange(errors=[error(6)]), "▶│", "✗ 2.0 ms  NOT_LEADER"),
        (exchange(response_size=0, latency=None), "▶│", "… in flight"),
    ],
)
async def test_how_an_exchange_ends_is_told_by_more_than_colour(
    made: Exchange, there: str, back: str
) -> None:
    app, running = run([step(made, "x", "NOT_LEADER")])
    async with running:
        assert app.drawn[SequenceDiagram.HEADER].endswith(there)
        assert back in app.drawn[SequenceDiagram.HEADER + 1]


async def test_who_ended_a_connection() -> None:
    client, broker = participants(exchange())
    steps = [
        Step(Kind.CLOSE, 0, 1, 5, client, broker, request="closes"),
        Step(Kind.RESET, 0, 2, 6, client, broker, request="resets", by_broker=True),
    ]
    app, running = run(steps)
    async with running:
        assert app.drawn[SequenceDiagram.HEADER].endswith("─▶│")
        assert app.drawn[SequenceDiagram.HEADER + 1].endswith("─ resets │")
        assert "│✗─" in app.drawn[SequenceDiagram.HEADER + 1]


async def test_text_that_would_do_harm_is_shown_harmlessly() -> None:
    made = exchange(client_id="\x1b[31m[red]evil\u202e")
    app, running = run([step(made, "[bold]日本\x07 " + "long " * 40, "a\nb")])
    async with running:
        text = "\n".join(app.drawn)
        assert not re.search("[\x00-\x09\x0b-\x1f\u202e]", text)
        assert "[bold]日本� long" in text
        assert "�[31m[red]evil�" in text
        rendered = [app.diagram.render_line(y).cell_length for y in range(5)]
        assert len(set(rendered)) == 1  # alignment is correct with wide characters and shortened texts


async def test_the_cursor_moves_and_pages_scroll() -> None:
    app, running = run(chat(40), (80, 13))
    async with running:
        diagram = app.diagram
        diagram.action_move(3)
        assert diagram.current is not None
        assert (diagram.current.text, diagram.scroll_offset.y) == ("2.0 ms  ok", 0)
        diagram.action_move_page(1)
        assert diagram.scroll_offset.y == 4
        diagram.action_move_to_last()
        assert app.drawn[-1].startswith("▌")
        diagram.action_move(1)
        assert app.drawn[-1].startswith("▌")
        diagram.action_move_to_first()
        diagram.action_move(-1)
        assert app.drawn[SequenceDiagram.HEADER].startswith("▌")


async def test_the_cursor_stays_on_its_line_as_more_comes() -> None:
    steps = chat(30)
    app, running = run(steps[10:20], (80, 13))
    async with running:
        app.diagram.action_move(6)
        line = app.drawn.index(next(text for text in app.drawn if text.startswith("▌")))
        before = app.diagram.current
        app.show(steps)
        assert app.diagram.current == before
        assert app.drawn[line].startswith("▌")


async def test_following_stays_at_the_end_until_the_cursor_is_moved() -> None:
    steps = chat(30)
    app, running = run((), (80, 13))
    async with running:
        app.diagram.following = True
        app.show(steps[:10])
        app.show(steps[:20])
        assert "following" in app.drawn[0]
        assert app.drawn[-1].startswith("▌")
        app.diagram.action_move(-1)
        current = app.diagram.current
        app.show(steps)
        assert not app.diagram.following
        assert app.diagram.current == current


async def test_many_participants_scroll_sideways_and_texts_stay_in_sight() -> None:
    steps = [
        step(exchange(3, number=at, time=at, client_id=f"client-{at}"), "orders", "3 brokers")
        for at in range(1, 9)
    ]
    app, running = run(steps, (80, 24))
    async with running:
        # the broker is out of sight, its responses are not
        assert "10.0.0.1:9092" not in app.drawn[1]
        assert app.drawn[SequenceDiagram.HEADER + 1].endswith("2.0 ms  3 brokers")
        for _ in range(20):
            app.diagram.scroll_sideways(1)
        assert "10.0.0.1:9092" in app.drawn[1]
        assert "client-1 " not in app.drawn[1]
        assert re.search(
            r"1 00:00:00.000 .*Metadata v12 orders ─", f"1{app.drawn[SequenceDiagram.HEADER][2:]}"
        )
        assert app.drawn[SequenceDiagram.HEADER].endswith("▶│")


async def test_search_goes_round() -> None:
    app, running = run(chat(9))
    async with running:
        pattern = TextRegex("findcoordinator")
        assert app.diagram.search(pattern, forward=True)
        assert app.diagram.current is not None
        assert app.diagram.current.step is not None
        found = app.diagram.current.step.number
        assert app.diagram.current.text.startswith("FindCoordinator")
        assert app.diagram.search(pattern, forward=False)
        assert app.diagram.current.step.number == found
        assert not app.diagram.search(TextRegex("nowhere", any_case=False), forward=True)


@pytest.mark.slow
async def test_the_mouse_moves_the_cursor_and_chooses() -> None:
    app, running = run(chat(9))
    async with running as pilot:
        await click(pilot, SequenceDiagram.HEADER + 2, 1)
        assert app.drawn[SequenceDiagram.HEADER + 2].startswith("▌")
        await click(pilot, SequenceDiagram.HEADER + 2, 2)
        assert [line.step.number for line in app.entered if line.step] == [2]
        await click(pilot, 0, 1)
        assert app.drawn[SequenceDiagram.HEADER + 2].startswith("▌")


async def click(pilot: Pilot[None], line: int, times: int) -> None:
    await pilot.click(SequenceDiagram, offset=(30, line), times=times)


async def test_nothing_says_so() -> None:
    app, running = run(())
    async with running:
        assert app.drawn[SequenceDiagram.HEADER] == " No exchanges to show."
        app.diagram.action_move(1)
        app.diagram.enter()
        assert app.diagram.current is None
