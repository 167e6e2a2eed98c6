"""The ``:`` line for commands: the first word is the name, the rest its argument."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from textual.message import Message

from captures.filters import Candidate, FilterError
from captures.filters.errors import did_you_mean
from dissectors.printable import printable
from kproxy.tui.commands import BY_LINE, Command
from kproxy.tui.files import completions_here
from kproxy.tui.history import History
from kproxy.tui.widgets.filter_bar import SAVED
from kproxy.tui.widgets.typing_line import TypingLine
from kproxy.tui.widgets.verdict import Validity, Verdict, objection

GOTO = "goto"
"""The command for a number alone."""


class Argument:
    """The argument of a command: any text, without completions."""

    def check(self, text: str) -> None:
        """Raise :class:`~captures.filters.FilterError` if an argument is invalid. Runs in a thread."""

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        """Return completions of an argument."""
        return ()


class Number(Argument):
    """A number from 1; digits may be grouped."""

    def check(self, text: str) -> None:
        if not number_of(text):
            raise FilterError(f"{text!r} is no number", text, 0, len(text), "such as 17 or 120,412")


class Words(Argument):
    """An argument from a set of words.

    :param words: returns the words with a line about each
    :param kind: noun for the words
    :param only: whether other words are invalid
    :param problem: returns what is wrong with another word, empty if it is valid
    """

    def __init__(
        self,
        words: Callable[[], Mapping[str, str]],
        kind: str = "value",
        *,
        only: bool = True,
        problem: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._words = words
        self._kind = kind
        self._only = only
        self._problem = problem

    def check(self, text: str) -> None:
        known = self._words()
        if self._only and text not in known:
            hint = did_you_mean(text, known) or f"there are {', '.join(list(known)[:8])}"
            raise FilterError(f"there is no {self._kind} {text}", text, 0, len(text), hint)
        problem = "" if text in known else self._problem(text)
        if problem:
            raise FilterError(problem, text, 0, len(text))

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        """Return the words that start with the typed text, then those that contain it."""
        return fitting(self._words().items(), self._kind, text[:cursor], 0)


class FilterText(Argument):
    """A filter, or another text that is checked and completed like filters.

    :param check: raises :class:`~captures.filters.FilterError`
    :param candidates: such as :meth:`kproxy.tui.widgets.filter_bar.FilterBar.candidates`
    """

    def __init__(
        self,
        check: Callable[[str], Any],
        candidates: Callable[[str, int], Awaitable[Sequence[Candidate]]] | None = None,
    ) -> None:
        self._check = check
        self._candidates = candidates

    def check(self, text: str) -> None:
        self._check(text)

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        """Return completions without saved filters, which only the filter bar can insert."""
        if self._candidates is None:
            return ()
        return [one for one in await self._candidates(text, cursor) if one.kind != SAVED]


class FilePath(Argument):
    """The path of a file, which need not exist; ``~`` is the user's home directory."""

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        """Return files and directories whose paths start with the typed text."""
        return await asyncio.to_thread(_files, text[:cursor])


class OtherCapture(FilePath):
    """An existing capture, or two time ranges."""

    def check(self, text: str) -> None:
        if ".." in text or text.startswith("-"):
            return
        try:
            there = Path(text).expanduser().exists()
        except (OSError, RuntimeError, ValueError):
            there = False
        if not there:
            raise FilterError(f"there is no file {text}", text, 0, len(text), "or two times: 0s..60s 60s..")


def _files(text: str) -> list[Candidate]:
    start = text.rfind("/") + 1
    return [
        Candidate(found[start:], "directory" if found.endswith("/") else "file", "", start)
        for found in completions_here(text)
        if printable(found) == found
    ]


def fitting(offers: Iterable[tuple[str, str]], kind: str, word: str, start: int) -> list[Candidate]:
    """Return candidates for the texts that start with a word, then those that contain it."""
    wanted = word.lower()
    candidates = [Candidate(text, kind, doc, start) for text, doc in offers if wanted in text.lower()]
    return sorted(candidates, key=lambda one: not one.text.lower().startswith(wanted))


def number_of(text: str) -> int:
    """Return a number from 1, 0 if the text is not one."""
    digits = text.strip().replace(",", "").replace("_", "")
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 18 else 0


def command_named(name: str, commands: Mapping[str, Command]) -> Command | None:
    """Return the command with a name or an unambiguous prefix; of ``quit`` and ``quit!`` the former."""
    if name in commands:
        return commands[name]
    matches = sorted((line for line in commands if line.startswith(name)), key=len) if name else []
    return commands[matches[0]] if matches and all(line.startswith(matches[0]) for line in matches) else None


class CommandLine(TypingLine):
    """The line for commands.

    :param arguments: checks and completions of arguments, by :attr:`Command.name`
    :param commands: the commands by their names on the line
    """

    @dataclass
    class Submitted(Message):
        """A command was submitted.

        :ivar command: the command
        :ivar argument: its argument, empty if there is none
        """

        command: Command
        argument: str

    def __init__(
        self,
        arguments: Mapping[str, Argument] | None = None,
        commands: Mapping[str, Command] = BY_LINE,
    ) -> None:
        super().__init__(":", History("command"), "command, or a number to go to")
        self._arguments = dict(arguments or {})
        self._commands = commands

    def judge(self, text: str) -> Verdict:
        name, argument, offset = _split(text)
        if not name:
            return Verdict(text, Validity.EMPTY, "a command, or the number of an exchange · tab: commands")
        if number_of(name) and not argument and GOTO in self._commands:
            goto = self._commands[GOTO]
            return Verdict(text, Validity.VALID, goto.doc, value=(goto, str(number_of(name))))
        command = command_named(name, self._commands)
        position = text.index(name)
        if command is None:
            hint = did_you_mean(name, self._commands)
            message = f"there is no command {name}{f' ({hint})' if hint else ''}"
            if command_named(name, BY_LINE) is not None:
                message = f"{name} is disabled: this UI is read-only"
            return Verdict(text, Validity.INVALID, message, position, len(name))
        if argument and not command.argument:
            message = f"{command.line} takes nothing behind it"
            return Verdict(text, Validity.INVALID, message, offset, len(argument))
        if argument:
            try:
                self._about(command).check(argument)
            except FilterError as error:
                return objection(error, text, offset=offset)
        usage = f"{command.line} {command.argument}".strip()
        return Verdict(text, Validity.VALID, f"{usage}: {command.doc}", value=(command, argument))

    def submit(self, verdict: Verdict) -> None:
        if verdict.value is not None:
            self.post_message(self.Submitted(*verdict.value))

    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        name, _, offset = _split(text)
        begin = text.index(name)
        if cursor <= begin + len(name):
            offers = ((line, _described(command)) for line, command in self._commands.items())
            return fitting(offers, "command", text[begin:cursor], begin)
        command = command_named(name, self._commands)
        if command is None or not command.argument or cursor < offset:
            return ()
        found = await self._about(command).candidates(text[offset:], cursor - offset)
        return [Candidate(one.text, one.kind, one.doc, one.start + offset) for one in found]

    def _about(self, command: Command) -> Argument:
        return self._arguments.get(command.name, _ANYTHING)


_ANYTHING = Argument()


def _described(command: Command) -> str:
    return f"{command.argument}: {command.doc}" if command.argument else command.doc


def _split(text: str) -> tuple[str, str, int]:
    """Return the first word, the rest, and the offset of the rest."""
    name, space, rest = text.lstrip(" :").partition(" ")
    offset = len(text) - len(rest.lstrip()) if space else len(text)
    return name, rest.strip(), offset
