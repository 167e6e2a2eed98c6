"""Generated reference pages are what the code says today."""

from __future__ import annotations

import re
import tomllib
from functools import cache

import pytest

from docs.generate import DOCS, pages, with_tables
from kproxy.tui.config import parsed
from kproxy.tui.keymap import keymap
from kproxy.tui.themes import color_problems, theme_problem

made = cache(pages)


@pytest.mark.parametrize("name", made())
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == made()[name], "run python -m docs.generate"


def test_nothing_is_left_of_what_was_made_before() -> None:
    made_before = [*DOCS.glob("apis/*.md"), *DOCS.glob("man/*.1"), *DOCS.glob("schemas/*")]
    left = {page.relative_to(DOCS).as_posix() for page in made_before}
    assert left <= made().keys(), "run python -m docs.generate"


def test_the_configuration_file_in_the_manual_is_valid() -> None:
    found = re.search(r"^```toml\n(.*?)^```", (DOCS / "ui.md").read_text(), re.MULTILINE | re.DOTALL)
    assert found is not None
    config, problems = parsed(tomllib.loads(found[1]))
    assert problems == []
    assert keymap(config.keys)[1] == []
    assert theme_problem(config.theme) == ""
    assert color_problems(config.colors) == []


def test_a_table_without_a_place_is_told() -> None:
    with pytest.raises(ValueError, match=r"ui\.md has places for \['settings', 'keys'\]"):
        with_tables("ui.md", {"settings": ""})
