"""``--jobs``: several processes print exactly the same as one, for every command that has the option."""

from __future__ import annotations

from multiprocessing import active_children, get_all_start_methods
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from captures.exchanges import parallel
from kproxy.cli import main
from kproxy.cli.capture_run import _jobs
from tests.captures.recorded import FOLDER

RECORDINGS = (
    "06_tansu_garbage.pcap",
    "09_loss3pct_before_tap.pcap.zst",
    "09_snaplen128.pcap",
    "21_k430_share_group.pcap.zst",
    "24_k430_franz_scramsha256.pcap",
    "36_k251_sweep.pcap.zst",
)
"""Damaged, incomplete and encrypted recordings, and every API."""
SAMPLE = FOLDER.parents[2] / "captures" / "samples" / "rebalance.pcap"

pytestmark = pytest.mark.skipif(
    "fork" not in get_all_start_methods(), reason="without fork all is done in one process"
)

COMMANDS = {
    "read": ["read", "--utc"],
    "read --verbose": ["read", "--utc", "--verbose"],
    "read in colour": ["read", "--utc", "--color", "always"],
    "read --json": ["read", "--json"],
    "read, filtered by columns": ["read", "--utc", "-Y", "api == Fetch or error"],
    "read --json, filtered by bodies": ["read", "--json", "-Y", "request.topics.partitions.partition == 0"],
    "read, the first of a filter": ["read", "--utc", "-c", "7", "-Y", "not api == Fetch"],
    "stats": ["stats", "--utc", "--json"],
    "groups": ["groups", "--utc"],
    "lag": ["lag", "--utc"],
    "api-versions": ["api-versions"],
    "diagnose": ["diagnose", "--utc"],
    "incidents": ["incidents", "--utc"],
    "diff": ["diff", "--utc", "--window", "..1s", "--against", "1s.."],
    "compat": ["compat", "--broker-version", "4.3", "--all"],
    "records": ["records", "--utc"],
    "records --once": ["records", "--utc", "--once"],
    "records --json": ["records", "--json"],
    "records --verbose": ["records", "--utc", "--verbose", "--color", "always"],
    "records, the first": ["records", "--utc", "-c", "7"],
    "export csv": ["export", "--format", "csv", "--columns", "all", "-o", "-"],
    "export json": ["export", "--format", "json", "--text", "-o", "-"],
}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


@pytest.fixture(autouse=True)
def small_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "_SHARE", 1 << 14)
    monkeypatch.setattr("captures.exchanges.columns._LEAST_SHARE", 16)


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
@pytest.mark.parametrize("name", RECORDINGS)
def test_several_processes_print_what_one_does(name: str, command: list[str]) -> None:
    path = str(FOLDER / name)
    alone, together = (run(*command, "--jobs", jobs, path) for jobs in ("1", "3"))
    assert together.stdout_bytes == alone.stdout_bytes
    assert together.stderr == alone.stderr
    assert together.exit_code == alone.exit_code
    assert not active_children()


@pytest.mark.slow
def test_parquet_files_are_the_same(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    files = [tmp_path / f"{jobs}.parquet" for jobs in (1, 3)]
    for jobs, file in zip((1, 3), files, strict=True):
        assert run("export", "--jobs", str(jobs), "-o", str(file), str(SAMPLE)).exit_code == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_processes_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(
        parallel, "jobs_for", lambda capture, shares: asked.append((capture.jobs, shares)) or 1
    )
    run("read", "--jobs", "3", str(SAMPLE))
    assert [jobs for jobs, _ in asked] == [3]
    assert asked[0][1] > 3


class Source:
    """A source with a given size."""

    def __init__(self, expected: int | None, *, live: bool = False) -> None:
        self.expected, self.live = expected, live


@pytest.mark.parametrize(
    ("source", "asked", "jobs"),
    [
        (Source(1 << 30), None, 5),
        (Source(1 << 30), 2, 2),
        (Source(1 << 20), None, 1),
        (Source(1 << 20), 4, 4),
        (Source(None), None, 1),
        (Source(1 << 30, live=True), 4, 1),
    ],
    ids=["large", "as asked", "small", "small, asked", "unknown size", "pipe"],
)
def test_how_many_processes_there_are(
    source: Source, asked: int | None, jobs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parallel, "processors", lambda: 5)
    assert _jobs(source, ["kafka.pcap"], asked) == jobs  # type: ignore[arg-type]


def test_remote_files_have_one_process() -> None:
    assert _jobs(Source(1 << 30), ["kafka.pcap", "s3://captures/kafka.pcap"], 4) == 1  # type: ignore[arg-type]
