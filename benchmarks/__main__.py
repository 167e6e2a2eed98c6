"""The performance book in one command: ``python -m benchmarks [--write] [PART...]``.

Runs the benchmarks of the book one after the other, in less than twenty minutes on two idle cores. Progress goes to
standard error; at the end the page is printed. --write stores the figures in docs/performance.json and the page made
from them in docs/performance.md; if only some parts run, only their figures are replaced. The exit code is 1 if a part
could not be measured.

Each part is a benchmark with options of its own: python -m benchmarks.PART --help.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.book import PARTS, measure, write
from docs.tools import performance
from docs.tools.performance import Book


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks, print or store their figures, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="small sizes, to try it out: nothing is kept")
    parser.add_argument("--write", action="store_true", help="keep figures and page in docs")
    parser.add_argument("--json", action="store_true", help="print the figures instead of the page")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.parts if name not in PARTS]
    if unknown:
        parser.error(f"there is no part {', '.join(unknown)}; there are {', '.join(PARTS)}")
    if options.quick and options.write:
        parser.error("--quick measures too little to be kept: leave out --write")
    found: Book = {}
    for name, entry in measure(dict.fromkeys(options.parts) or PARTS, quick=options.quick, say=_say):
        found[name] = entry
        if options.write:  # after each part, because the next may be interrupted
            write({name: entry})
    if options.json:
        print(json.dumps(found, indent=1, ensure_ascii=False))
    elif not options.write:
        print(performance.page(found), end="")
    return int(any("cannot" in entry for entry in found.values()))


if __name__ == "__main__":
    sys.exit(main())
