"""Errors of rules and edits, except those of filters (:class:`captures.filters.FilterError`)."""

from __future__ import annotations


class AnswerError(ValueError):
    """A rule cannot be applied to a frame."""


class NoPlaceError(AnswerError):
    """A message names nothing that can carry an error."""


class EditError(ValueError):
    """An edit does not result in a frame of the same kind; the message is for the user who made it."""


class ForceNeededError(ValueError):
    """A rule matches everything or never ends, without ``--force``."""
