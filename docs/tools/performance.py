"""The performance book: the speed of kproxy beside that of other programs. Made from ``performance.json`` alone.

``python -m benchmarks --write`` writes that file: part -> entry (:mod:`benchmarks.book`). The first table has ratios:
above 1 kproxy is ahead, whatever the figure. Each ratio was computed within one run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from docs.tools.markdown import slug

DOCS = Path(__file__).parent.parent
RESULTS = DOCS / "performance.json"
PAGE = DOCS / "performance.md"  # written by docs.generate, like other pages

Entry = dict[str, Any]
#: part -> entry
Book = dict[str, Entry]

MB = 1_000_000
MIB = 1 << 20
_BUSY = 0.5  # runnable processes at the start of a part, above which it counts as disturbed

_DIRECT, _OURS, _RECORDING, _TCPDUMP = "direct", "kproxy, no capture", "kproxy -w", "HAProxy + tcpdump"
_FORWARDING = ("HAProxy", "socat", "Kroxylicious", "mitmproxy")
#: loads in the first table: those measured by latency, and those measured by throughput
_LATENCY = {"pingpong": "200 bytes back and forth", "broker-produce": "small produces on a real broker"}
_THROUGHPUT = {"many": "200 busy connections", "fetch": "bulk fetch", "produce": "bulk produce"}

_HOW_TO_READ = """## How to read it

- **Ratios hold, seconds do not.** Whatever is compared ran on the same machine in turns, round by round. A ratio is
  taken within a round, and the median of the rounds is shown, so that it may differ a little from the ratio of two
  figures in a table, which are medians themselves. Seconds, rates and microseconds are those of the machine below.
- **In kproxy's favour is what is over 1**, in the opening table only: times as fast (by the clock, or in throughput),
  times less processor time, times less memory. Processor time includes children and the start of the program.
- **Parts are measured one after the other**, each at its own time and of its own commit (`+`: with changes that were
  not committed). Where other processes were busy when a part began, it says so.
- **An aim** is what was asked of kproxy before it was built. One that is missed stays in the list until it is reached.
- **Times are for people, counts for the tests**: that no change makes kproxy do more than it has to is held by counts
  of calls, lines and bytes (`python -m benchmarks.work`), the same on every machine, and no part of this page.
- MB are 10⁶ bytes, MiB 2²⁰."""


class Line(NamedTuple):
    """A line of the first table: another program, a job, and the factor by which kproxy is better at it."""

    beside: str
    job: str
    speed: str
    processor: str = ""
    memory: str = ""


class Section(NamedTuple):
    """A part on the page.

    :ivar text: the figures, and how they were measured
    :ivar body: makes tables from the figures
    :ivar lines: makes lines of the first table from them
    """

    title: str
    text: str
    body: Callable[[Any], Iterator[str]]
    lines: Callable[[Any], Iterator[Line]] = lambda _: iter(())


def load() -> Book:
    """Return the content of the file."""
    book: Book = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return book


def pages() -> dict[str, str]:
    """Return the page by its name; empty if there are no figures yet."""
    return {PAGE.name: page(load())} if RESULTS.exists() else {}


def page(book: Book) -> str:
    """Return the text of the page."""
    parts = [
        "# How fast kproxy is, beside others",
        _opening(book),
        _missed(book),
        _machines(book),
        _HOW_TO_READ,
    ]
    parts += [_section(SECTIONS[name], book[name]) for name in SECTIONS if name in book]
    return "\n\n".join(part for part in parts if part) + "\n"


# ---------------------------------------------------------------- of all parts
def _opening(book: Book) -> str:
    took = _time(sum(entry["seconds"] for entry in book.values()))
    days = sorted({entry["began"][:10] for entry in book.values()})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}" if days else ""
    intro = (
        f"Measured {when} on the machine [below](#the-machine), in {took}, by "
        "`python -m benchmarks --write`, which brings this page and `performance.json` up to date; "
        "`python -m benchmarks --write proxy` does so for one part. A figure over 1 is in kproxy's favour: so many "
        "times as fast, so many times less processor time and memory ([how to read it](#how-to-read-it))."
    )
    rows = []
    for name, section in SECTIONS.items():
        entry = book.get(name)
        if entry is None:
            continue
        if "cannot" in entry:
            rows.append(
                Line("", f"[{section.title}](#{slug(section.title)})", _not_measured(entry["cannot"]))
            )
            continue
        rows += section.lines(entry["figures"])
        rows += (Line(peer, section.title, _not_measured(why)) for peer, why in entry["missing"].items())
    shown = [(row.job, row.beside, row.speed, row.processor, row.memory) for row in rows]
    table = _table(
        ["kproxy", "beside", "times as fast", "times less processor time", "times less memory"], shown
    )
    absent = [section.title for name, section in SECTIONS.items() if name not in book]
    left = f"Not measured yet: {', '.join(absent)}." if absent else ""
    return "\n\n".join(part for part in (intro, table, left) if part)


def _not_measured(why: str) -> str:
    return f"not measured: {why}"


def _missed(book: Book) -> str:
    aims = [(name, aim) for name, entry in book.items() for aim in entry.get("aims", ())]
    if not aims:
        return ""
    rows = [
        (f"[{name}](#{slug(SECTIONS[name].title)})", *_aim(aim)) for name, aim in aims if not _reached(aim)
    ]
    text = f"## Aims that are missed\n\n{len(rows)} of {len(aims)} aims."
    return f"{text}\n\n{_table(['part', 'aim', 'measured', 'asked'], rows)}" if rows else text


def _aim(aim: dict[str, Any]) -> tuple[str, str, str]:
    bound = "at most" if aim["at_most"] else "at least"
    return aim["what"], _number(aim["value"]), f"{bound} {_number(aim['target'])}"


def _reached(aim: dict[str, Any]) -> bool:
    value, target = aim["value"], aim["target"]
    return bool(value <= target if aim["at_most"] else value >= target)


def _machines(book: Book) -> str:
    machines: dict[str, list[str]] = {}
    for name, entry in book.items():
        machines.setdefault(json.dumps(entry["machine"]), []).append(name)
    text = ["## The machine"]
    for machine, names in machines.items():
        if len(machines) > 1:
            text.append(f"Of {', '.join(names)}:")
        text.append(_table(["", ""], list(json.loads(machine).items())))
    versions: dict[str, set[str]] = {}
    for entry in book.values():
        for peer, version in entry["versions"].items():
            versions.setdefault(peer, set()).add(version)
    if versions:
        rows = [(peer, ", ".join(sorted(found))) for peer, found in versions.items()]
        text += ["Compared with, or taken to run:", _table(["", "version"], rows)]
    return "\n\n".join(text)


def _section(section: Section, entry: Entry) -> str:
    began = entry["began"]
    measured = (
        f"Measured {began[:10]} {began[11:16]} UTC in {_time(entry['seconds'])}, kproxy at `{entry['commit']}`, by "
        f"`{entry['command']}`."
    )
    if entry["load"] > _BUSY:
        measured += f" The machine was not idle: its load was {entry['load']:.1f} at the beginning."
    parts = [f"## {section.title}", section.text, measured]
    if "cannot" in entry:
        return "\n\n".join([*parts[:2], f"Not measured ({began[:10]}): {entry['cannot']}."])
    parts += section.body(entry["figures"])
    parts += (f"{peer} is left out: {why}." for peer, why in entry["missing"].items())
    if entry["aims"]:
        rows = [(*_aim(aim), "reached" if _reached(aim) else "**missed**") for aim in entry["aims"]]
        parts.append(_table(["aim", "measured", "asked", ""], rows))
    return "\n\n".join(parts)


# ---------------------------------------------------------------- text
def _table(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    lines = [_row(titles), "|" + "---|" * len(titles)]
    return "\n".join([*lines, *map(_row, rows)])


def _row(cells: Iterable[str]) -> str:
    return "|" + "".join(f" {cell.replace('|', chr(92) + '|')} |" for cell in cells)


def _number(value: float) -> str:
    """Return a figure with three significant digits, or as an integer."""
    size = abs(value)
    digits = 0 if size >= 100 or value == int(value) else 1 if size >= 10 else 2 if size >= 0.1 else 3
    return f"{value:,.{digits}f}"


def _times(value: float) -> str:
    return f"{_number(value)}×"


def _inverse(value: float | None) -> str:
    """Return the inverse of a share, if less is better."""
    return _times(1 / value) if value else "–"


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _mib(size: float) -> str:
    return f"{size / MIB:,.0f}"


# ---------------------------------------------------------------- captures
def _captures(figures: Any) -> Iterator[str]:
    rows = []
    for name, task in figures.items():
        for reader in ("kproxy", "tshark"):
            if reader in task:
                row = task[reader]
                speeds = (row["wall_s"], row["cpu_s"], row["mb_s"], row["mb_s_core"])
                rows.append(
                    (f"{name}, {task['bytes'] / MB:,.0f} MB", reader, *map(_number, speeds), _mib(row["rss"]))
                )
    yield _table(["what", "by", "s", "processor s", "MB/s", "MB/s a core", "MiB"], rows)


def _captures_lines(figures: Any) -> Iterator[Line]:
    for name, task in figures.items():
        if "tshark" in task:
            speed, processor = _times(task["times_wall"]), _times(task["times_cpu"])
            yield Line("tshark", name, speed, processor, _inverse(task["memory"]))


# ---------------------------------------------------------------- decoding
def _decode(figures: Any) -> Iterator[str]:
    messages = figures["messages"]
    names = list(next(iter(messages.values()))["us"])
    rows = [
        (
            message,
            f"{row['bytes']:,}",
            *(f"{row['us'][name]:,.2f} ({_times(row['times_ours'][name])})" for name in names),
        )
        for message, row in messages.items()
    ]
    yield "Microseconds a message, and how many times kproxy's that is:"
    yield _table(["message", "bytes", *names], rows)
    yield "Records of one plain batch of 10,000 with 100 bytes each, million a second:"
    rates = [(name, _number(rate / 1e6)) for name, rate in figures["records_per_second"].items()]
    yield _table(["read as", "million records/s"], rates)


def _decode_lines(figures: Any) -> Iterator[Line]:
    for peer, ratio in figures["ratios"].items():
        by = "construct, as usually written" if peer == "construct" else peer
        yield Line(by, "decoding six messages (geometric mean)", _times(ratio))


# ---------------------------------------------------------------- forwarding
def _proxy(figures: Any) -> Iterator[str]:
    for name, load in figures.items():
        yield f"**{name}**: {load['about']}."
        per = "MB" if load["unit"] == "MB/s" else "request"
        titles = [
            "",
            load["unit"],
            "of direct",
            "p50 µs",
            "p99 µs",
            f"processor µs/{per}",
            "MiB",
            "without drops",
        ]
        rows = [(peer, *_proxy_row(found)) for peer, found in load["peers"].items()]
        rows += [(peer, f"failed: {why}", *[""] * 6) for peer, why in load["failed"].items()]
        yield _table(titles, rows)


def _proxy_row(found: Any) -> Iterator[str]:
    yield _number(found["throughput"])
    yield _number(found["of_direct"]) if "of_direct" in found else ""
    yield from (_number(found[what]) for what in ("p50", "p99", "cpu_us"))
    yield _mib(found["memory"])
    if "sustained" in found:
        yield f"up to {_number(found['sustained'])}"
    else:
        yield f"{_number(found['dropped'])} dropped" if "dropped" in found else ""


def _proxy_lines(figures: Any) -> Iterator[Line]:
    for peer in _FORWARDING:
        for name, job in _LATENCY.items():
            yield from _added(figures.get(name), peer, job)
        for name, job in _THROUGHPUT.items():
            yield from _forwarded(figures.get(name), peer, job)
    for name, job in _THROUGHPUT.items():
        yield from _forwarded(figures.get(name), _DIRECT, job)
    for name, job in _THROUGHPUT.items():
        yield from _recorded(figures.get(name), job)


def _forwarded(load: Any, peer: str, job: str) -> Iterator[Line]:
    if load is None:
        return
    job = f"forwarding, {job}"
    by = "no proxy" if peer == _DIRECT else peer
    if peer in load["failed"]:
        yield Line(by, job, f"failed: {load['failed'][peer]}")
    elif "kproxy" in load["peers"].get(peer, {}):
        ours = load["peers"][peer]["kproxy"]
        shares = ("", "") if peer == _DIRECT else (_inverse(ours.get("cpu_us")), _inverse(ours.get("memory")))
        yield Line(by, job, _times(ours["throughput"]), *shares)


def _added(load: Any, peer: str, job: str) -> Iterator[Line]:
    """Return the ratio of added latencies; none if noise exceeds the latency that a proxy adds."""
    if load is None:
        return
    job = f"added latency, {job} (p50, p99)"
    if peer in load["failed"]:
        yield Line(peer, job, f"failed: {load['failed'][peer]}")
        return
    ours, theirs = (load["peers"].get(name, {}).get("added") for name in (_OURS, peer))
    if not ours or not theirs:
        return
    cells = []
    for part in ("p50", "p99"):
        both = f"{_number(ours[part])} µs beside {_number(theirs[part])}"
        cells.append(
            f"{_times(theirs[part] / ours[part])} ({both})" if min(ours[part], theirs[part]) > 0 else both
        )
    share = load["peers"][peer]["kproxy"]
    yield Line(peer, job, ", ".join(cells), _inverse(share.get("cpu_us")), _inverse(share.get("memory")))


def _recorded(load: Any, job: str) -> Iterator[Line]:
    ours, theirs = (
        (load or {"peers": {}})["peers"].get(name, {}).get("sustained") for name in (_RECORDING, _TCPDUMP)
    )
    if ours is not None and theirs is not None:
        ratio = _times(ours / theirs) if theirs else f"{_number(ours)} {load['unit']} beside none"
        yield Line(_TCPDUMP, f"recording without drops, {job}", ratio)


# ---------------------------------------------------------------- analyses, questions, filters, columns
def _commands(figures: Any, size: float) -> str:
    """Return a table of commands that read a whole capture."""
    rows = [
        (
            name,
            _number(row["wall_s"]),
            _number(row["cpu_s"]),
            _number(size / row["wall_s"] / MB),
            _mib(row["rss"]),
            _times(row["times_table"]),
        )
        for name, row in figures.items()
    ]
    return _table(["", "s", "processor s", "MB/s", "MiB", "of the table"], rows)


def _analyses(figures: Any) -> Iterator[str]:
    for name, capture in figures["captures"].items():
        yield f"A capture of {name}, {capture['bytes'] / MB:,.0f} MB:"
        rows = [
            (
                _command(command),
                _number(row["wall_s"]),
                _number(row["cpu_s"]),
                _mib(row["rss"]),
                _times(row["times_cpu"]) if "times_cpu" in row and command != "tshark" else "",
            )
            for command, row in capture["commands"].items()
        ]
        yield _table(["", "s", "processor s", "MiB", "times tshark"], rows)
    if told := figures["story"]:
        yield (
            f"A heartbeat is added to the story of a group in {_number(told['add_us'])} µs; after a million of them "
            f"the timelines take {_number(told['result_s'] * 1000)} ms."
        )


def _command(name: str) -> str:
    return name if name in ("table", "tshark") else f"`kproxy {name}`"


def _analyses_lines(figures: Any) -> Iterator[Line]:
    for name, capture in figures["captures"].items():
        for command, row in capture["commands"].items():
            if command not in ("table", "tshark") and "times_cpu" in row:
                job = f"{_command(command)}, {name}"
                speed, processor = _times(row["times_wall"]), _times(row["times_cpu"])
                yield Line("tshark", job, speed, processor, _inverse(row["memory"]))


def _questions(figures: Any) -> Iterator[str]:
    yield _commands(figures["questions"], figures["bytes"])


def _filters(figures: Any) -> Iterator[str]:
    rows = [
        (f"`{row['filter']}`", _number(row["first_ms"]), _number(row["again_ms"]), f"{row['rows']:,}")
        for row in figures["filters"]
    ]
    yield _table(["filter", "ms, new columns", "ms, used ones", "rows that fit"], rows)


def _columns(figures: Any) -> Iterator[str]:
    rows = [
        (
            row["what"],
            _number(row["full_us"]),
            *(f"{_number(row[f'{way}_us'])} ({_times(row[f'times_{way}'])})" for way in ("first", "whole")),
        )
        for row in figures["messages"]
    ]
    yield "Single messages, microseconds, and how many times as fast as everything:"
    yield _table(["what of which message", "everything", "only these fields", "and the end checked"], rows)
    for capture in figures["captures"]:
        yield f"A capture of {capture['exchanges']:,} exchanges, microseconds of the processor for each:"
        rows = [(name, _number(us)) for name, us in capture["us"].items()]
        yield _table(["columns", "µs"], rows)


# ---------------------------------------------------------------- terminal UI
def _tui(figures: Any) -> Iterator[str]:
    rows = []
    if opened := figures.get("open"):
        count = f"{opened['exchanges']:,} exchanges"
        rows.append(("the exchange table alone", f"{_number(opened['table_s'])} s, {count}"))
        rows.append(("first lines in the list", f"{_number(opened['first_s'])} s"))
        rows.append(("all of them in the list", f"{_number(opened['all_s'])} s"))
    if memory := figures.get("memory"):
        rows.append(("memory", f"{_mib(memory['ui'])} MiB, of the table alone {_mib(memory['table'])} MiB"))
    if followed := figures.get("follow"):
        rows.append(("new in the list while it is followed", f"{_number(followed['rate'])} a second"))
    if peer := figures.get("peer"):
        rows.append((f"Textual's DataTable, {peer['rows']:,} rows", f"{_number(peer['seconds'])} s"))
    if rows:
        yield _table(["", ""], rows)
    times = figures.get("scroll", {}) | figures.get("follow", {}).get("times", {})
    if times:
        kinds = ("median_ms", "p95_ms", "p99_ms", "most_ms")
        yield _table(
            ["ms", "median", "95%", "99%", "most"],
            [(name, *(_number(each[kind]) for kind in kinds)) for name, each in times.items()],
        )


def _tui_lines(figures: Any) -> Iterator[Line]:
    if "open" in figures and "peer" in figures:
        ours = figures["open"]["exchanges"] / figures["open"]["all_s"]
        yield Line("Textual's DataTable", "rows loaded a second", _times(ours / figures["peer"]["rows_s"]))


# ---------------------------------------------------------------- Spark
def _spark(figures: Any) -> Iterator[str]:
    size = figures["bytes"]
    rows = [
        (
            row["what"],
            row["how"],
            _number(row["seconds"]),
            _number(size / row["seconds"] / MB),
            *(_number(row[name]) if name in row else "" for name in ("first", "start")),
            _mib(row["memory"]) if "memory" in row else "",
            f"{row['shuffled'] / size:.2%}" if "shuffled" in row else "",
        )
        for row in figures["runs"]
    ]
    yield f"A capture of {size / MB:,.0f} MB."
    yield _table(["what", "by", "s", "MB/s", "first run s", "start s", "MiB", "shuffled"], rows)
    yield "What ten terabytes would take is calculated in [spark.md](spark.md#ten-terabytes)."


def _spark_lines(figures: Any) -> Iterator[Line]:
    others = {
        "naive local[2]": ("a shuffle of all packets, on Spark", "exchanges of a capture, two workers"),
        "tshark": ("tshark", "exchanges of a capture, Spark with two workers"),
    }
    for found in figures["ratios"]:
        if found["beside"] in others:
            yield Line(*others[found["beside"]], _times(found["times"]))


SECTIONS = {
    "analyses": Section(
        "Commands",
        "Commands that read a whole capture, as they are typed, beside `tshark -T fields` with key, version and "
        "correlation ID, on made captures and a recorded one. Each runs on one core in a process of its own, start-up"
        " included, and its output is thrown away. `times tshark` is how many times less processor time a command "
        "takes than tshark on the same file. `table` is the exchange table alone, which every command makes first.",
        _analyses,
        _analyses_lines,
    ),
    "captures": Section(
        "Reading captures",
        "From a file to the exchange table, beside `tshark -T fields` with key, version and correlation ID; of steady "
        "produce and fetch traffic, and of very small messages. Then every message as JSON, `kproxy read --json` "
        "beside `tshark -T json`. Each in a process of its own, start-up included; memory is the largest resident one.",
        _captures,
        _captures_lines,
    ),
    "decode": Section(
        "Decoding messages",
        "Six messages, from a heartbeat to the metadata of a busy cluster, from bytes to values. kio's reader is "
        "written in Rust; kafka-python's message classes and kproxy's decoder are generated Python; construct is a "
        "declaration in its own building blocks, interpreted. `traced` is kproxy's other reading, in which every field "
        "knows its bytes.",
        _decode,
        _decode_lines,
    ),
    "proxy": Section(
        "Forwarding",
        "What it costs to have a proxy in between, with real Kafka messages: kproxy without capture, with everything "
        "recorded (`-w`), and with every exchange decoded to JSON, beside others on the same loopback interface. "
        "HAProxy, socat and mitmproxy forward bytes and know nothing of Kafka; Kroxylicious reads it as kproxy does. "
        "Clients and server are C programs, or a real broker. Processor time is what the proxy's processes took, "
        "memory what they had with all connections open. `without drops` is the rate up to which a recording lost "
        "nothing; tcpdump has as large a buffer as kproxy. In the opening table kproxy runs without capture, but for "
        "the lines about recording.",
        _proxy,
        _proxy_lines,
    ),
    "questions": Section(
        "Questions",
        "The commands that follow clients and records, on a capture in which every offset is produced once and fetched "
        "once, beside the exchange table alone.",
        _questions,
    ),
    "filters": Section(
        "Filters",
        "Filters on a million exchanges, as when one types in the terminal UI: with columns that have not been used "
        "before, and again with the same ones. Columns of what messages say are filled before.",
        _filters,
    ),
    "columns": Section(
        "Chosen fields",
        "Reading some fields of a message instead of all, beside kproxy's own full decoder.",
        _columns,
    ),
    "tui": Section(
        "The terminal UI",
        "The whole application, headless at 200x50 with a million exchanges; what a terminal would be sent is made "
        "and thrown away. Times are those of an update: what a key does, and the painting that follows. `DataTable` is "
        "Textual's own table with the same texts, of which only some thousand rows are loaded.",
        _tui,
        _tui_lines,
    ),
    "spark": Section(
        "Tables on Spark",
        "The default tables (all but records) and the table of exchanges without bodies, by one process, and by Spark "
        "in local mode with one and two workers; the second run in a session counts. `naive` sends every packet with "
        "its payload to the task of its connection, the simplest way to write it. `MiB` is the largest worker, "
        "`shuffled` the share of the capture that went from one task to another. Aims are those for 2 GB: of a "
        "capture as small as this one, Spark spends most of the time with its jobs; "
        "[spark.md](spark.md) has larger ones.",
        _spark,
        _spark_lines,
    ),
}
