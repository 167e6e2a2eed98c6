"""Python source written line by line, together with the objects it refers to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class SourceWriter:
    """Writes the source of functions.

    :ivar globals: the objects that the source refers to, by name
    """

    def __init__(self, names: dict[str, Any]) -> None:
        self.globals = names
        self._lines: list[str] = []
        self._depth = 0
        self._names = 0

    def source(self) -> str:
        """Return the source written so far."""
        return "\n".join(self._lines)

    def compiled(self, name: str, file: str) -> Any:
        """Compile the source; return one of its functions.

        :param file: file name that tracebacks show for the source
        """
        exec(compile(self.source(), file, "exec"), self.globals)  # noqa: S102  made of declarations, nothing from the wire or a user
        return self.globals[name]

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._depth + text)

    @contextmanager
    def _block(self, head: str) -> Iterator[None]:
        self._line(head)
        self._depth += 1
        yield
        self._depth -= 1

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _bind(self, prefix: str, value: Any) -> str:
        """Make an object reachable from the source; return its name there."""
        name = self._name(prefix)
        self.globals[name] = value
        return name
