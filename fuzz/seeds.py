"""``python -m fuzz.seeds``: write the seeds that targets make to ``fuzz/corpus/TARGET``.

Inputs added by fuzzing (``python -m fuzz TARGET --merge``), whose names are hashes, are kept.
"""

from __future__ import annotations

import re
import sys

from fuzz.target import CORPUS, NAMES, load

MOST_BYTES = 2 << 20
"""All targets together: they are part of the repository."""
SEED = "seed-"
_UNUSUAL = re.compile(r"[^A-Za-z0-9_-]+")


def file_name(label: str) -> str:
    """Return the name of a seed's file."""
    return SEED + _UNUSUAL.sub("-", label)


def main() -> int:
    """Write all seeds; return the exit code."""
    for name in NAMES:
        folder = CORPUS / name
        folder.mkdir(parents=True, exist_ok=True)
        for path in folder.glob(f"{SEED}*"):
            path.unlink()
        count = size = 0
        for label, data in load(name).seeds():
            (folder / file_name(label)).write_bytes(data)
            count, size = count + 1, size + len(data)
        print(f"{name:<14}{count:>6} seeds {size:>9,} bytes")
    total = sum(path.stat().st_size for path in CORPUS.rglob("*") if path.is_file())
    print(f"the whole corpus has {total:,} bytes")
    return 0 if total <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
