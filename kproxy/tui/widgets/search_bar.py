"""The line for typing searches of the list, the tree, the bytes or a view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from kproxy.tui.commands import Scope, bindings
from kproxy.tui.history import History
from kproxy.tui.search import Kind, SearchError, parse_search
from kproxy.tui.search import Search as ParsedSearch
from kproxy.tui.widgets.typing_line import TypingLine
from kproxy.tui.widgets.verdict import Validity, Verdict

_HELP = "text, /expression/ or 0xHEX · enter: next · up: earlier ones"
_DEEP_KEY = "ctrl+t"


class SearchBar(TypingLine):
    """A line for a search.

    :ivar deep: whether to search every field and the frames of exchanges, if the list is searched
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(Scope.SEARCHING),
    ]

    @dataclass
    class Search(Message):
        """A search was submitted.

        :ivar search: the search
        :ivar forward: direction, True for down
        :ivar deep: whether to search every field and the frames
        """

        search: ParsedSearch
        forward: bool
        deep: bool

    def __init__(self) -> None:
        super().__init__("search", History("search"), "text, /expression/ or 0xHEX")
        self.deep = False
        self._forward = True
        self._can_be_deep = True

    def ask(self, where: str, *, forward: bool = True, deep: bool = True) -> None:
        """Open the line.

        :param where: name of the place to search: ``list``, ``bytes``
        :param forward: direction, True for down
        :param deep: whether a deep search is possible
        """
        self._forward = forward
        self._can_be_deep = deep
        self.deep = False
        self.refresh_bindings()
        self.open(sign=f"search {where}")

    def judge(self, text: str) -> Verdict:
        if not text.strip():
            return Verdict(text, Validity.INCOMPLETE, _HELP)
        try:
            search = parse_search(text)
        except SearchError as error:
            unfinished = error.position >= len(text)
            validity = Validity.INCOMPLETE if unfinished else Validity.INVALID
            return Verdict(text, validity, str(error), error.position)
        return Verdict(text, Validity.VALID, f"{search.kind}{self._how(search)}", value=search)

    def _how(self, search: ParsedSearch) -> str:
        if not self._can_be_deep:
            return ""
        if search.kind is Kind.BYTES:
            return ", in the bytes of every exchange"
        if self.deep:
            return f", in all fields and bytes · {_DEEP_KEY}: only in what is shown"
        return f", in what is shown · {_DEEP_KEY}: in all fields and bytes"

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is available now."""
        return self._can_be_deep if action == "typing_deep" else super().check_action(action, parameters)

    def action_typing_deep(self) -> None:
        """Switch between shallow and deep search."""
        self.deep = not self.deep
        self.study(offer=False)

    def submit(self, verdict: Verdict) -> None:
        self.post_message(self.Search(verdict.value, forward=self._forward, deep=self.deep))
