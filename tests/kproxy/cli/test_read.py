"""``kproxy read`` as its users run it."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner, Result

from captures.exchanges import Exchange, ExchangeReader, parallel
from kproxy.cli import main
from tests.captures.export.files import needs_tshark, tshark
from tests.captures.packets.kit import rotated

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
EXCHANGES = 402  # INDEX.tsv of the recordings: framed_requests of 21_k430_java_eager_range.pcap


def run(*arguments: str, stdin: bytes | None = None) -> Result:
    return CliRunner().invoke(main, [*arguments], input=stdin, catch_exceptions=False)


def objects(result: Result) -> list[dict]:
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.fixture(scope="module")
def exchanges() -> list[dict]:
    return objects(run("read", "--json", str(SAMPLE)))


def test_one_line_per_exchange() -> None:
    result = run("read", "--utc", str(SAMPLE))
    header, *lines = result.stdout.splitlines()
    assert "request" in header
    assert "(times in UTC)" in header
    assert len(lines) == EXCHANGES
    assert lines[0].split()[:2] == ["1", "09:50:58.908"]
    # a Java member's first JoinGroup is answered with an ID to rejoin with: routine, and shown as such
    assert "JoinGroup v9" in lines[17]
    assert "MEMBER_ID_REQUIRED" in lines[17]
    assert "(expected)" in lines[17]


def test_the_closing_line_counts_and_goes_to_stderr_in_a_pipe() -> None:
    result = run("read", str(SAMPLE))
    closing = result.stderr.splitlines()[-1]
    assert closing.startswith("402 exchanges of 6 clients in 36.7 s:")
    assert "1 unanswered" in closing
    assert "0 bytes lost" in closing


def test_a_capture_that_was_read_whole_exits_with_0() -> None:
    assert run("read", str(SAMPLE)).exit_code == 0


def test_what_is_not_kafka_is_named_and_exits_with_3(recorded_garbage: Path) -> None:
    result = run("read", str(recorded_garbage))
    assert result.exit_code == 3
    assert "is not Kafka: it looks like HTTP: GET / HTTP/1.1" in result.stderr
    assert result.stderr.splitlines()[-1] == "No Kafka exchanges."


def test_json_has_the_documented_keys(exchanges: list[dict]) -> None:
    table = (ROOT / "docs" / "json.md").read_text().split("Offsets count")[0]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    documented = {key for row in rows for key in row.split("`")[1::2]}
    assert len(exchanges) == EXCHANGES
    assert all(set(exchange) == documented - {"frame_numbers"} for exchange in exchanges)
    assert list(exchanges[0])[:3] == ["number", "time", "latency_ns"]


def test_json_values(exchanges: list[dict]) -> None:
    produce = exchanges[10]
    assert produce["number"] == 11
    assert produce["time"] == "2026-11-21T09:50:59.065303000Z"
    assert produce["latency_ns"] == 1_071_000
    assert (produce["api"], produce["api_key"], produce["version"]) == ("Produce", 0, 10)
    assert produce["decoded"]["request.acks"] == "ALL"
    (batch,) = produce["request"]["topic_data"][0]["partition_data"][0]["records"]
    assert batch["crc_valid"] is True
    assert batch["records"] == [
        {"offset": 0, "timestamp": 1795254659014, "key": "azA=", "value": "eyJuIjowfQ==", "headers": []}
    ]


def test_waiting_by_design_is_told_apart_from_slowness(exchanges: list[dict]) -> None:
    join = exchanges[18]
    assert join["api"] == "JoinGroup"
    assert "waited" in join["flags"]
    assert join["designed_wait_ns"] == join["latency_ns"] > 3_000_000_000


def test_expected_errors_are_marked(exchanges: list[dict]) -> None:
    first_join = exchanges[17]
    assert first_join["response"]["error_code"] == 79
    assert first_join["decoded"]["response.error_code"] == "MEMBER_ID_REQUIRED"
    assert first_join["flags"] == ["expected_error"]


def test_topic_ids_are_named_once_told(exchanges: list[dict]) -> None:
    fetch = exchanges[29]
    assert fetch["api"] == "Fetch"
    assert fetch["decoded"]["request.topics[0].topic_id"] == "r2-java_eager_range"


def test_text_shows_bytes_as_text() -> None:
    produce = objects(run("read", "--json", "--text", "-c", "11", str(SAMPLE)))[-1]
    (batch,) = produce["request"]["topic_data"][0]["partition_data"][0]["records"]
    assert batch["records"][0]["value"] == '{"n":0}'


def test_verbose_shows_every_field() -> None:
    lines = run("read", "-V", "-c", "11", str(SAMPLE)).stdout.splitlines()
    assert '    acks -1  "ALL"' in lines
    assert any(line.strip() == 'value "{"n":0}" (7 bytes)' for line in lines)


def test_one_exchange_with_byte_ranges_and_meaning() -> None:
    lines = run("read", "--exchange", "19", str(SAMPLE)).stdout.splitlines()
    assert "response: 201 bytes" in lines
    # offsets are relative to the first byte of the size field
    assert any(line.startswith(" 13- 14      error_code  int16 0   — ") for line in lines)


def test_one_exchange_says_what_to_do_about_an_error() -> None:
    output = run("read", "--exchange", "58", str(SAMPLE)).stdout
    assert '"REBALANCE_IN_PROGRESS"' in output
    assert "= A rebalance has begun, and this is how members learn of it: send JoinGroup now." in output


def test_one_exchange_shows_its_records() -> None:
    lines = run("read", "--exchange", "11", str(SAMPLE)).stdout.splitlines()
    assert any(line.startswith("119-120") and line.endswith('key "k0" (2 bytes)') for line in lines)


def test_an_exchange_that_is_not_there_is_a_usage_error() -> None:
    result = run("read", "--exchange", "9999", str(SAMPLE))
    assert result.exit_code == 2
    assert "there is no exchange 9999: the capture has 402" in result.stderr


def test_from_and_to_limit_the_time(exchanges: list[dict]) -> None:
    shown = objects(
        run("read", "--json", "--utc", "--from", "09:51:00", "--to", "2026-11-21T09:51:02Z", str(SAMPLE))
    )
    expected = [
        exchange
        for exchange in exchanges
        if "2026-11-21T09:51:00" <= exchange["time"] <= "2026-11-21T09:51:02.000000000Z"
    ]
    assert shown == expected != []


def test_count_stops() -> None:
    assert len(objects(run("read", "--json", "-c", "3", str(SAMPLE)))) == 3


def test_frame_numbers_are_those_of_wireshark(exchanges: list[dict]) -> None:
    numbered = objects(run("read", "--json", "--frame-numbers", "--jobs", "2", str(SAMPLE)))
    numbers = [exchange.pop("frame_numbers") for exchange in numbered]
    assert numbered == exchanges
    assert numbers[0] == {"request": [4], "response": [6]}  # tshark -d tcp.port==10101,kafka
    assert numbers[398] == {"request": [1491], "response": [1492]}
    assert "add --json" in run("read", "--frame-numbers", str(SAMPLE)).stderr
    assert "a file that is complete" in run("read", "--json", "--frame-numbers", "-F", str(SAMPLE)).stderr


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_compressed_captures_and_standard_input(pack, tmp_path: Path, exchanges: list[dict]) -> None:
    packed = pack(SAMPLE.read_bytes())
    file = tmp_path / "named.anyhow"
    file.write_bytes(packed)
    assert objects(run("read", "--json", str(file))) == exchanges


@pytest.mark.slow
def test_standard_input() -> None:
    command = [sys.executable, "-m", "kproxy", "read", "--json", "-"]
    with SAMPLE.open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, cwd=ROOT, check=False)
    assert len(done.stdout.splitlines()) == EXCHANGES


def test_what_is_shown_can_be_written(tmp_path: Path) -> None:
    out = tmp_path / "joins.pcapng"
    shown = run("read", str(SAMPLE), "-Y", "api == JoinGroup", "-c", "5", "-w", str(out))
    assert len(shown.stdout.splitlines()) == 6
    assert [exchange["api"] for exchange in objects(run("read", "--json", str(out)))] == ["JoinGroup"] * 5
    again = run("read", str(SAMPLE), "-w", str(out))
    assert again.exit_code == 2
    assert "exists; --force overwrites it" in again.stderr
    run("read", str(SAMPLE), "--exchange", "19", "--force", "-w", str(out))
    assert len(objects(run("read", "--json", str(out)))) == 1


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Return the sample as four rotated files whose names do not reveal their order."""
    folder = tmp_path / "ring"
    folder.mkdir()
    parts = rotated(SAMPLE.read_bytes(), 400)
    for name, part in zip((2, 3, 0, 1), parts, strict=True):
        (folder / f"kafka.pcap{name}").write_bytes(part)
    return sorted(str(path) for path in folder.iterdir())


@pytest.mark.slow
def test_rotated_files_are_one_capture(files: list[str], exchanges: list[dict]) -> None:
    folder = Path(files[0]).parent
    for given in (files, files[::-1], [str(folder)], [str(folder / "kafka.pcap?")]):
        assert objects(run("read", "--json", *given)) == exchanges
    result = run("read", str(folder))
    assert result.exit_code == 0
    closing = result.stderr.splitlines()[-1]
    assert closing.startswith("402 exchanges of 6 clients in 36.7 s, from 4 files: ")


def test_a_file_is_read_once(exchanges: list[dict]) -> None:
    assert objects(run("read", "--json", str(SAMPLE), str(SAMPLE))) == exchanges


@pytest.mark.slow
def test_standard_input_among_files(files: list[str], exchanges: list[dict]) -> None:
    command = [sys.executable, "-m", "kproxy", "read", "--json", *files[1:], "-"]
    with Path(files[0]).open("rb") as stdin:
        done = subprocess.run(command, stdin=stdin, capture_output=True, cwd=ROOT, check=False)
    assert [json.loads(line) for line in done.stdout.splitlines()] == exchanges


def test_a_file_that_cannot_be_read_beside_others(files: list[str], tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("remember the milk")
    result = run("read", *files, str(tmp_path / "absent.pcap"), str(tmp_path / "notes.txt"))
    assert result.exit_code == 3
    assert "absent.pcap: No such file or directory" in result.stderr
    assert "notes.txt: not a capture file" in result.stderr
    assert len(result.stdout.splitlines()) == EXCHANGES + 1


def test_what_is_no_capture_in_a_folder_is_passed_over(files: list[str]) -> None:
    folder = Path(files[0]).parent
    (folder / "notes.txt").write_text("remember the milk")
    result = run("read", str(folder))
    assert result.exit_code == 0
    assert f"skipped, as it is not a capture: {folder / 'notes.txt'}" in result.stderr


def test_damage_names_its_file(files: list[str]) -> None:
    last = Path(files[1])  # the fourth in time
    os.truncate(last, last.stat().st_size - 5)
    result = run("read", *files)
    assert result.exit_code == 3
    assert f"{last}: damaged at byte " in result.stderr


@pytest.mark.slow
@needs_tshark
def test_what_is_shown_of_several_files_can_be_written(files: list[str], tmp_path: Path) -> None:
    """The packets, bytes and times are the same as in the single file."""
    written = []
    for name, given in (("one", [str(SAMPLE)]), ("several", files)):
        written.append(tmp_path / f"{name}.pcapng")
        run("read", *given, "-Y", "api == JoinGroup", "-w", str(written[-1]))
    fields = ("frame.time_epoch", "frame.len", "tcp.stream", "tcp.seq_raw", "tcp.payload")
    wanted = [argument for field in fields for argument in ("-e", field)]
    one, several = (tshark(path, "-T", "fields", *wanted) for path in written)
    assert one == several
    assert len(one) > 32
    assert len(objects(run("read", "--json", str(written[1])))) == 16


def test_a_file_of_the_folder_is_not_overwritten(files: list[str]) -> None:
    result = run("read", str(Path(files[0]).parent), "-w", files[0], "--force")
    assert result.exit_code == 2
    assert "is one of the captures" in result.stderr


def test_a_file_that_is_no_capture(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("these are no packets at all")
    result = run("read", str(file))
    assert result.exit_code == 1
    assert result.stderr.startswith("kproxy: ")
    assert "notes.txt" in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_not_there() -> None:
    result = run("read", "missing.pcap")
    assert result.exit_code == 1
    assert "missing.pcap" in result.stderr


def test_a_time_that_is_none() -> None:
    result = run("read", "--from", "yesterday", str(SAMPLE))
    assert result.exit_code == 2
    assert "'yesterday' is not a time" in result.stderr


def test_secrets_are_masked_unless_asked_for(recorded_scram: Path) -> None:
    masked = objects(run("read", "--json", str(recorded_scram)))
    shown = objects(run("read", "--json", "--show-secrets", str(recorded_scram)))
    tokens = [exchange for exchange in masked if exchange["api"] == "SaslAuthenticate"]
    assert tokens
    for exchange in tokens:
        assert exchange["request"]["auth_bytes"] is None
        assert "request.auth_bytes" in exchange["masked"]
    revealed = [
        exchange["request"]["auth_bytes"] for exchange in shown if exchange["api"] == "SaslAuthenticate"
    ]
    assert all(revealed)


@pytest.mark.slow
def test_a_reader_that_has_seen_enough_is_no_error() -> None:
    command = f"{sys.executable} -m kproxy read {SAMPLE} | head -n 2"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, cwd=ROOT, check=False
    )
    assert len(done.stdout.splitlines()) == 2
    assert b"Traceback" not in done.stderr
    assert b"Broken pipe" not in done.stderr


@pytest.mark.slow
def test_nothing_is_coloured_in_a_pipe_or_with_no_color() -> None:
    environment = {**os.environ, "NO_COLOR": "1"}
    command = [sys.executable, "-m", "kproxy", "read", "-c", "20", str(SAMPLE)]
    done = subprocess.run(command, capture_output=True, cwd=ROOT, check=False, env=environment)
    assert b"\x1b" not in done.stdout


def test_a_filter_shows_what_fits(exchanges: list[dict]) -> None:
    shown = objects(run("read", "--json", "-Y", "api == heartbeat and error", str(SAMPLE)))
    expected = [
        exchange for exchange in exchanges if exchange["api"] == "Heartbeat" and "error" in exchange["flags"]
    ]
    assert shown == expected != []


def test_one_exchange_as_json() -> None:
    (shown,) = objects(run("read", "--json", "--frame-numbers", "--exchange", "17", str(SAMPLE)))
    assert shown == objects(run("read", "--json", "--frame-numbers", str(SAMPLE)))[16]


def test_a_filter_that_nothing_fits() -> None:
    result = run("read", "-Y", "api == Vote", str(SAMPLE))
    assert (result.exit_code, result.stderr) == (0, "None of 402 exchanges fits.\n")


@pytest.mark.parametrize(
    ("wanted", "meant"), [("cluster == west", ""), ("cluster in (west)", ": cluster in {west}")]
)
def test_a_filter_that_names_a_cluster_that_there_is_not(wanted: str, meant: str) -> None:
    result = run("read", "-Y", wanted, str(SAMPLE))
    assert result.exit_code == 0
    expected = f"None of 402 exchanges fits{meant}. There is no cluster west: no cluster has a name here.\n"
    assert result.stderr == expected


def test_a_filter_that_makes_no_sense_says_where() -> None:
    result = run("read", "-Y", "api == hartbeat", str(SAMPLE))
    assert result.exit_code == 2
    assert "there is no API hartbeat" in result.stderr
    assert "       ^^^^^^^^" in result.stderr
    assert "did you mean Heartbeat" in result.stderr


@pytest.mark.slow
def test_several_processes_write_what_one_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = []
    monkeypatch.setattr(parallel, "_SHARE", 1 << 14)
    for jobs in ("1", "2"):
        written = tmp_path / f"{jobs}.pcapng"
        result = run("read", "--json", "--jobs", jobs, "--from", "5s", "-w", str(written), str(SAMPLE))
        printed.append((result.exit_code, result.stdout, result.stderr, written.read_bytes()))
    assert len(printed[0][1].splitlines()) > 300
    assert printed[0] == printed[1]


def test_exchanges_that_choose_the_widths_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = []
    exchange = ExchangeReader.exchange

    def counted(reader: ExchangeReader, index: int) -> Exchange:
        decoded.append(index)
        return exchange(reader, index)

    monkeypatch.setattr(ExchangeReader, "exchange", counted)
    assert run("read", "-V", str(SAMPLE)).exit_code == 0
    assert decoded
    assert len(decoded) == len(set(decoded))
