"""Command lines with words chosen by strangers."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kproxy.copy_as.shell import Command, comment, quoted
from tests.waiting import PATIENCE


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("orders", "orders"),
        ("two words", "'two words'"),
        ("$(rm -rf /)", "'$(rm -rf /)'"),
        ("", "''"),
        ("a\nb", r"$'a\nb'"),
        ("\x1b[201~rm'", r"$'\x1b[201~rm\''"),
        ("\u202eab!\n", r"$'\xe2\x80\xaeab\x21\n'"),
    ],
)
def test_a_word_is_quoted_where_it_has_to_be(text: str, word: str) -> None:
    assert quoted(text) == word


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12), max_size=5
    )
)
def test_a_shell_reads_the_words_that_were_meant(words: list[str]) -> None:
    line = " ".join(Command(["printf", r"%s\0", *words, "end"]).lines())
    assert line.isprintable()
    found = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=PATIENCE).stdout
    assert found.decode().split("\0")[:-1] == [*words, "end"]


def test_input_and_files_are_made_by_the_shell() -> None:
    command = Command(["cat", "-"], input="it's\n", file_option="", notes=["n"])
    assert list(command.lines()) == ["# n", r"printf %s $'it\'s\n' | cat -"]
    (line,) = Command(["cat"], file_option="-u", file='{"a": 1}').lines()
    found = subprocess.run(["bash", "-c", line], capture_output=True, check=True, timeout=PATIENCE).stdout
    assert found == b'{"a": 1}'


def test_a_comment_cannot_end_its_line() -> None:
    assert comment("a\nrm -rf ~\x1b") == "# a�rm -rf ~�"
    assert list(Command((), notes=["a\nb"]).lines()) == ["# a�b"]
