"""The manual pages have every command and option, and are rendered without warnings."""

from __future__ import annotations

import os
import re
import shutil
import subprocess

import click
import pytest

from docs.tools import man
from docs.tools.commands import all_commands
from kproxy.cli import COMMANDS, main, program_context

PAGES = man.pages()
ROOT = program_context()
_UNDATED = re.compile(r'WARNING: missing date, using "": TH$')  # so that the build is reproducible


def rendered(page: str, width: int = 100) -> str:
    """Return the rendered text of a page; rendering must not warn."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-Kutf8", "-ww", f"-rLL={width}n", "-P-cbou"],
        input=page,
        capture_output=True,
        text=True,
        check=True,
        encoding="utf-8",
    )
    assert done.stderr == ""
    return done.stdout


def plain(text: str) -> str:
    """Return text without line breaks, hyphenation and justification."""
    return " ".join(re.sub("\u2010\n *", "", text).split())


def test_each_command_has_a_page() -> None:
    top = {f"man/kproxy-{name}.1" for name in COMMANDS}
    assert set(PAGES) == {"man/kproxy.1", *top}


@pytest.mark.sample(11)
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
@pytest.mark.parametrize("path", PAGES)
def test_groff_renders_without_a_warning(path: str) -> None:
    text = rendered(PAGES[path])
    name = path.removeprefix("man/").removesuffix(".1")
    assert text.startswith(f"{name.upper()}(1)")
    for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "SEE ALSO"):
        assert f"\n{title}\n" in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_all_that_help_says_is_in_the_pages() -> None:
    shown = {path: plain(rendered(page, 4000)) for path, page in PAGES.items()}
    for command, context in all_commands(main, ROOT):
        page = shown[f"man/kproxy-{context.command_path.split()[1]}.1"]
        told = [command.help or "", command.epilog or ""]
        for parameter in command.params:
            told += parameter.get_help_record(context) or ()
        for text in told:
            for part in re.split(r"\n\s*\n", text.replace("\b", "")):
                part = re.sub(r"^\s*(Examples|Exit codes): *", "", part)  # they are titles in the page
                assert plain(part) in page, context.command_path


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is not installed")
def test_text_that_looks_like_a_request_is_text() -> None:
    @click.command(help=".pcapng files\n\n\b\n'quoted' \\n \"both\"\n.TP --flag")
    def trap() -> None: ...

    page = man._page(trap, click.Context(trap, info_name="trap", parent=ROOT), ["kproxy"])
    text = rendered(page)
    for line in (".pcapng files", "'quoted' \\n \"both\"", ".TP --flag"):
        assert line in text


@pytest.mark.skipif(shutil.which("mandoc") is None, reason="mandoc is not installed")
@pytest.mark.parametrize("path", PAGES)
def test_mandoc_has_nothing_to_say(path: str) -> None:
    done = subprocess.run(
        ["mandoc", "-T", "lint", "-W", "warning"],
        input=PAGES[path].encode(),
        capture_output=True,
        check=False,
        env={**os.environ, "LC_ALL": "C.UTF-8"},
    )
    assert [line for line in done.stdout.decode().splitlines() if not _UNDATED.search(line)] == []
