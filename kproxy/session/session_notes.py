"""Marks, comments and interventions of the exchanges of a session, by number."""

from __future__ import annotations

from collections.abc import Callable

from captures.arrays import Int64s
from captures.exchanges.notes import Notes
from captures.interventions import Interventions
from kproxy.session.listed import ListedExchanges

_FEW = 5_000


class SessionNotes:
    """What users and the proxy noted about exchanges.

    :param notes: the notes of the capture, by row of its table
    :ivar marked: numbers of the marked exchanges
    :ivar comments: by number of the exchange, like `interventions`
    """

    def __init__(self, notes: Notes, listed: ListedExchanges) -> None:
        self._notes = notes
        self._listed = listed
        self.marked: set[int] = set()
        self.comments: dict[int, str] = {}
        self.interventions: dict[int, Interventions] = {}

    def mark(self, number: int, row: int, marked: bool | None) -> None:
        """Mark an exchange, or remove its mark; None toggles."""
        on = number not in self.marked if marked is None else marked
        self._notes.mark(row, marked=on)
        (self.marked.add if on else self.marked.discard)(number)

    def comment(self, number: int, row: int, text: str) -> None:
        """Set the comment on an exchange; an empty text removes it."""
        self._notes.comment(row, text)
        self.comments.pop(number, None)
        if text:
            self.comments[number] = text

    def read(self) -> None:
        """Add marks and comments from the capture."""
        listed = self._listed
        for row, note in self._notes.all().items():
            index = listed.index_of(row)
            if index < 0:
                continue
            if note.marked:
                self.marked.add(index + listed.first)
            if note.comment:
                self.comments[index + listed.first] = note.comment

    def read_interventions(self, indexes: Int64s) -> None:
        """Add what the proxy did to some exchanges, which columns do not contain."""
        listed = self._listed
        if len(indexes) < _FEW:
            rows = listed.reader.rows[indexes].tolist()
            found = {row: self._notes.interventions(row) for row in rows}
        else:
            found = dict(self._notes.all_interventions())
        for row, done in found.items():
            index = listed.index_of(row)
            if done and index >= 0:
                self.interventions[index + listed.first] = done

    def renumber(self, new: Callable[[int], int]) -> None:
        """Give exchanges new numbers."""
        self.marked = set(map(new, self.marked))
        self.comments = {new(number): text for number, text in self.comments.items()}
        self.interventions = {new(number): done for number, done in self.interventions.items()}

    def drop(self, before: int) -> None:
        """Drop the notes of exchanges whose number is below `before`."""
        self.marked = {number for number in self.marked if number >= before}
        for notes in (self.comments, self.interventions):
            for number in [number for number in notes if number < before]:
                del notes[number]
