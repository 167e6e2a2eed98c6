"""``--hosts``, ``--align-clocks`` and ``--mark``: they work the same with every command that reads captures."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main
from tests.captures.packets import kit

SAMPLE = Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap"
PODS = """\
NAMESPACE   NAME      READY   STATUS    RESTARTS   AGE   IP          NODE     NOMINATED NODE   READINESS GATES
shop        kafka-0   1/1     Running   0          5d    127.0.0.1   node-1   <none>           <none>
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], prog_name="kproxy")


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    path = tmp_path / "pods.txt"
    path.write_text(PODS)
    return path


# ---------------------------------------------------------------- names
def test_lines_show_names(pods: Path) -> None:
    done = run("read", "--hosts", pods, "-c", 5, SAMPLE)
    assert done.exit_code == 0
    assert done.stdout.count("kafka-0.shop:10101") == 5
    assert "127.0.0.1" not in done.stdout


def test_json_keeps_addresses_and_adds_names(pods: Path, tmp_path: Path) -> None:
    one = tmp_path / "hosts"
    one.write_text("127.0.0.1:10101 broker-1\n")
    done = run("read", "--hosts", pods, "--hosts", one, "--json", "-c", 1, SAMPLE)
    shape = json.loads(done.stdout.splitlines()[0])
    assert shape["broker"] == "127.0.0.1:10101"
    assert (shape["client_name"], shape["broker_name"]) == ("kafka-0.shop", "broker-1")
    without = json.loads(run("read", "--json", "-c", 1, SAMPLE).stdout.splitlines()[0])
    assert (without["client_name"], without["broker_name"]) == (None, None)


@pytest.mark.slow
def test_tables_show_names(pods: Path) -> None:
    done = run("stats", "--hosts", pods, SAMPLE)
    assert "kafka-0.shop:10101" in done.stdout
    assert "127.0.0.1" not in done.stdout
    shape = json.loads(run("stats", "--hosts", pods, "--json", SAMPLE).stdout)
    assert shape["names"] == {"127.0.0.1": ["kafka-0.shop", "kafka-0"]}
    assert shape["clients"][0]["hosts"] == ["127.0.0.1"]
    assert shape["connections"][0]["broker_name"] == "kafka-0.shop"


def test_diagrams_and_csv_show_names(pods: Path) -> None:
    diagram = run("export", "--hosts", pods, SAMPLE, "-o", "-", "--format", "mermaid").stdout
    assert "participant B1 as kafka-0.shop:10101" in diagram
    table = run(
        "export",
        "--hosts",
        pods,
        SAMPLE,
        "-c",
        1,
        "-o",
        "-",
        "--format",
        "csv",
        "--columns",
        "broker_name,broker",
    )
    assert table.stdout.splitlines() == ["broker_name,broker", "kafka-0.shop,127.0.0.1:10101"]


@pytest.mark.slow
def test_filters_know_names(pods: Path) -> None:
    found = run(
        "read", "--hosts", pods, "-Y", "broker ~ kafka-0 and client == kafka-0.shop", "--json", SAMPLE
    )
    everything = run("read", "--json", SAMPLE)
    assert len(found.stdout.splitlines()) == len(everything.stdout.splitlines())
    assert run("read", "-Y", "broker ~ kafka-0", "--json", SAMPLE).stdout == ""


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("10.0.0.1 one\n10.0.0 two\n", "names, line 2: '10.0.0' is no IP address"),
        (None, "cannot be read: No such file"),
    ],
)
@pytest.mark.parametrize(
    "command", [["read"], ["stats"], ["export", "-o", "out.csv"]], ids=lambda parts: parts[0]
)
def test_mistakes_in_a_file_of_names(
    command: list[str], content: str | None, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "names"
    if content is not None:
        path.write_text(content)
    done = run(*command, "--hosts", path, SAMPLE)
    assert done.exit_code == 2
    assert said in done.stderr


# ---------------------------------------------------------------- marks and comments
def test_marks_and_comments_are_written_read_and_shown(tmp_path: Path) -> None:
    out = tmp_path / "marked.pcapng"
    assert run("export", "--mark", "error.any", SAMPLE, "-o", out).exit_code == 0
    marked = run("read", "-Y", "@marked", out).stdout
    wanted = run("read", "-Y", "error.any", SAMPLE).stdout
    assert marked.replace("*", " ") == wanted.replace("*", " ")
    assert marked.count("*") == wanted.count("\n") - 1
    shapes = [
        json.loads(line) for line in run("read", "--json", "-Y", "marked", "-c", 1, out).stdout.splitlines()
    ]
    assert [(shape["marked"], shape["comment"]) for shape in shapes] == [(True, None)]


def test_comments_are_shown_in_trees(tmp_path: Path) -> None:
    talk = kit.Conversation()
    talk.handshake()
    # ApiVersions v0: size, key, version, correlation ID, client ID "ab"; size, correlation ID, error, no APIs
    talk.send(0, bytes.fromhex("0000000c 0012 0000 00000001 0002 6162"))
    talk.send(0, bytes.fromhex("0000000a 00000001 0000 00000000"), ack=16, from_client=False)
    comment = kit.option(1, b"why so slow?\n\x1b[31mred")
    blocks = [
        kit.enhanced(record.frame, record.time // 1000, 0, *([comment] if number == 3 else []))
        for number, record in enumerate(talk.records)
    ]
    path = tmp_path / "commented.pcapng"
    path.write_bytes(b"".join([kit.section(), kit.interface(), *blocks]))
    for arguments in (["-V"], ["--exchange", "1"]):
        shown = run("read", *arguments, path).stdout
        assert "  # why so slow?\n" in shown
        assert "\x1b" not in shown


# ---------------------------------------------------------------- clocks
def two_hosts(folder: Path) -> list[Path]:
    """Return the sample, and the same packets with a clock 5 ms ahead and 100 us of network delay."""
    data, at, records = SAMPLE.read_bytes(), 24, []
    while at < len(data):
        seconds, micros, size, _ = struct.unpack_from("<IIII", data, at)
        records.append((seconds * 1_000_000 + micros, data[at + 16 : at + 16 + size]))
        at += 16 + size
    paths = [folder / "client.pcap", folder / "broker.pcap"]
    paths[0].write_bytes(kit.pcap([kit.Record(frame, time * 1000) for time, frame in records]))
    there = []
    for time, frame in records:
        from_broker = frame[34:36] == (10101).to_bytes(2, "big")
        there.append(kit.Record(frame, (time + 5_000 + (-100 if from_broker else 100)) * 1000))
    paths[1].write_bytes(kit.pcap(sorted(there, key=lambda record: record.time)))
    return paths


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["read"], ["stats"], ["export", "-o", "-", "--format", "csv"]], ids=lambda parts: parts[0]
)
def test_clocks_are_compared_and_aligned(command: list[str], tmp_path: Path) -> None:
    paths = two_hosts(tmp_path)
    name, *arguments = command
    told = run(name, *paths, *arguments).stderr
    assert f"{paths[1]} is 5 ms ahead of {paths[0]} (±100 µs, " in told
    assert "--align-clocks brings them to one clock" in told
    aligned = run(name, "--align-clocks", *paths, *arguments)
    assert f"{paths[1]} was 5 ms ahead of {paths[0]}" in aligned.stderr
    assert "--align-clocks" not in aligned.stderr
    if name == "export":
        assert aligned.stdout == run(name, paths[0], *arguments).stdout
