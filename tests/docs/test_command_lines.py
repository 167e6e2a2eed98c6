"""Every command line that the documentation shows is one that kproxy takes: names of commands, options and values."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from docs.generate import DOCS
from kproxy.cli import main

PAGES = [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]
# click looks whether they are there
FILES = ("client.properties", "c.properties", "chain.pem", "key.pem")
FOLDERS = ("tables",)
_FENCED = re.compile(r"```\w*\n(.*?)```", re.DOTALL)
_INDENTED = re.compile(r"^    (.*)$", re.MULTILINE)
_INLINE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_BETWEEN = {"|", "&&", "&", ";", ">", "2>"}


def commands(text: str) -> Iterator[list[str]]:
    """Yield the arguments of kproxy in the code of a page, each command of a pipe by itself."""
    inline = [code.replace("\n", " ") for _, code in _INLINE.findall(_FENCED.sub("", text))]
    # prose also names commands and options without the rest
    inline = [each for each in inline if " | kproxy " in each or re.match(r"kproxy .*\.pcap", each)]
    code = "\n".join([*_FENCED.findall(text), *_INDENTED.findall(text), *inline])
    for line in re.sub(r"\\\n\s*", " ", code).splitlines():
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # output, not a command
            continue
        ends = [place for place, word in enumerate(words) if word in _BETWEEN]
        for begin, end in zip([-1, *ends], [*ends, len(words)], strict=True):
            command = words[begin + 1 : end]
            if command[:1] == ["sudo"]:
                del command[0]
            if command[:1] == ["kproxy"] and len(command) > 1:
                yield command[1:]


def taken(command: list[str]) -> None:
    """Have the arguments read as kproxy reads them, without running anything."""
    context, found = click.Context(main, info_name="kproxy"), main
    while isinstance(found, click.Group):
        name, *command = command
        found = found.get_command(context, name)
        assert found is not None, f"there is no command {name}"
    try:
        found.make_context(name, command, parent=context)
    except click.exceptions.Exit:  # --help and the like
        return


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_command_lines_are_taken(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in FILES:
        Path(name).touch()
    for name in FOLDERS:
        Path(name).mkdir()
    for command in commands(page.read_text()):
        try:
            taken(command)
        except click.UsageError as error:
            pytest.fail(f"kproxy {shlex.join(command)}: {error.format_message()}")


def test_command_lines_are_found() -> None:
    found = [shlex.join(command) for page in PAGES for command in commands(page.read_text())]
    assert len(found) > 100
    assert "groups --follow -" in found
    assert "groups --json kafka.pcap" in found


def test_what_kproxy_does_not_take_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        taken(["groups", "--grup", "orders", "kafka.pcap"])
    with pytest.raises(AssertionError):
        taken(["grups", "kafka.pcap"])
