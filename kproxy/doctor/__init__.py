"""What this installation can do: each module here looks at one part, :func:`examine` at all of them.

Everything is tried, not guessed: a sample is read, an interface is opened, each cipher is made, Java is asked for its
version. A part that fails unexpectedly is reported as broken and hides no other. Heavy packages are imported by the
checks that are about them.
"""

from __future__ import annotations

from kproxy.doctor.examination import AREAS, Check, Examination, State, examine

__all__ = ["AREAS", "Check", "Examination", "State", "examine"]
