"""Users' regular expressions: linear in the text, with clear errors for features that this excludes."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captures.filters import FilterError, compile_filter
from captures.filters.regex import MOST_LETTERS, BytesRegex, RegexError, TextRegex

HOUSE = Path(__file__).parents[3]

EXPONENTIAL = ["^(a+)+$", "^(a|aa)+$", "^(a*)*$", "^(.*a){20}$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$"]
"""Patterns on which a backtracking engine takes exponential time."""


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_what_backtracking_never_ends_is_over_at_once(pattern: str) -> None:
    text = "a" * 10_000 + "!"
    assert not TextRegex(pattern).found(text)
    assert not BytesRegex(pattern).found(text.encode())


@pytest.mark.slow
def test_users_patterns_are_compiled_by_one_module() -> None:
    """Elsewhere, ``re`` only compiles our own constants or literals, wherever it is imported."""
    users = [
        path.relative_to(HOUSE).as_posix()
        for floor in ("captures", "kproxy", "dissectors")
        for path in (HOUSE / floor).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "re2" in [getattr(node, "module", None), *(name.name for name in node.names)]
    ]
    assert users == ["captures/filters/regex.py"]
    for path in ("captures/filters/literals.py", "captures/filters/predicates.py", "kproxy/tui/search.py"):
        for node in ast.walk(ast.parse((HOUSE / path).read_text("utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                "re.compile",
                "re.search",
                "re.match",
            ):
                assert isinstance(node.args[0], ast.Constant), f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("pattern", "position", "said"),
    [
        ("a(b", 1, "never closed"),
        (r"\(([)]", 2, "never closed"),
        ("ab)", 2, "closes nothing"),
        ("(a)[)]b)", 7, "closes nothing"),
        ("ab[cd", 2, "bracket is never closed"),
        ("*", 0, "there is nothing before"),
        ("a*|*", 3, "there is nothing before"),
        ("a**", 1, "bad repetition operator"),
        ("a(?=b)", 1, "lookahead is not supported"),
        ("a(?!b)", 1, "lookahead is not supported"),
        ("(?<=a)b", 0, "lookbehind is not supported"),
        ("(?<!a)b", 0, "lookbehind is not supported"),
        (r"(a)\1", 3, "backreferences are not supported"),
        ("(?P<x>a)(?P=x)", 0, "not supported"),
        ("(?>a)", 0, "atomic groups are not supported"),
        ("(?#a)", 0, "comments are not supported"),
        ("ba++", 2, "possessive repetition is not supported"),
        (r"end\Z", 3, r"write \z"),
        (r"\u0041", 0, r"write \x{...}"),
        (r"a\q", 1, "not supported"),
        ("a{1001}", 1, "repetition"),
        (r"((\pL?\pN?){30}){30}", 0, "too large"),
        ("a" * (MOST_LETTERS + 1), MOST_LETTERS, "at most"),
        ("(" * 4000, 3999, "never closed"),
    ],
)
def test_what_is_wrong_and_where(pattern: str, position: int, said: str) -> None:
    for kind in (TextRegex, BytesRegex):
        with pytest.raises(RegexError) as caught:
            kind(pattern)
        assert said in str(caught.value)
        assert caught.value.position == position


def test_a_filter_points_at_what_is_not_supported() -> None:
    with pytest.raises(FilterError) as caught:
        compile_filter('client_id ~ "app(?!1)"')
    assert caught.value.message == (
        "not a regular expression: lookahead is not supported: kproxy matches in linear time"
    )
    assert caught.value.text[caught.value.position :] == '(?!1)"'


def test_case_and_line_breaks() -> None:
    assert TextRegex("orders.eu").found("ORDERS\nEU")
    assert not TextRegex("(?-i:orders)").found("ORDERS")
    assert not TextRegex("orders", any_case=False).found("ORDERS")
    assert TextRegex("é").found("É")


def test_where_in_a_text() -> None:
    regex = TextRegex("b+")
    assert regex.span("éébbc") == (2, 4)
    assert regex.span("\udc80b") == (1, 2)
    assert regex.span("aé") is None
    assert TextRegex(".").found("\udc80")


def test_bytes_are_bytes_unless_the_pattern_has_more_than_ascii() -> None:
    assert BytesRegex(r"\x00.\xff").span(b"a\x00\x80\xff") == (1, 4)
    assert BytesRegex("^n.e$").found(b"n\xe9e")
    assert not BytesRegex("^n.e$").found("née".encode())
    assert BytesRegex("[éè]").span("née".encode()) == (1, 3)
    assert BytesRegex("É").found("née".encode())


def test_places_in_bytes() -> None:
    assert list(BytesRegex("a*").spans(b"baa")) == [(0, 0), (1, 3), (3, 3)]
    assert BytesRegex("a").span(b"aba", 1) == (2, 3)
    assert BytesRegex("a").span(b"aba", 3) is None


@given(st.text(max_size=30))
def test_a_pattern_compiles_or_says_where_it_is_wrong(pattern: str) -> None:
    position = 0
    try:
        TextRegex(pattern).span("x")
    except RegexError as error:
        position = error.position
    assert 0 <= position <= len(pattern)
