"""Compare the output of commands before and after a change: ``python -m tests.lanes.outputs BEFORE [AFTER]``.

BEFORE and AFTER are commits; AFTER defaults to the working tree. Every command of :data:`COMMANDS` reads every recorded
capture of ``tests/data`` and the bundled one, in both trees. The differences are listed: the number of changed outputs
of each command, and the changed lines, each kind once (lines that differ only in numbers are of one kind). The exit
code is 1 if anything differs. A refactoring is fine if the list is empty, or contains only intended changes of
wording.

The captures are those of the working tree, so that both trees read the same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMANDS: tuple[tuple[str, ...], ...] = (
    ("read",),
    ("read", "-V", "-c", "20"),
    ("read", "--json"),
    ("stats",),
    ("stats", "--json"),
    ("stats", "--by", "latency"),
    ("groups",),
    ("groups", "--json"),
    ("diagnose",),
    ("diagnose", "--json"),
    ("lag",),
    ("lag", "--json"),
    ("clients",),
    ("clients", "--json"),
    ("api-versions",),
    ("compat",),
    ("incidents",),
    ("incidents", "--json"),
    ("records", "-c", "50"),
    ("records", "--json", "-c", "50"),
    ("journey",),
    ("journey", "--json"),
    ("diff", str(ROOT / "captures/samples/rebalance.pcap")),
    *(
        (name, "--markdown")
        for name in ("stats", "groups", "diagnose", "lag", "clients", "incidents", "journey")
    ),
)
_SHOWN_KINDS = 12

# Runs in either tree, with its packages: commands and captures on standard input, outputs to files.
_RUNNER = """
import json, sys
from pathlib import Path
from click.testing import CliRunner
from kproxy.cli import main
task = json.load(sys.stdin)
for capture in task["captures"]:
    for command in task["commands"]:
        result = CliRunner().invoke(main, [*command, capture], prog_name="kproxy")
        text = f"{result.output}\\nexit code {result.exit_code}\\n"
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            text += f"raised {result.exception!r}\\n"
        name = capture.rsplit("tests/data/", 1)[-1].replace("/", "__")
        said = "_".join(Path(each).name for each in command)
        (Path(task["folder"]) / f"{said}@{name}").write_text(text)
"""


def recorded_captures() -> list[Path]:
    """Return all recorded captures of the tests, and the bundled one."""
    data = (each for each in (ROOT / "tests/data").rglob("*") if ".pcap" in each.name and each.is_file())
    return sorted([*data, *(ROOT / "captures/samples").glob("*.pcap*")])


def write_outputs(tree: Path, folder: Path, captures: list[Path], jobs: int) -> None:
    """Write the output of a tree's commands for each capture to a folder.

    :raises subprocess.CalledProcessError: if the tree's program cannot run
    """

    def run(part: list[Path]) -> None:
        task = {"captures": [str(each) for each in part], "commands": COMMANDS, "folder": str(folder)}
        environment = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1", "PYTHONHASHSEED": "0", "TZ": "UTC"}
        environment |= {"PYTHONPATH": str(tree), "XDG_CONFIG_HOME": str(folder / "no-settings")}
        subprocess.run(
            [sys.executable, "-c", _RUNNER],
            cwd=tree,
            input=json.dumps(task),
            text=True,
            env=environment,
            check=True,
        )

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(run, (captures[start::jobs] for start in range(jobs))))


@contextlib.contextmanager
def checked_out(commit: str | None) -> Iterator[Path]:
    """Yield a folder with the sources of a commit, by default the working tree."""
    if commit is None:
        yield ROOT
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "tree.tar"
        subprocess.run(["git", "archive", "-o", str(archive), commit], cwd=ROOT, check=True)
        tree = Path(folder) / "tree"
        tree.mkdir()
        subprocess.run(["tar", "-xf", str(archive), "-C", str(tree)], check=True)
        yield tree


def differences(before: Path, after: Path) -> dict[str, Counter[tuple[str, str]]]:
    """Return the changed lines of each command: sign and line (numbers as ``#``) -> count.

    :raises ValueError: if the folders do not hold the same outputs
    """
    names = {each.name for each in before.iterdir() if each.is_file()}
    if names != {each.name for each in after.iterdir() if each.is_file()}:
        raise ValueError(f"{before} and {after} hold outputs of other commands or captures")
    changed: dict[str, Counter[tuple[str, str]]] = {}
    for name in sorted(names):
        old, new = ((folder / name).read_text().splitlines() for folder in (before, after))
        if old == new:
            continue
        command = name.partition("@")[0].replace("_", " ")
        kinds = changed.setdefault(command, Counter())
        kinds["=", ""] += 1
        for line in difflib.unified_diff(old, new, lineterm="", n=0):
            if line[0] in "+-" and not line.startswith(("+++", "---")):
                kinds[line[0], re.sub(r"\d+", "#", line[1:].strip())] += 1
    return changed


def main(arguments: list[str] | None = None) -> int:
    """Compare the outputs of two trees; return 1 if any differ."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("before", help="a commit")
    parser.add_argument("after", nargs="?", help="a commit; without it the working tree")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--keep", type=Path, help="a folder for the outputs, to look at them")
    parser.add_argument("--match", default="*", help="only captures of such a path, such as '*/groups/*'")
    parser.add_argument("--kinds", type=int, default=_SHOWN_KINDS, help="how many kinds of lines are shown")
    options = parser.parse_args(arguments)
    captures = [each for each in recorded_captures() if each.match(options.match)]
    with tempfile.TemporaryDirectory() as folder:
        folders = [(options.keep or Path(folder)) / side for side in ("before", "after")]
        for side, commit in zip(folders, (options.before, options.after), strict=True):
            side.mkdir(parents=True, exist_ok=True)
            with checked_out(commit) as tree:
                write_outputs(tree, side, captures, options.jobs)
        changed = differences(*folders)
    lines = [f"{len(captures)} captures, {len(COMMANDS)} commands"]
    for command, kinds in changed.items():
        lines += ["", f"kproxy {command}: {kinds.pop(('=', ''))} outputs differ"]
        lines += [
            f"  {times:6,} x {sign} {line[:160]}" for (sign, line), times in kinds.most_common(options.kinds)
        ]
        if len(kinds) > options.kinds:
            lines.append(f"  and {len(kinds) - options.kinds} other kinds of lines")
    sys.stdout.write("\n".join([*lines, ""]))
    return 1 if changed else 0


if __name__ == "__main__":
    raise SystemExit(main())
