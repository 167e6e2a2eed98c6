"""Lines of a sequence diagram: folded, unfolded, silent, left out."""

from __future__ import annotations

from captures.analysis.conversation import Step, exchange_step, folded, participants
from captures.exchanges import Exchange, Flag
from kproxy.tui.widgets.sequence_lines import LineKind, key_of, lines_of
from tests.captures.analysis.kit import MS, error, exchange, unanswered

SECOND = 1_000 * MS
PRODUCE, FETCH, HEARTBEAT = 0, 1, 12


def step(made: Exchange, request: str = "", response: str = "") -> Step:
    return exchange_step(made, participants(made), (request, response))


def steps(*apis: int, every: int = 10 * MS, **fields) -> list[Step]:
    made = [exchange(key, 4, number=at, time=at * every, **fields) for at, key in enumerate(apis, 1)]
    return [step(each, "orders-3", f"at offset {each.number}") for each in made]


def texts(lines) -> list[str]:
    return [f"{line.margin}{line.text}" for line in lines]


def test_an_exchange_is_a_line_there_and_a_line_back() -> None:
    there, back = lines_of(folded(steps(PRODUCE)), frozenset())
    assert (there.kind, there.text, there.single) == (LineKind.REQUEST, "Produce v4 orders-3", True)
    assert (back.kind, back.text, back.single) == (LineKind.RESPONSE, "2.0 ms  at offset 1", True)


def test_repeats_take_two_lines_and_unfold() -> None:
    made = [step(exchange(0, 4, number=at, time=at, latency=at * MS), "orders", "ok") for at in (1, 2, 3)]
    folds = folded(made)
    assert texts(lines_of(folds, frozenset())) == ["▸×3  Produce v4 orders", "│1.0 to 3.0 ms  ok"]
    head, *unfolded = lines_of(folds, {key_of(folds[0])})
    assert (head.margin, head.text) == ("▾", "×3, unfolded")
    assert [line.step.number for line in unfolded if line.step] == [1, 1, 2, 2, 3, 3]
    assert all(line.single and line.fold == head.fold for line in unfolded)


def test_loops_have_a_head() -> None:
    lines = lines_of(folded(steps(*[FETCH, HEARTBEAT] * 3)), frozenset())
    assert texts(lines) == [
        "▸×3, 2 in turn",
        "│Fetch v4 orders-3",
        "│2.0 ms  at offset 1…",
        "│Heartbeat v4 orders-3",
        "│2.0 ms  at offset 2…",
    ]
    assert not any(line.single for line in lines)


def test_silence_is_told() -> None:
    made = [step(exchange(key, number=at, time=at * 5 * SECOND)) for at, key in enumerate((0, 3), 1)]
    lines = lines_of(folded(made), frozenset())
    assert [line.text for line in lines if line.kind is LineKind.SILENCE] == ["… 5 s …"]
    made[0].latency = 5 * SECOND  # the client waited for the response: no silence
    assert not [line for line in lines_of(folded(made), frozenset()) if line.kind is LineKind.SILENCE]


def test_what_is_left_out_is_told() -> None:
    first, *_, last = lines_of(folded(steps(PRODUCE)), frozenset(), before=1_200, after=7)
    assert (first.kind, first.text) == (LineKind.EARLIER, "… 1,200 exchanges before these (enter shows them)")
    assert (last.kind, last.text) == (LineKind.LATER, "… 7 exchanges after these (enter shows them)")


def test_how_exchanges_end() -> None:
    def ends(made: Exchange) -> list[str]:
        return [line.text for line in lines_of(folded([step(made, "x", "NOT_LEADER")]), frozenset())]

    assert ends(unanswered()) == ["Metadata v12 x", "no answer"]
    assert ends(exchange(errors=[error(6)])) == ["Metadata v12 x", "2.0 ms  NOT_LEADER"]
    assert ends(exchange(wait=2 * MS)) == ["Metadata v12 x", "2.0 ms  waited  NOT_LEADER"]
    assert ends(exchange(response_size=0, latency=None)) == ["Metadata v12 x", "in flight"]
    assert ends(exchange(flag=Flag.NO_RESPONSE_EXPECTED, response_size=0, latency=None)) == ["Metadata v12 x"]
    assert ends(exchange(flag=Flag.ORPHAN, latency=None)) == ["answer to a request that was not captured"]


def test_lines_are_known_again_when_more_comes() -> None:
    few, more = steps(*[PRODUCE] * 3), steps(*[PRODUCE] * 9)
    one, other = (lines_of(folded(each), frozenset()) for each in (few, more))
    assert [line.identity for line in one] == [line.identity for line in other]
    assert len({line.identity for line in lines_of(folded(steps(FETCH, PRODUCE)), frozenset())}) == 4
