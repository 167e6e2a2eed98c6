"""The performance book's page: every line is derived from the figures alone."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import analyses, proxy, questions, spark, tui
from benchmarks.captures import Run, Targets, Task
from benchmarks.loads import LOADS
from benchmarks.outcome import for_programs
from docs.build import DOCS
from docs.tools import performance
from docs.tools.markdown import Page, slug
from docs.tools.performance import PAGE, RESULTS, SECTIONS, load, page, pages

MACHINE = {"processor": "Some CPU", "cores": "2"}
MIB = 1 << 20
ADDED = "added latency, 200 bytes back and forth (p50, p99)"


def told(figures: Any, aims: Any = (), missing: Any = None, **more: Any) -> dict[str, Any]:
    """Return the book's entry for the results of a benchmark."""
    found: dict[str, Any] = json.loads(for_programs(figures, aims, missing))
    return {
        "began": "2026-11-22T17:40:03Z",
        "seconds": 83.2,
        "load": 0.1,
        "command": "python -m benchmarks.x --mb 3",
        "commit": "0123456789ab",
        "machine": MACHINE,
        "versions": {"tshark": "4.0.17"},
        **found,
        **more,
    }


# ---------------------------------------------------------------- figures from the benchmarks' own code
def captures_entry(tmp_path: Path, *, tshark: bool = True) -> dict[str, Any]:
    file = tmp_path / "steady-8MB.pcap"
    with file.open("wb") as sparse:
        sparse.truncate(8_000_000)
    task = Task("table of steady", file, [], [], Targets(8, 400))
    task.runs = {"kproxy": [Run(0.1, 0.08, 100 * MIB)]}
    if tshark:
        task.runs = {"tshark": [Run(1.0, 0.4, 400 * MIB)], **task.runs}
    missing = {} if tshark else {"tshark": "tshark is not installed"}
    return told({task.name: task.figures()}, task.aims(), missing)


def decode_entry() -> dict[str, Any]:
    us = {"kproxy": 2.0, "kio": 1.0, "kafka-python": 5.0, "kproxy traced": 9.0}
    row = {"bytes": 1234, "us": us, "times_ours": {name: each / 2 for name, each in us.items()}}
    ratios = {"kio": 0.5, "kafka-python": 2.5}
    return told(
        {"messages": {"Heartbeat v4": row}, "ratios": ratios, "records_per_second": {"columns": 5.5e6}}
    )


def sample(rate: float, p50: float, cpu: float = 2.0, memory: int = MIB, dropped: int = 0) -> proxy.Sample:
    return proxy.Sample(rate, rate / 10, p50, 2 * p50, cpu, memory, dropped)


def proxy_entry(loads: tuple[str, ...] = ("pingpong", "many", "fetch")) -> dict[str, Any]:
    by_name = {each.name: each for each in LOADS}
    done = []
    for name in loads:
        each = proxy.LoadResult(by_name[name])
        each.samples = {
            "direct": [sample(1000, 10, 0, 0)],
            "kproxy": [sample(800, 30, 4, 30 * MIB)],
            "kproxy-w": [sample(700, 40)],
            "haproxy": [sample(400, 20, 2, 10 * MIB)],
            "tcpdump": [sample(350, 25, dropped=7)],
        }
        each.failed = {"socat": "nothing came through"}
        each.sustained = {"kproxy-w": 700.0, "tcpdump": 280.0}
        done.append(each)
    figures = {each.load.name: proxy.figures(each) for each in done}
    return told(figures, proxy.aims(done), {"mitmproxy": "pip failed"})


def tui_entry() -> dict[str, Any]:
    times = tui._distribution([0.001, 0.002, 0.020])
    figures = {
        "open": {"exchanges": 1_000_000, "table_s": 3.0, "first_s": 0.4, "all_s": 4.0},
        "scroll": {"a page": times},
        "follow": {"rate": 5001.0, "times": {"the list is behind by": times}},
        "memory": {"table": 200 * MIB, "ui": 300 * MIB},
        "peer": {"rows": 20_000, "seconds": 2.0, "rows_s": 10_000.0},
    }
    return told(figures, tui.aims(figures))


def spark_entry() -> dict[str, Any]:
    def run(seconds: float, **more: float) -> list[dict[str, float]]:
        return [{"seconds": seconds, **more}]

    on_spark = {
        "first": 9.0,
        "start": 5.0,
        "memory": 600.0 * MIB,
        "shuffled": 20_000.0,
        "serial": 0.01,
        "longest": 2.0,
    }
    runs = {
        ("single", spark.EXCHANGES): run(1.0, memory=200.0 * MIB),
        ("local[2]", spark.EXCHANGES): run(2.0, **on_spark),
        (spark.NAIVE, spark.EXCHANGES): run(6.0, **on_spark),
        ("tshark", spark.EXCHANGES): run(16.0),
    }
    return told(spark.figures(runs, 2_000_000), spark.aims(runs, 2_000_000))


def commands_entries() -> dict[str, dict[str, Any]]:
    row = {"wall_s": 2.0, "cpu_s": 1.9, "rss": 64 * MIB, "times_table": 3.5}
    beside = {"times_wall": 2.5, "times_cpu": 2.4, "memory": 0.5}
    commands = {"table": row | beside, "tshark": row, "stats": row | beside}
    of_analyses = {"steady traffic": {"bytes": 50_000_000, "commands": commands}}
    of_questions = {"table": row, "clients": row}
    filters = [{"filter": "a ~ 'x|y'", "first_ms": 12.0, "again_ms": 3.0, "rows": 1234, "bodies": 0}]
    field = {
        "what": "topics",
        "full_us": 9.0,
        "first_us": 3.0,
        "whole_us": 4.5,
        "times_first": 3.0,
        "times_whole": 2.0,
    }
    return {
        "analyses": told(
            {"captures": of_analyses, "story": {"add_us": 8.0, "result_s": 0.002}}, analyses.aims(of_analyses)
        ),
        "questions": told({"bytes": 50_000_000, "questions": of_questions}, questions.aims(of_questions)),
        "filters": told({"exchanges": 1_000_000, "filters": filters}),
        "columns": told(
            {"messages": [field], "captures": [{"file": "x", "exchanges": 5000, "us": {"wait": 7.0}}]}
        ),
    }


@pytest.fixture
def book(tmp_path: Path) -> performance.Book:
    return {
        "captures": captures_entry(tmp_path),
        "decode": decode_entry(),
        "proxy": proxy_entry(),
        **commands_entries(),
        "tui": tui_entry(),
        "spark": spark_entry(),
    }


def rows(text: str, heading: str = "") -> list[str]:
    """Return the lines of tables, below a heading of the page if given, otherwise before the first heading."""
    part = text.partition(f"\n## {heading}\n")[2] if heading else text
    return [line for line in part.partition("\n## ")[0].splitlines() if line.startswith("|")]


# ---------------------------------------------------------------- the stored files
def test_figures_and_page_are_kept_together() -> None:
    """test_generate compares the page with the figures; this test checks that neither exists without the other."""
    assert RESULTS.exists() == PAGE.exists(), "run python -m docs.generate"
    assert pages() == ({PAGE.name: page(load())} if RESULTS.exists() else {})
    assert set(load()) <= set(SECTIONS)


def test_the_page_follows_from_the_file(
    book: performance.Book, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(performance, "RESULTS", tmp_path / "performance.json")
    assert pages() == {}
    performance.RESULTS.write_text(json.dumps(book))
    assert pages() == {"performance.md": page(book)}
    assert PAGE.parent == DOCS


# ---------------------------------------------------------------- the opening table
def test_every_peer_and_job_has_a_line(book: performance.Book) -> None:
    assert rows(page(book))[2:] == [
        "| `kproxy stats`, steady traffic | tshark | 2.50× | 2.40× | 2× |",
        "| table of steady | tshark | 10× | 5× | 4× |",
        "| decoding six messages (geometric mean) | kio | 0.50× |  |  |",
        "| decoding six messages (geometric mean) | kafka-python | 2.50× |  |  |",
        f"| {ADDED} | HAProxy | 0.50× (20 µs beside 10), 0.50× (40 µs beside 20) | 0.50× | 0.33× |",
        "| forwarding, 200 busy connections | HAProxy | 2× | 0.50× | 0.33× |",
        "| forwarding, bulk fetch | HAProxy | 2× | 0.50× | 0.33× |",
        f"| {ADDED} | socat | failed: nothing came through |  |  |",
        "| forwarding, 200 busy connections | socat | failed: nothing came through |  |  |",
        "| forwarding, bulk fetch | socat | failed: nothing came through |  |  |",
        "| forwarding, 200 busy connections | no proxy | 0.80× |  |  |",
        "| forwarding, bulk fetch | no proxy | 0.80× |  |  |",
        "| recording without drops, 200 busy connections | HAProxy + tcpdump | 2.50× |  |  |",
        "| recording without drops, bulk fetch | HAProxy + tcpdump | 2.50× |  |  |",
        "| Forwarding | mitmproxy | not measured: pip failed |  |  |",
        "| rows loaded a second | Textual's DataTable | 25× |  |  |",
        "| exchanges of a capture, two workers | a shuffle of all packets, on Spark | 3× |  |  |",
        "| exchanges of a capture, Spark with two workers | tshark | 8× |  |  |",
    ]


def test_a_missing_peer_is_told_in_the_table_and_in_its_part(tmp_path: Path) -> None:
    text = page({"captures": captures_entry(tmp_path, tshark=False)})
    assert rows(text)[2:] == ["| Reading captures | tshark | not measured: tshark is not installed |  |  |"]
    assert "\ntshark is left out: tshark is not installed.\n" in text
    assert "| table of steady, 8 MB | kproxy | 0.10 | 0.080 | 80 | 100 | 100 |" in rows(
        text, "Reading captures"
    )
    assert "| tshark |" not in "".join(rows(text, "Reading captures"))


def test_a_part_that_cannot_run_is_told_in_the_table_and_in_its_place(book: performance.Book) -> None:
    entry = book["proxy"]
    del entry["figures"], entry["aims"]
    entry["cannot"] = "gcc is not installed"
    text = page({"proxy": entry})
    assert rows(text)[2:] == ["| [Forwarding](#forwarding) |  | not measured: gcc is not installed |  |  |"]
    assert "\nNot measured (2026-11-22): gcc is not installed.\n" in text


def test_what_was_not_measured_yet_is_said(book: performance.Book) -> None:
    assert "Not measured yet: Commands, Reading captures, Decoding messages" in page({"proxy": book["proxy"]})
    assert "Not measured yet" not in page(book)


def test_latency_has_no_ratio_where_noise_is_larger(book: performance.Book) -> None:
    added = book["proxy"]["figures"]["pingpong"]["peers"]["HAProxy"]["added"]
    added["p99"] = -3.0
    assert "0.50× (20 µs beside 10), 40 µs beside -3 |" in rows(page(book))[6]


def test_who_records_nothing_without_drops_has_no_ratio(book: performance.Book) -> None:
    book["proxy"]["figures"]["many"]["peers"]["HAProxy + tcpdump"]["sustained"] = 0.0
    line = "| recording without drops, 200 busy connections | HAProxy + tcpdump | 700 requests/s beside none |  |  |"
    assert line in rows(page(book))


# ---------------------------------------------------------------- aims
def test_missed_aims_stand_in_front_and_in_their_part(tmp_path: Path, book: performance.Book) -> None:
    text = page({"captures": captures_entry(tmp_path)})
    assert "\n2 of 4 aims.\n" in text
    slow = "table of steady: MB/s a core | 100 | at least 400"
    missed = "table of steady: times as fast by processor time | 5 | at least 8"
    assert rows(text, "Aims that are missed")[2:] == [
        f"| [captures](#reading-captures) | {slow} |",
        f"| [captures](#reading-captures) | {missed} |",
    ]
    assert rows(text, "Reading captures")[-4:] == [
        f"| {slow} | **missed** |",
        "| table of steady: times as fast by the clock | 10 | at least 8 | reached |",
        f"| {missed} | **missed** |",
        "| table of steady: of its memory | 0.25 | at most 0.50 | reached |",
    ]
    told_of = "".join(rows(page(book), "Aims that are missed"))
    assert "| questions |" not in told_of
    assert "clients: times the table's processor time | 3.50 | at most 3 |" in told_of
    assert "s until all is in the list, beyond the table alone | 1 | at most 0.50 |" in told_of
    assert "ms for 95% of updates, a page | 20 | at most 16 |" in told_of
    assert "exchanges only: MiB of a worker | 600 | at most 500 |" in told_of


def test_aims_that_are_all_reached_need_no_table(book: performance.Book) -> None:
    entry = book["captures"]
    entry["aims"] = [aim for aim in entry["aims"] if aim["what"].endswith("memory")]
    text = page({"captures": entry})
    assert "\n0 of 1 aims.\n" in text
    assert rows(text, "Aims that are missed") == []


# ---------------------------------------------------------------- where, when, how
def test_machine_versions_date_and_commit_are_told(book: performance.Book) -> None:
    text = page(book)
    assert rows(text, "The machine") == [
        "|  |  |",
        "|---|---|",
        "| processor | Some CPU |",
        "| cores | 2 |",
        "|  | version |",
        "|---|---|",
        "| tshark | 4.0.17 |",
    ]
    assert "Measured 2026-11-22 on the machine [below](#the-machine), in 12 min 29 s," in text
    measured = (
        "Measured 2026-11-22 17:40 UTC in 1 min 23 s, kproxy at `0123456789ab`, by `python -m benchmarks.x"
    )
    assert text.count(measured) == len(SECTIONS)
    assert "was not idle" not in text


def test_parts_of_another_machine_and_day_are_told(book: performance.Book) -> None:
    other = copy.deepcopy(book["tui"])
    other |= {"machine": {"processor": "Other CPU"}, "began": "2026-12-01T00:00:00Z", "load": 3.0}
    text = page({"captures": book["captures"], "tui": other})
    assert "Measured 2026-11-22 to 2026-12-01" in text
    assert "\nOf captures:\n" in text
    assert "\nOf tui:\n" in text
    assert "| processor | Other CPU |" in rows(text, "The machine")
    assert text.count("The machine was not idle: its load was 3.0 at the beginning.") == 1


# ---------------------------------------------------------------- the parts
@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("captures", "| table of steady, 8 MB | tshark | 1 | 0.40 | 8 | 20 | 400 |"),
        ("decode", "| Heartbeat v4 | 1,234 | 2.00 (1×) | 1.00 (0.50×) | 5.00 (2.50×) | 9.00 (4.50×) |"),
        ("decode", "| columns | 5.50 |"),
        ("proxy", "| direct | 1,000 |  | 10 | 20 | 0 | 0 |  |"),
        ("proxy", "| kproxy, no capture | 800 | 0.80 | 30 | 60 | 4 | 30 |  |"),
        ("proxy", "| kproxy, no capture | 80 | 0.80 | 30 | 60 | 4 | 30 |  |"),
        ("proxy", "| HAProxy + tcpdump | 350 | 0.35 | 25 | 50 | 2 | 1 | up to 280 |"),
        ("proxy", "| socat | failed: nothing came through |  |  |  |  |  |  |"),
        ("analyses", "| `kproxy stats` | 2 | 1.90 | 64 | 2.40× |"),
        ("questions", "| clients | 2 | 1.90 | 25 | 64 | 3.50× |"),
        ("filters", r"| `a ~ 'x\|y'` | 12 | 3 | 1,234 |"),
        ("columns", "| topics | 9 | 3 (3×) | 4.50 (2×) |"),
        ("columns", "| wait | 7 |"),
        ("tui", "| all of them in the list | 4 s |"),
        ("tui", "| Textual's DataTable, 20,000 rows | 2 s |"),
        ("tui", "| a page | 2 | 20 | 20 | 20 |"),
        ("spark", "| exchanges only | local[2] | 2 | 1 | 9 | 5 | 600 | 1.00% |"),
        ("spark", "| exchanges only | tshark | 16 | 0.12 |  |  |  |  |"),
    ],
)
def test_every_part_has_its_figures(book: performance.Book, name: str, line: str) -> None:
    assert line in rows(page(book), SECTIONS[name].title)


def test_links_within_the_page_lead_somewhere(book: performance.Book) -> None:
    read = Page(page(book))
    anchors = {heading.anchor for heading in read.headings()}
    links = list(read.links())
    assert {f"#{slug(SECTIONS[name].title)}" for name in ("captures", "spark")} <= set(links)
    assert {link[1:] for link in links if link.startswith("#")} <= anchors
