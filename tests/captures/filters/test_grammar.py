"""Text to tree and back, and errors at the right character."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.filters import FilterError, compile_filter
from captures.filters.grammar import parse, render
from captures.filters.nodes import (
    And,
    Compare,
    Exists,
    FieldPresent,
    MatchAll,
    Name,
    Not,
    OneOf,
    Or,
    Selector,
    Value,
)

pytestmark = pytest.mark.quick


def is_(field, value, operator="==", *, negated=False, quoted=False):
    return Compare(Name(field), operator, Value(value, quoted), negated)


FETCH, SLOW = is_("api", "Fetch"), is_("latency", "100ms", ">")
ERROR, UNANSWERED = FieldPresent(Name("error")), FieldPresent(Name("unanswered"))


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("", MatchAll()),
        ("  \n ", MatchAll()),
        ("error", ERROR),
        ("api == Fetch", FETCH),
        ("api==Fetch", FETCH),
        ("api eq Fetch", FETCH),
        ("api==Fetch&&latency>100ms", And((FETCH, SLOW))),
        ("api == Fetch and latency > 100ms", And((FETCH, SLOW))),
        ("api == Fetch AND latency > 100ms", And((FETCH, SLOW))),
        ("api == Fetch & latency > 100ms", And((FETCH, SLOW))),
        ("api == Fetch || latency > 100ms", Or((FETCH, SLOW))),
        ("error or unanswered and api == Fetch", Or((ERROR, And((UNANSWERED, FETCH))))),
        ("(error or unanswered) and api == Fetch", And((Or((ERROR, UNANSWERED)), FETCH))),
        ("not error and unanswered", And((Not(ERROR), UNANSWERED))),
        ("!error", Not(ERROR)),
        ("not (error or unanswered)", Not(Or((ERROR, UNANSWERED)))),
        ("not not error", Not(Not(ERROR))),
        ("api != Fetch", is_("api", "Fetch", negated=True)),
        ("topic ~ orders.*", is_("topic", "orders.*", "~")),
        ("topic matches 'a b'", is_("topic", "a b", "~", quoted=True)),
        ("topic !~ x", is_("topic", "x", "~", negated=True)),
        ("topic not matches x", is_("topic", "x", "~", negated=True)),
        ("topic not contains x", is_("topic", "x", "contains", negated=True)),
        ("topic ~ a|b", is_("topic", "a|b", "~")),
        (r'topic ~ "a\.b\"\d"', is_("topic", r"a\.b" + '"' + r"\d", "~", quoted=True)),
        (r'value == "a\"b\\c\d"', is_("value", 'a"b\\c\\d', quoted=True)),
        ("api in {Fetch, Produce}", OneOf(Name("api"), (Value("Fetch"), Value("Produce")))),
        ("api in (Fetch Produce)", OneOf(Name("api"), (Value("Fetch"), Value("Produce")))),
        ("api not in {Fetch,}", OneOf(Name("api"), (Value("Fetch"),), negated=True)),
        ("request.rack_id exists", Exists(Name("request.rack_id"))),
        ("request.topics[2].topic == a", is_("request.topics[2].topic", "a")),
        ("broker == [::1]:9092", is_("broker", "[::1]:9092")),
        ("@marked", Selector("marked")),
        ("@3,20-30", Selector("3,20-30")),
        ("~e", ERROR),
        ("!~e", Not(ERROR)),
        ("~t orders", is_("topic", "orders", "~")),
        ("~t 'a b' ~e", And((is_("topic", "a b", "~", quoted=True), ERROR))),
        ("~t orders !~e", And((is_("topic", "orders", "~"), Not(ERROR)))),
        ("(~t orders)", is_("topic", "orders", "~")),
        ("@marked ~u", And((Selector("marked"), UNANSWERED))),
        ("~c app", Or((is_("client_id", "app", "~"), is_("client", "app", "~")))),
        ("~a fetch", is_("api", "fetch")),
        ("~a group", is_("api", "group", "~")),
        ("~s", is_("excess", "100ms", ">")),
        ("~s 2s", is_("excess", "2s", ">")),
        ("~s and ~e", And((is_("excess", "100ms", ">"), ERROR))),
        ("(~s)", is_("excess", "100ms", ">")),
        ("~all", MatchAll()),
        ("~m", Selector("marked")),
    ],
)
def test_trees(text, tree):
    assert parse(text) == tree
    assert render(parse(render(tree))) == render(tree)


def test_expanded_says_what_a_short_form_stands_for():
    assert compile_filter("~t orders !~e").expanded == 'topic ~ "orders" and not error'
    assert compile_filter("~c x or ~u").expanded == '(client_id ~ "x" or client ~ "x") or unanswered'


_ANYWHERE = 'api ~ "{0}" or client ~ "{0}" or broker ~ "{0}" or topic ~ "{0}" or group ~ "{0}"'


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("fetch", "api == fetch"),
        ("rebalance_in_progress", "error.any == rebalance_in_progress"),
        ("orders", _ANYWHERE.format("orders")),
        ("m3", _ANYWHERE.format("m3")),
        ('"my app"', _ANYWHERE.format("my app")),
        ('"fetch"', _ANYWHERE.format("fetch")),
        ("10.0.0.7:41078", _ANYWHERE.format("10.0.0.7:41078")),
        ("not orders-3", f"not ({_ANYWHERE.format('orders-3')})"),
        ("m3 ~e", f"({_ANYWHERE.format('m3')}) and error"),
        ("(m3 or fetch) and latency > 1s", f"(({_ANYWHERE.format('m3')}) or api == fetch) and latency > 1s"),
        ("error", "error"),
        ("request.rack_id", "request.rack_id"),
    ],
)
def test_a_text_alone_says_where_it_is_looked_for(text: str, meant: str) -> None:
    assert render(parse(text)) == meant


@pytest.mark.parametrize(
    ("text", "caret", "said"),
    [
        # each caret line stands below its filter: where it points is what is tested
        ("api = Fetch", "    ^", "write =="),
        ("api =~ Fetch", "    ^^", "write ~"),
        ("api <> Fetch", "    ^^", "write !="),
        ("api == ", "       ^", "a value is missing"),
        ("api == Fetch and", "                ^", "missing at the end"),
        ("and error", "^^^", "no field"),
        ("error error", "      ^^^^^", "and, or"),
        ("error xor ~u", "      ^^^", "did you mean or"),
        ("(error", "^", "never closed"),
        ("error)", "     ^", "closes nothing"),
        ("not", "   ^", "missing at the end"),
        ("()", " ^", "a field is expected"),
        ('topic ~ "abc', "        ^", "never closed"),
        ('topic ~ "a(b"', "          ^^^", "not a regular expression"),
        ("topic ~ *", "        ^", "not a regular expression"),
        ("latencyy", "^^^^^^^^", "did you mean latency"),
        ("error.nay", "^^^^^^^^^", "did you mean error.any"),
        ("fetch orders", "      ^^^^^^", "and, or"),
        ("17", "^^", "a field is expected"),
        ("api == Fech", "       ^^^^", "did you mean Fetch"),
        ("api in {Fetch, Produse}", "               ^^^^^^^", "did you mean Produce"),
        ("api in Fetch", "       ^^^^^", "a list is expected"),
        ("api in {Fetch", "       ^", "never closed"),
        ("api in {}", "        ^", "a value is missing"),
        ("api not Fetch", "        ^^^^^", "in, contains or matches"),
        ("latencey > 1s", "^^^^^^^^", "did you mean latency"),
        ("latency > 100", "          ^^^", "100ms"),
        ("latency > fast", "          ^^^^", "is a duration"),
        ("latency > 1s2", "          ^^^", "is a duration"),
        ("size > 10 kg", "          ^^", "is not expected here"),
        ("size > 10kg", "       ^^^^", "is a size"),
        ("version == new", "           ^^^", "is a number"),
        ("version in {1..x}", "               ^", "is a number"),
        ("version in {1..}", "            ^^^", "two ends"),
        ("latency ~ 5", "        ^", "not a text"),
        ("latency matches 5", "        ^^^^^^^", "not a text"),
        ("topic > a", "      ^", "no order"),
        ("api >= Fetch", "    ^^", "no order"),
        ("unanswered == maybe", "              ^^^^^", "true or false"),
        ("unanswered > 1", "           ^", "no order"),
        ("time > noon", "       ^^^^", "is not a time"),
        ("time > 25:00", "       ^^^^^", "is not a time"),
        ("client == 10.0.0.0/99", "          ^^^^^^^^^^^", "is not an address"),
        ("error == NOT_LEADER_OF_FOLLOWER", "         ^^^^^^^^^^^^^^^^^^^^^^", "NOT_LEADER_OR_FOLLOWER"),
        ("acks == MOST", "        ^^^^", "ALL, NONE, LEADER"),
        ("request.topisc == 3", "        ^^^^^^", "did you mean topics"),
        ("request.topics.partition.x == 3", "               ^^^^^^^^^", "did you mean partitions"),
        ("request.group_id.x == 3", "                 ^", "has no fields inside"),
        ("request.topics == 3", "               ^^", "has fields inside"),
        ("request.group_id > 3", "                 ^", "no order"),
        ("request.acks == MOST", "                ^^^^", "ALL"),
        ("request.max_wait_ms ~ 5", "                    ^", "not a text"),
        ("request.", "        ^", "missing after the dot"),
        ("request.topics[x] == 1", "               ^", "index"),
        ("~q", "^^", "no short form"),
        ("error and ~", "          ^", "no short form"),
        ("~t", "  ^", "a value is missing after ~t"),
        ("~p three", "   ^^^^^", "is a number"),
        ("@makred", "^^^^^^^", "did you mean marked"),
        ("@", "^", "no selection"),
        ("error\nand topik ~ x", "    ^^^^^", "did you mean topic"),
    ],
)
def test_errors_point_at_the_character(text, caret, said):
    with pytest.raises(FilterError) as caught:
        compile_filter(text)
    message, line, marks, *hint = caught.value.render().splitlines()
    assert line in [f"  {part}" for part in text.split("\n")]
    assert marks == f"  {caret}"
    assert said in " ".join([message, *hint])


def test_carets_stand_below_wide_characters():
    with pytest.raises(FilterError) as caught:
        compile_filter('topic == "注文" xor error')
    lines = caught.value.render().splitlines()
    # two columns for each of the two characters
    assert lines[2] == "  " + " " * 16 + "^^^"


@pytest.mark.parametrize(
    "text", ["(" * 1000, "!" * 1000, "not " * 1000 + "error", "(" * 70 + "~e" + ")" * 70]
)
def test_depth_is_bounded(text):
    with pytest.raises(FilterError, match="levels"):
        compile_filter(text)


@pytest.mark.slow
def test_depth_allowed_compiles():
    assert compile_filter("(" * 50 + "not error" + ")" * 50).needs_bodies
    assert compile_filter(" or ".join(f"topic == t{number}" for number in range(2000))).needs_bodies


def test_length_is_bounded():
    with pytest.raises(FilterError, match="characters"):
        compile_filter("error or " * 20_000)


PIECES = st.sampled_from(
    [
        *"()!~@{},.<>=&|[]\"'\\",
        "==",
        "!=",
        "~e",
        "~t",
        "~s",
        "and",
        "or",
        "not",
        "in",
        "contains",
        "matches",
        "exists",
        "error",
        "topic",
        "latency",
        "time",
        "client",
        "api",
        "Fetch",
        "100ms",
        "1..5",
        "1kB",
        "true",
        "0xff",
        "request.",
        "response.topics",
        "request.topics.partitions.partition",
        "@marked",
        "@1-3",
        "2026-11-21",
        "10.0.0.0/8",
        "(?P<a>",
        "a{999999999999}",
        "9" * 50,
        "9223372036854775808",
        "1e5",
        "٣",
        " ",
        "\n",
        "\0",
        "\ud800",
    ]
)


@settings(deadline=None)  # the first path imports all declarations
@given(
    st.one_of(
        st.text(max_size=40),
        st.lists(PIECES, max_size=12).map(" ".join),
        st.lists(PIECES, max_size=8).map("".join),
    )
)
def test_any_text_is_a_filter_or_a_filter_error(text):
    try:
        made = compile_filter(text)
    except FilterError as error:
        wrong = error
    else:
        assert compile_filter(made.expanded).expanded == made.expanded
        return
    assert 0 <= wrong.position <= len(text)
    assert wrong.position + wrong.length <= len(text)
    assert wrong.render()
