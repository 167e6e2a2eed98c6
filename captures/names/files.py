"""Files that name addresses; the content determines the format."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from pathlib import Path

from captures.names import hosts, kubectl
from captures.names.hosts import LineError
from captures.names.names import Names

_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class NamesError(Exception):
    """A file that names addresses cannot be parsed; the message says where and why."""

    def __init__(self, path: str, line: int, reason: str) -> None:
        self.path = path
        self.line = line
        super().__init__(f"{path}, line {line}: {reason}")


def read_names(paths: Iterable[str]) -> Names:
    """Return the names in some files; if several files name an address, the first name is shown.

    :raises NamesError: if a line cannot be parsed
    :raises OSError: if a file cannot be read
    """
    names = Names()
    for path in paths:
        lines = [(number, line) for number, line in enumerate(_text(path).splitlines(), 1) if line.strip()]
        entries = kubectl.entries if lines and kubectl.is_table(lines[0][1]) else hosts.entries
        try:
            for address, port, found in entries(iter(lines)):
                names.add(address, *found, port=port)
        except LineError as error:
            raise NamesError(path, error.line, str(error)) from None
    return names


def _text(path: str) -> str:
    data = Path(path).read_bytes()
    # PowerShell redirects output as UTF-16
    encoding = "utf-16" if data.startswith(_UTF_16) else "utf-8-sig"
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise NamesError(path, line, f"this is not text: byte {data[error.start]:#04x}") from None
