"""In no command's output can foreign text control a terminal or forge a line, and no output reveals a secret."""

from __future__ import annotations

import json
import re
from datetime import UTC
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture
from dissectors import apis
from dissectors.printable import is_printable
from kproxy.cli import main
from kproxy.cli.live_findings import LiveDiagnosis
from kproxy.copy_as.formats import FORMATS, Context
from kproxy.copy_as.request import CannotCopyError
from kproxy.output import echo_lines, notice
from kproxy.text.control import _SENTENCES, sentence_of
from kproxy.text.tree import problem_lines, traced_exchange
from kproxy.tui.detail.field_formats import field_formats
from kproxy.tui.detail.make import detail_of
from kproxy.tui.detail.nodes import FieldNode
from tests.planted import FORGED, HOSTILE, SECRET, readings_of, request_log, written

OURS = re.compile(r"\x1b\[(?:0|1|2|3[1-6]|90)m")
READINGS = readings_of()


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(tmp_path_factory.mktemp("planted"))


@pytest.fixture(scope="module")
def exchanges(capture: Path) -> list[Exchange]:
    opened = open_capture([str(capture)])
    opened.read()
    return list(ExchangeReader(opened))


def run(*arguments: str | Path) -> Result:
    result = CliRunner().invoke(main, [str(each) for each in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def assert_tells_no_secret(text: str) -> None:
    for reading in READINGS:
        at = text.find(reading)
        assert at < 0, f"a secret: {text[max(at - 300, 0) : at + 60]!r}"


def assert_fit_for_a_terminal(text: str, *, colored: bool = False) -> None:
    for line in text.split("\n"):
        plain = OURS.sub("", line) if colored else line
        assert is_printable(plain), f"not printable: {plain!r}"
        assert not plain.startswith(FORGED), "a forged line"
    assert_tells_no_secret(text)


def test_notices_of_a_diagnosis_beside_live_traffic(
    capture: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The notices of ``sniff --diagnose``, ``proxy --diagnose`` and ``attach --diagnose`` on standard error."""
    opened = open_capture([str(capture)])
    reader = ExchangeReader(opened)
    diagnosis = LiveDiagnosis(reader, UTC, annotated=True)
    opened.read()
    for exchange in reader:
        diagnosis.look(exchange)
    diagnosis.update()
    diagnosis.conclude()
    told = capsys.readouterr().err
    assert told.count("\n") > 5
    assert_fit_for_a_terminal(told.replace("kproxy: ", ""))


@pytest.mark.parametrize("kind", sorted(_SENTENCES))
def test_notices_of_what_a_proxy_tells(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``attach`` and ``proxy`` report brokers, clients and APIs, whose names strangers choose."""
    texts = dict.fromkeys(
        ("role", "before", "address", "at", "client", "api", "text", "why", "dialled"), HOSTILE
    )
    numbers = dict.fromkeys(
        ("node_id", "bytes", "total", "connections", "lost_packets", "lost_bytes", "count", "on"), 1
    )
    sentence = sentence_of({"event": kind, **texts, **numbers})
    assert sentence
    notice(sentence)
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert_fit_for_a_terminal(told)


LINES = [
    "read",
    "read --color always",
    "read -V",
    "read -V --color always",
    "read -V --payload preview",
    "stats --all",
    "stats --all --color always",
    "groups --all",
    "groups --all --color always",
    "groups --mermaid",
    "lag --all",
    "journey --all --key x",
    "records",
    "records -V",
    "records --format text --key-format text",
    "clients --all",
    "clients --all --settings --color always",
    "follow --all --connection 1",
    "follow --mermaid --connection 1",
    "api-versions --all --color always",
    "compat --all --broker-version 4.3",
    "diagnose --all --color always",
    "diagnose --all --markdown",
    "incidents --all --color always",
    "export --format mermaid -o -",
    "export --format csv --columns all -o -",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", LINES)
def test_lines(command: str, capture: Path) -> None:
    name, *options = command.split()
    result = run(name, *options, capture)
    assert result.stdout
    text = result.stdout.replace("\r\n", "\n") if "csv" in command else result.stdout
    assert_fit_for_a_terminal(text, colored="always" in command)
    assert_fit_for_a_terminal(result.stderr)


@pytest.mark.slow
def test_the_client_of_a_hostile_name_is_followed(capture: Path) -> None:
    assert_fit_for_a_terminal(run("follow", HOSTILE, capture).output)
    assert_fit_for_a_terminal(run("follow", "nobody", capture).output)
    assert_fit_for_a_terminal(run("diff", "--all", capture, capture).output)


JSON = [
    "read --json",
    "read --json --text",
    "stats --json",
    "groups --json",
    "lag --json",
    "records --json",
    "clients --json --settings",
    "follow --json --connection 1",
    "api-versions --json",
    "compat --json --broker-version 4.3",
    "diagnose --json",
    "incidents --json --all",
    "export --format json -o -",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", JSON)
def test_json(command: str, capture: Path) -> None:
    name, *options = command.split()
    result = run(name, *options, capture)
    for line in result.stdout.splitlines() if name != "read" else result.stdout.split("\n")[:-1]:
        json.loads(line)
    assert "\x1b" not in result.stdout
    assert_tells_no_secret(result.stdout)
    assert_fit_for_a_terminal(result.stderr)


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", ["read -V", "read --json", "stats --all", "clients --all", "diagnose --all"]
)
def test_request_logs(command: str, tmp_path: Path) -> None:
    """This includes the message about an unreadable entry."""
    log = tmp_path / "kafka-request.log"
    log.write_bytes(request_log())
    name, *options = command.split()
    result = run(name, *options, log)
    assert len(list(ExchangeReader(open_read(log)))) == len(apis.NAMES)
    assert "could not be read" in result.stderr
    assert_fit_for_a_terminal(result.stderr)
    if "json" in command:
        assert "\x1b" not in result.stdout
        assert_tells_no_secret(result.stdout)
    else:
        assert_fit_for_a_terminal(result.stdout)


def open_read(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


@pytest.mark.slow
def test_bytes_of_every_exchange(exchanges: list[Exchange], capsys: pytest.CaptureFixture[str]) -> None:
    """The output of ``read --exchange N``."""
    assert len(exchanges) > 500
    for exchange in exchanges:
        echo_lines(traced_exchange(exchange))
        echo_lines(problem_lines(exchange))
    assert_fit_for_a_terminal(capsys.readouterr().out)


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", [1, 2, -1])
def test_one_exchange(number: int, capture: Path, exchanges: list[Exchange]) -> None:
    wanted = number if number > 0 else len(exchanges)
    assert_fit_for_a_terminal(run("read", "--exchange", str(wanted), capture).output)


@pytest.mark.slow
def test_secrets_are_there_if_they_are_asked_for(capture: Path) -> None:
    shown = run("read", "-V", "--show-secrets", capture).stdout
    assert SECRET in shown
    assert is_printable(shown.replace("\n", ""))
    assert SECRET in run("read", "--json", "--text", "--show-secrets", capture).stdout


@pytest.mark.slow
def test_copies(exchanges: list[Exchange], capture: Path) -> None:
    opened = open_capture([str(capture)])
    opened.read()
    context = Context(opened)
    for form in FORMATS:
        # a Wireshark filter consists of packet numbers only, which are searched for in the whole file
        for copied in [exchanges] if form.name == "wireshark" else [[exchange] for exchange in exchanges]:
            try:
                text = form.text(copied, context)
            except CannotCopyError as error:
                text = str(error)
            assert_tells_no_secret(text)
            assert "\x1b" not in text


@pytest.mark.slow
def test_details_of_the_ui(exchanges: list[Exchange]) -> None:
    """Each field and value is copied once per API: most exchanges differ only in where they are cut."""
    secret = SECRET.encode()
    copied = set()
    for exchange in exchanges:
        detail = detail_of(exchange)
        for side in (detail.request, detail.response):
            assert not any(secret in buffer.data for buffer in side.buffers), exchange
            for node in side.root.walk() if side.root is not None else ():
                assert_tells_no_secret(f"{node.text(10_000)} {node.note} {node.change} {node.value!r}")
                what = (
                    exchange.api_key,
                    exchange.version,
                    node.path,
                    repr(node.value),
                    node.masked,
                    node.leaf,
                )
                if what not in copied:
                    copied.add(what)
                    assert_copies_nothing_hostile(node, exchange)


def assert_copies_nothing_hostile(node: FieldNode, exchange: Exchange) -> None:
    for form in field_formats(node):
        try:
            text = form.text([exchange], Context(None))  # type: ignore[arg-type]
        except CannotCopyError:
            continue
        assert_tells_no_secret(text)
        assert all(is_printable(line) for line in text.split("\n")), text


@pytest.mark.slow
def test_files(capture: Path, tmp_path: Path) -> None:
    page = tmp_path / "groups.html"
    run("groups", "--html", page, capture)
    assert_fit_for_a_terminal(page.read_text())
    scrubbed = tmp_path / "scrubbed.pcapng"
    run("export", "--scrub", capture, "-o", scrubbed)
    assert SECRET.encode() not in scrubbed.read_bytes()
    table = tmp_path / "exchanges.parquet"
    run("export", capture, "-o", table)
    assert_tells_no_secret(json.dumps(pq.read_table(table).to_pylist(), default=str))


@pytest.mark.slow
def test_tables_and_their_report(capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tables"
    assert_fit_for_a_terminal(run("tables", "--engine", "single", "-o", folder, capture).output)
    files = list(folder.rglob("*.parquet"))
    assert files
    for path in files:
        assert_tells_no_secret(repr(pq.read_table(path).to_pylist()))
    page = tmp_path / "report.html"
    run("report", folder, "-o", page)
    assert_fit_for_a_terminal(page.read_text())
