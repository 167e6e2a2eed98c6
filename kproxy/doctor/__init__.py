"""What this installation can do: each module here checks one area, :func:`examine` checks all of them.

Everything is tried, not guessed: a sample is read, an interface is opened, each cipher is used, Java is asked for its
version. A check that fails unexpectedly is reported as broken and hides no other. Heavy packages are imported only by
the checks for them.
"""

from __future__ import annotations

from kproxy.doctor.examination import AREAS, Check, Examination, State, examine

__all__ = ["AREAS", "Check", "Examination", "State", "examine"]
