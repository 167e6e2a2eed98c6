"""The page: its content and completeness, and that nothing from the wire becomes markup."""

from __future__ import annotations

import re
from base64 import b64encode
from datetime import UTC
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from captures.export.report import ReportError, report
from captures.export.report.statements import MOST_FINDINGS
from tests.captures.export.report import samples
from tests.captures.export.report.kit import exchange, failed, write

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "\"><script>alert(1)</script><img src=x onerror=alert(2)>\x1b[31m\u202e&amp;'"
VOID = {"meta", "br"}


class Tags(HTMLParser):
    """Checks that every element is closed, and collects the elements."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not {"script", "style"} & set(self.open):
            self.text.append(data)


def parsed(text: str) -> Tags:
    found = Tags()
    found.feed(text)
    assert found.open == []
    return found


def made(folder: Path, **options: Any) -> str:
    return report(folder, zone=UTC, **options)


def headings(text: str) -> list[str]:
    return re.findall(r"<h2[^>]*>([^<]*)</h2>", text)


def pictures(text: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]


def picture(text: str, about: str) -> ElementTree.Element:
    (found,) = [each for each in pictures(text) if each.attrib["aria-label"].startswith(about)]
    return found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    return made(samples.whole(tmp_path_factory.mktemp("tables")))


@pytest.mark.slow
def test_every_section_is_there(page: str) -> None:
    assert headings(page) == [
        *("Summary", "Findings", "Traffic", "Latency", "Errors", "Rebalances", "Top talkers"),
        *("Topics and partitions", "Versions", "Connections", "TCP health", "Going on"),
    ]
    assert "Left out" not in page
    links = re.findall(r"<nav>.*?</nav>", page, re.DOTALL)[0]
    places = {attributes["id"] for _, attributes in parsed(page).seen if "id" in attributes}
    assert {each.removeprefix("#") for each in re.findall(r'href="([^"]*)"', links)} <= places


@pytest.mark.slow
def test_the_page_stands_alone(page: str) -> None:
    found = parsed(page)
    assert not {name for name, _ in found.seen} & {"link", "img", "iframe", "object"}
    for _, attributes in found.seen:
        assert (attributes.get("href") or "#").startswith("#")
        assert "src" not in attributes
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in page
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    (policy,) = [
        each["content"] for _, each in found.seen if each.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


@pytest.mark.slow
def test_figures_are_told(page: str) -> None:
    text = " ".join(parsed(page).text)
    for said in (
        "2026-09-21 14:13:20.333 to 2026-09-21 14:15:00.000 UTC, 99.7 s",
        "461, 4.63 a second, of 5 APIs",
        "3 client IDs and 1 broker, on 2 connections",
        "9 exchanges with an error (2%)",
        "1 without an answer, 500 B not captured",
        "A rebalance of reports does not end.",
        "session_timeout in billing.",
        "Kafka 4 does not know this version",
    ):
        assert said in text, said


def test_the_gravest_finding_comes_first(page: str) -> None:
    found = re.findall(r'<article class="finding (\w+)">', page)
    assert found == ["high", "medium", "low", "info"]


def test_below_each_picture_is_the_sql(page: str) -> None:
    figures = re.findall(r"<figure>.*?</figure>", page, re.DOTALL)
    assert len(figures) == 24
    for figure in figures:
        assert re.search(
            r'<details class="sql">.*<pre><code>(SELECT|WITH) .*</code></pre></details>', figure, re.DOTALL
        )
        assert '<button type="button" class="copy" hidden="">' in figure


def test_stacks_are_as_high_as_their_amounts(page: str) -> None:
    drawn = picture(page, "Exchanges with errors over time")
    (leader,) = [each for each in drawn.iter("path") if each.get("class") == "c0"]
    boxes = re.findall(r"M([\d.]+) ([\d.]+)H([\d.]+)V([\d.]+)H", leader.attrib["d"])
    assert len(boxes) == 8  # one per second, from 61 to 68 s
    left, width, begin, end = 150, 960, 0, 101  # from the first connection on, in slices of 1 s
    for second, (x, top, right, bottom) in zip(range(61, 69), boxes, strict=True):
        assert float(x) == pytest.approx(left + width * (second - begin) / (end - begin), abs=0.2)
        assert float(right) == pytest.approx(left + width * (second + 1 - begin) / (end - begin), abs=0.2)
        assert (float(top), float(bottom)) == (10, 190)  # the scale goes to 1
    titles = [each.text or "" for each in drawn.iter("title")]
    assert "14:14:21.000\nNOT_LEADER_OR_FOLLOWER: 1" in titles


def test_connections_that_began_before_the_first_exchange_are_drawn(tmp_path: Path) -> None:
    exchanges = [exchange(1, 50), exchange(2, 60)]
    text = made(write(tmp_path, exchanges=exchanges, connections=samples.connections()))
    drawn = picture(text, "Connections that began")
    boxes = {each.get("class"): each.attrib["d"].count("M") for each in drawn.iter("path")}
    assert boxes == {"rest": 1, "c0": 1, "c1": 1}  # open, closed by client, reset by broker


def test_rebalances_are_where_their_time_is(page: str) -> None:
    drawn = picture(page, "Rebalances over time")
    labels = [each.text for each in drawn.iter("text") if each.get("class") == "label"]
    assert labels == ["billing", "reports"]
    bars = {each.get("class"): each for each in drawn.iter("rect")}
    assert set(bars) == {"c0", "c4", "c1", "rest running"}
    timeout = bars["c1"]
    assert float(timeout.attrib["width"]) == pytest.approx(960 * 12 / 101, abs=0.2)
    running = bars["rest running"]
    assert float(running.attrib["x"]) + float(running.attrib["width"]) == pytest.approx(150 + 960, abs=0.2)


def test_versions_in_use_are_marked_among_those_offered(page: str) -> None:
    drawn = picture(page, "API versions")
    titles = [each.text or "" for each in drawn.iter("title")]
    assert "Fetch v11: 150 exchanges, 1 client" in titles
    assert sum(title.startswith("Fetch v") and title.endswith("offered") for title in titles) == 14  # 4 to 17


def test_versions_that_are_not_drawn_are_counted(tmp_path: Path) -> None:
    one = samples.versions()[0]
    odd = [one | {"version": version} for version in (-1, 26, 30_000)]
    many = [one | {"api": f"Api#{n:03}"} for n in range(100)]
    text = made(write(tmp_path, client_versions=[*odd, *many]))
    assert "Not drawn: 6 APIs, 3 versions outside of 0 to 25." in text


@pytest.mark.slow
def test_what_comes_from_the_wire_is_text(tmp_path: Path) -> None:
    rows = samples.exchanges()
    for row in rows:
        row |= {
            "client_id": HOSTILE,
            "client": HOSTILE,
            "broker": HOSTILE,
            "broker_name": HOSTILE,
            "api": HOSTILE,
        }
    rows.append(failed(462, 3, HOSTILE))
    hostile = {"client_id": HOSTILE, "group": HOSTILE, "trigger": HOSTILE, "sentence": HOSTILE}
    versions = {
        "client": HOSTILE,
        "library": HOSTILE,
        "release": HOSTILE,
        "api": HOSTILE,
        "warnings": [HOSTILE],
    }
    finding = dict.fromkeys(
        ("rule", "subject", "sentence", "advice", "filter", "severity", "certainty"), HOSTILE
    )
    folder = write(
        tmp_path / "<b>&",
        exchanges=rows,
        topic_partitions=[row | {"topic": HOSTILE} for row in samples.partitions()],
        rebalances=[row | hostile for row in samples.rebalances()],
        client_versions=[row | versions for row in samples.versions()],
        findings=[row | finding for row in samples.findings()],
        connections=[row | {"ended": HOSTILE} for row in samples.connections()],
        tcp_health=[
            row | {"sender": HOSTILE, "receiver": HOSTILE, "retransmitted": 1} for row in samples.tcp_health()
        ],
    )
    text = made(folder, title=HOSTILE)
    found = parsed(text)
    assert sum(name == "script" for name, _ in found.seen) == 1
    assert not {name for name, _ in found.seen} & {"img", "b"}
    assert not any(name.startswith("on") for _, attributes in found.seen for name in attributes)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(pictures(text)) == 8


def test_sections_without_their_tables_are_left_out(tmp_path: Path) -> None:
    text = made(write(tmp_path, findings=samples.findings(), tcp_health=samples.tcp_health()))
    assert headings(text) == ["Summary", "Findings", "TCP health", "Going on"]
    left = re.findall(r"<li>([^<]*: there is no [^<]*)</li>", text)
    assert "Traffic: there is no exchanges" in left
    assert "Rebalances: there is no rebalances" in left
    assert len(left) == 8


def test_sections_without_their_columns_are_left_out(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = write(tmp_path, exchanges=samples.exchanges())
    for path in folder.rglob("*.parquet"):
        pq.write_table(pq.read_table(path, partitioning=None).drop_columns(["api", "errors", "flags"]), path)
    text = made(folder)
    assert "Errors: there is no exchanges.api, exchanges.errors" in text
    assert "Latency: there is no exchanges.api" in text
    assert headings(text) == ["Summary", "Top talkers", "Going on"]


@pytest.mark.slow
def test_runs_may_have_different_columns(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    folder = write(tmp_path, exchanges=[failed(1, 1, "A")])
    (path,) = folder.rglob("*.parquet")
    without = pq.read_table(path, partitioning=None).drop_columns(["errors"])
    pq.write_table(without, path.with_name("part-00001-00000.parquet"))
    text = made(folder)
    assert "2, " in " ".join(parsed(text).text)
    assert "union_by_name" in text


@pytest.mark.slow
def test_empty_tables_are_said_to_be_empty(tmp_path: Path) -> None:
    names = (
        "exchanges",
        "topic_partitions",
        "rebalances",
        "client_versions",
        "findings",
        "connections",
        "tcp_health",
    )
    empty: dict[str, list[Any]] = {name: [] for name in names}
    text = made(write(tmp_path, **empty))
    said = " ".join(parsed(text).text)
    for each in (
        *("The table of exchanges is empty.", "Nothing was found wrong.", "There are no exchanges."),
        *(
            "No group rebalanced.",
            "No version in use was seen.",
            "No connection was seen.",
            "There are none.",
        ),
    ):
        assert each in said, each
    assert pictures(text) == []


def test_one_exchange_is_enough(tmp_path: Path) -> None:
    text = made(write(tmp_path, exchanges=[exchange(1, 0)]))
    assert len(pictures(text)) == 4
    assert "1, 1 a second" not in text  # no rate of a single moment


def test_many_findings_are_counted(tmp_path: Path) -> None:
    (one, *_) = samples.findings()
    rows = [one | {"subject": f"group {n}"} for n in range(MOST_FINDINGS + 5)]
    text = made(write(tmp_path, findings=rows))
    assert "5 more are not shown." in text


def test_several_runs_are_told_apart(tmp_path: Path) -> None:
    rows = [{**row, "run": 1} for row in samples.findings()]
    text = made(write(tmp_path, findings=rows))
    assert "run 1: #459 #460" in text


def test_folders_with_odd_names_are_read(tmp_path: Path) -> None:
    folder = write(tmp_path / "a'b [c] *", exchanges=[exchange(n, n) for n in range(1, 10)])
    text = made(folder)
    assert "<title>Kafka traffic in a&#39;b [c] *</title>" in text


def test_a_folder_without_tables_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with pytest.raises(ReportError, match=r"no tables in .*'kproxy tables CAPTURE\.\.\. -o"):
        made(tmp_path)


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    folder = write(tmp_path, exchanges=[exchange(1, 0)])
    (path,) = folder.rglob("*.parquet")
    path.write_bytes(b"PAR1 this is none")
    with pytest.raises(ReportError, match=r"the table exchanges in .* cannot be read"):
        made(folder)


@pytest.mark.slow
def test_long_times_have_few_slices_and_rates_that_can_be_read(tmp_path: Path) -> None:
    text = made(write(tmp_path, exchanges=[exchange(n, n * 86_400) for n in range(100)]))
    drawn = picture(text, "Exchanges a day by API")
    assert "In slices of 24 h." in text
    named = [(each.get("class"), each.text) for each in drawn.iter("text")]
    # the last day was captured from midnight to 14:13 only
    assert [text for name, text in named if name == "scale"] == ["0/d", "0.5/d", "1/d", "1.5/d", "2/d"]
    assert [text for name, text in named if name == "time"][:2] == ["2026-09-21", "2026-09-29"]
