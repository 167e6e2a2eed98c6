"""The line for typing filters of the list."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from textual.message import Message

from captures.filters import Candidate, Filter, FilterError, compile_filter, complete
from captures.filters.context import MEANINGS
from dissectors.printable import printable
from kproxy.proxy.rules.parser import with_saved_filters
from kproxy.tui.history import History
from kproxy.tui.widgets.typing_line import TypingLine
from kproxy.tui.widgets.verdict import Validity, Verdict, objection

Known = Callable[[str], Awaitable[Sequence[str]]]
"""Returns the known values of a field, such as :meth:`kproxy.session.Session.known`."""

SAVED = "saved"
"""Kind of candidates that are saved filters."""

_EXAMPLE = "such as: api == Fetch and latency > 100ms, ~t orders ~e"
_NAMED = re.compile(r"\s*@([\w-]*)")


class FilterBar(TypingLine):
    """A line for a filter.

    :param known: returns known values of a field, for completion
    :param saved: saved filters by name, which ``@name`` stands for; names with a meaning in the language, such as
        ``@marked``, take precedence
    :param check: returns the filter for a text, or raises :class:`~captures.filters.FilterError`
    """

    @dataclass
    class Applied(Message):
        """A filter was submitted.

        :ivar filter: None for everything
        """

        filter: Filter | None

    def __init__(
        self,
        known: Known | None = None,
        saved: Mapping[str, str] | None = None,
        *,
        check: Callable[[str], Filter] = compile_filter,
    ) -> None:
        super().__init__("filter", History("filter"), _EXAMPLE)
        self.saved: Mapping[str, str] = saved or {}
        self._known = known
        self._check = check
        self._known_values: dict[str, Sequence[str]] = {}

    def open(self, text: str = "", sign: str | None = None) -> None:
        self._known_values = {}  # there may be more now
        super().open(text, sign)

    # ------------------------------------------------------------ judging
    def judge(self, text: str) -> Verdict:
        if not text.strip():
            return Verdict(text, Validity.EMPTY, "enter: everything · tab: fields · up: earlier ones")
        written = text.rstrip()
        try:
            written = self.expanded(written)
            value = self._check(written)
        except FilterError as error:
            if written != text.rstrip():
                return Verdict(text, Validity.INVALID, f"{written}: {error.message}", 0, len(text))
            return objection(error, text)
        plainly = value.expanded
        return Verdict(
            text, Validity.VALID, plainly if plainly != text.strip() else "enter applies it", value=value
        )

    def submit(self, verdict: Verdict) -> None:
        self.post_message(self.Applied(verdict.value))

    # ------------------------------------------------------------ saved filters
    def expanded(self, text: str) -> str:
        """Return a text with the names of saved filters replaced.

        :raises FilterError: if a saved filter contains itself
        """
        return with_saved_filters(text, self.saved)

    def _offers_of_saved(self, text: str, cursor: int) -> Iterator[Candidate]:
        found = _NAMED.fullmatch(text, 0, cursor)
        if found is None:
            return
        for name, saved in sorted(self.saved.items()):
            if name.startswith(found[1]) and name not in MEANINGS:
                yield Candidate(f"@{name}", SAVED, saved, found.start(1) - 1)

    def replaced(self, text: str, cursor: int, candidate: Candidate) -> tuple[str, int]:
        if candidate.kind != SAVED:
            return super().replaced(text, cursor, candidate)
        rest = text[cursor:]
        written = self.expanded(f"{candidate.text}{rest}")
        return written, len(written) - len(rest)

    # ------------------------------------------------------------ completing
    async def candidates(self, text: str, cursor: int) -> Sequence[Candidate]:
        offered, wanted = await asyncio.to_thread(self._completed, text, cursor)
        if wanted and self._known is not None:
            for field in wanted:
                self._known_values[field] = await self._known(field)
            offered, _ = await asyncio.to_thread(self._completed, text, cursor)
        return offered

    def _completed(self, text: str, cursor: int) -> tuple[list[Candidate], set[str]]:
        """Return completions, and the fields whose values are needed for more."""
        known = _RecordingMapping(self._known_values)
        offered = [*self._offers_of_saved(text, cursor), *complete(text, cursor, known)]
        # unprintable values cannot be typed
        return [one for one in offered if printable(one.text) == one.text], known.missed


class _RecordingMapping(Mapping[str, Sequence[str]]):
    """Values by field, which records lookups of unknown fields."""

    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values
        self.missed: set[str] = set()

    def __getitem__(self, field: str) -> Sequence[str]:
        if field not in self._values:
            self.missed.add(field)
        return self._values[field]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __bool__(self) -> bool:
        return True  # lookups are wanted even while it is empty
