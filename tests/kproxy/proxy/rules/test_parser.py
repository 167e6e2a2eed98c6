from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.filters import FilterError
from dissectors.error_codes import ErrorCode
from kproxy.proxy.rules import actions
from kproxy.proxy.rules.parser import DEFAULT_DURATION, Rule, parse_condition, parse_rule

pytestmark = pytest.mark.quick

MS, SECOND, MINUTE = 10**6, 10**9, 60 * 10**9


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("delay 200ms", actions.Delay(actions.ConstantDelay(200 * MS))),
        ("delay 100ms..500ms", actions.Delay(actions.Uniform(100 * MS, 500 * MS))),
        ("delay 0 .. 1.5s", actions.Delay(actions.Uniform(0, 1500 * MS))),
        ("delay normal(200ms, 50ms)", actions.Delay(actions.Normal(200 * MS, 50 * MS))),
        ("delay exponential( 1s )", actions.Delay(actions.Exponential(SECOND))),
        ("delay lognormal(20ms,300ms)", actions.Delay(actions.LogNormal(20 * MS, 300 * MS))),
        ("drop", actions.Drop()),
        ("RESET", actions.Reset()),
        ("blackhole", actions.Blackhole()),
        ("throttle 100kB/s", actions.Throttle(100_000)),
        ("throttle 1.5 MiB/s", actions.Throttle(3 << 19)),
        ("error NOT_LEADER_OR_FOLLOWER", actions.Error(6)),
        ("error not_leader_for_partition", actions.Error(6)),  # its name in 2.5
        ("error -1", actions.Error(-1)),
        ("error 1234", actions.Error(1234)),
        ("truncate 100", actions.Truncate(100)),
        ("truncate 1kB", actions.Truncate(1000)),
        ("corrupt", actions.Corrupt()),
        ("corrupt 17", actions.Corrupt(17)),
    ],
)
def test_actions(text: str, action: actions.Action) -> None:
    rule = parse_rule(f"api == Fetch => {text}")
    assert rule.action == action
    assert (rule.probability, rule.count, rule.duration) == (1, None, DEFAULT_DURATION)


def test_options_in_any_order() -> None:
    rule = parse_rule("~a fetch => delay normal(2s, 1s), for=2m30s , p = 10%,count=5")
    assert (rule.probability, rule.count, rule.duration) == (0.1, 5, 150 * SECOND)
    assert str(rule) == "api == fetch => delay normal(2s, 1s), p=0.1, count=5, for=2m30s"


def test_a_rule_holds_for_ten_minutes_unless_said() -> None:
    assert parse_rule("~a fetch => drop").duration == 10 * MINUTE


def test_the_last_arrow_counts() -> None:
    rule = parse_rule('value contains "a => b" => drop')
    assert rule.condition.expanded == 'value contains "a => b"'
    assert rule.action == actions.Drop()


@pytest.mark.parametrize(
    ("text", "side"),
    [
        ("api == Fetch", "request"),
        ("topic == orders", "request"),
        ("request.max_wait_ms > 100", "request"),
        ("", "request"),
        ("error", "response"),
        ("~e", "response"),
        ("~s 1s", "response"),
        ("latency > 100ms", "response"),
        ("api == Fetch and not (topic == a or response.error_code == 3)", "response"),
        ("response: topic == orders", "response"),
        ("response:", "response"),
        ("request : api == Fetch", "request"),
        ("request", "request"),
        ("response", "response"),
        ("response.throttle_time_ms > 0", "response"),
    ],
)
def test_which_side_a_filter_looks_at(text: str, side: str) -> None:
    assert parse_condition(text).side == side


@pytest.mark.parametrize(
    ("text", "message", "under"),
    [
        ("api == Fetch", "the => is missing", ""),
        ("api == Fetch =>", "an action is missing", ""),
        ("api == Fetch => dely 3ms", "no action dely", "dely"),
        ("api == Fetch => delay", "how long is missing", ""),
        ("api == Fetch => delay 300", "300 of what?", "300"),
        ("api == Fetch => delay soon", "is not a duration", "soon"),
        ("api == Fetch => delay 5s..1s", "end of the range is before", "5s..1s"),
        ("api == Fetch => delay gauss(1s, 1s)", "no distribution gauss", "gauss"),
        ("api == Fetch => delay normal(1s)", "normal takes mean and deviation", "1s"),
        ("api == Fetch => delay normal(1s, x)", "is not a duration", "x"),
        ("api == Fetch => delay exponential(0)", "the mean must be above 0", "0"),
        ("api == Fetch => delay lognormal(2s, 1s)", "p99 must be above", "1s"),
        ("api == Fetch => drop it", "drop takes nothing", "it"),
        ("api == Fetch => throttle 100", "is not a bandwidth", "100"),
        ("api == Fetch => throttle 0kB/s", "is not a bandwidth", "0kB/s"),
        ("api == Fetch => error", "which error is missing", ""),
        ("api == Fetch => error NOT_LEADR", "there is no error NOT_LEADR", "NOT_LEADR"),
        ("api == Fetch => error 0", "0 is not an error", "0"),
        ("api == Fetch => error 40000", "there is no error", "40000"),
        ("api == Fetch => truncate", "is not a number of bytes", ""),
        ("api == Fetch => corrupt -1", "is not a number of bytes", "-1"),
        ("api == Fetch => drop, p=2", "is not a probability", "2"),
        ("api == Fetch => drop, p=nan", "is not a probability", "nan"),
        ("api == Fetch => drop, count=0", "is not a count", "0"),
        ("api == Fetch => drop, for=0s", "longer than nothing", "0s"),
        ("api == Fetch => drop, often", "no option", "often"),
        ("api == Fetch => drop, p=1, p=1", "p is given twice", "p=1"),
        ("api == Fetch => drop,", "no option", ""),
        ("response: api = Fetch => drop", "no operator =", "="),
        ("request: topic == a and latency > 1s => drop", "no request has latency", "latency"),
        ("request: ~e => drop", "no request has error", "~e"),
        ("number == 3 => drop", "about a capture", "number"),
        ("unanswered => drop", "about a capture", "unanswered"),
        ("~m => drop", "about a capture", "~m"),
        ("api == Fetch and @3 => drop", "about a capture", "@3"),
        ("response.no.such == 1 => drop", "no response has a field no", "no"),
    ],
)
def test_mistakes_are_shown_where_they_are(text: str, message: str, under: str) -> None:
    with pytest.raises(FilterError, match=message) as caught:
        parse_rule(text)
    error = caught.value
    assert error.text == text
    assert text[error.position : error.position + error.length] == under
    if under:
        assert text.rindex(under) == error.position or text.index(under) == error.position
    lines = error.render().splitlines()
    assert lines[1] == f"  {text}"
    assert set(lines[2].strip()) == {"^"}


durations = st.integers(1, 10**16)
delays = st.integers(1, actions.LONGEST_DELAY)
distributions = st.one_of(
    st.builds(actions.ConstantDelay, st.integers(0, actions.LONGEST_DELAY)),
    st.tuples(delays, delays).map(lambda pair: actions.Uniform(*sorted(pair))),
    st.builds(actions.Normal, delays, st.integers(0, actions.LONGEST_DELAY)),
    st.builds(actions.Exponential, delays),
    st.tuples(delays, delays).filter(lambda pair: pair[0] != pair[1]).map(
        lambda pair: actions.LogNormal(*sorted(pair))
    ),
)  # fmt: skip
kinds = st.one_of(
    st.builds(actions.Delay, distributions),
    st.sampled_from([actions.Drop(), actions.Reset(), actions.Blackhole(), actions.Corrupt()]),
    st.builds(actions.Throttle, st.integers(1, 10**12)),
    st.builds(actions.Error, st.integers(-(1 << 15), (1 << 15) - 1).filter(bool)),
    st.builds(actions.Truncate, st.integers(0, 10**9)),
    st.builds(actions.Corrupt, st.integers(0, 10**9)),
)
filters = st.sampled_from(
    [
        'topic ~ "or.*"',
        "api in {Fetch, Produce}",
        "error",
        "response: topic == a",
        "not ~t x",
        "",
        "request: acks == 0",
    ]
)


@given(
    filters,
    kinds,
    st.floats(1e-6, 1),
    st.none() | st.integers(1, 10**6),
    durations,
)
def test_a_rule_reads_back_as_it_was_written(
    condition: str, action: actions.Action, probability: float, count: int | None, duration: int
) -> None:
    rule = Rule("", parse_condition(condition), action, probability, count, duration)
    again = parse_rule(str(rule))
    assert again == rule
    assert str(again) == str(rule)
    assert again.text == str(rule)


@given(st.text(max_size=40))
def test_whatever_is_written_is_a_rule_or_a_filter_error(text: str) -> None:
    for whole in (text, f"api == Fetch => {text}", f"{text} => drop", f"~a fetch => delay {text}, {text}"):
        with suppress(FilterError):
            parse_rule(whole)


def test_every_error_can_be_named() -> None:
    for error in ErrorCode:
        if error:
            rule = parse_rule(f"api == Fetch => error {error.name}")
            assert rule.action == actions.Error(error)
            assert str(rule.action) == f"error {error.name}"


@pytest.mark.parametrize("delay", ["2h", "1s..2h", "normal(2h, 1s)", "exponential(61m)", "lognormal(1s, 2h)"])
def test_a_delay_over_its_limit_is_refused(delay: str) -> None:
    with pytest.raises(FilterError) as refused:
        parse_rule(f"api == Produce => delay {delay}")
    assert "a delay is at most" in refused.value.render()
    parse_rule("api == Produce => delay 1h")


def test_a_broker_is_not_compared_with_a_number() -> None:
    with pytest.raises(FilterError) as refused:
        parse_rule("broker == 1 => delay 1s")
    assert "1 is not the address of a broker" in refused.value.render()
    assert ":1 for a port" in refused.value.render()
