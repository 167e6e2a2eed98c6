"""Writes the reference pages that come from the code. Run: ``python -m docs.generate``; a test holds them to it."""

from __future__ import annotations

from pathlib import Path

from captures.filters import reference

DOCS = Path(__file__).parent

FILTERS = """# The filter language

`-Y/--filter` of every command that reads captures. Made by `python -m docs.generate`."""


def pages() -> dict[str, str]:
    """Return the text of each generated page by file name."""
    return {"filters.md": f"{FILTERS}\n\n{reference().rstrip()}\n"}


def main() -> None:
    """Write the pages."""
    for name, text in pages().items():
        (DOCS / name).write_text(text)


if __name__ == "__main__":
    main()
