"""What can be wrong with rules and edits, apart from filters (:class:`captures.filters.FilterError`)."""

from __future__ import annotations


class AnswerError(ValueError):
    """What a rule would do cannot be done to this frame."""


class NoPlaceError(AnswerError):
    """A message names nothing that can carry an error."""


class EditError(ValueError):
    """An edit that does not give a frame of the same kind; the text is for who made it."""


class ForceNeededError(ValueError):
    """A rule that matches everything, without ``--force``."""
