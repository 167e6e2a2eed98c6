"""Generated reference pages are up to date with the code."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from docs.generate import DOCS, pages, with_tables
from kproxy.cli.config import problems
from kproxy.configuration import load
from kproxy.tui.config import settings_of
from kproxy.tui.keymap import keymap
from kproxy.tui.themes import color_problems

pytestmark = pytest.mark.turns(1)

made = cache(pages)


@pytest.mark.sample(144)
@pytest.mark.parametrize("name", made())
def test_the_page_is_up_to_date(name: str) -> None:
    assert (DOCS / name).read_text() == made()[name], "run python -m docs.generate"


def test_nothing_is_left_of_what_was_made_before() -> None:
    made_before = [*DOCS.glob("apis/*.md"), *DOCS.glob("man/*.1"), *DOCS.glob("schemas/*")]
    left = {page.relative_to(DOCS).as_posix() for page in made_before}
    assert left <= made().keys(), "run python -m docs.generate"


@pytest.mark.parametrize("page", ["ui.md", "configuration.md"])
def test_the_configuration_file_in_the_manual_is_valid(page: str, tmp_path: Path) -> None:
    found = re.findall(r"^```toml\n(.*?)^```", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert found
    file = tmp_path / "kproxy.toml"
    for text in found:
        file.write_text(text)
        for profile in ("", *tomllib.loads(text).get("profile", {})):
            configuration = load(file, profile)
            assert list(problems(configuration)) == []
            loaded = settings_of(configuration)
            assert loaded.problems == ()
            assert keymap(loaded.config.keys)[1] == []
            assert color_problems(loaded.config.colors) == []


def test_a_table_without_a_place_is_told() -> None:
    with pytest.raises(ValueError, match=r"ui\.md has places for \['settings', 'keys'\]"):
        with_tables("ui.md", {"settings": ""})
