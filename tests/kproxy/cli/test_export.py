"""``kproxy export`` as its users run it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from kproxy.cli import main
from tests.captures.packets.kit import rotated

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
DATA = ROOT / "tests" / "data" / "captures"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)


def objects(*arguments: str | Path) -> list[dict]:
    result = run("read", "--json", *arguments)
    return [json.loads(line) for line in result.stdout.splitlines()]


@pytest.mark.parametrize(
    ("name", "begins"),
    [
        ("out.pcapng", b"\x0a\x0d\x0d\x0a"),
        ("out.jsonl", b'{"number":18,'),
        ("out.csv", b"number,time,"),
        ("out.parquet", b"PAR1"),
        ("out.mmd", b"sequenceDiagram\n"),
    ],
)
def test_the_name_tells_the_format(name: str, begins: bytes, tmp_path: Path) -> None:
    out = tmp_path / name
    result = run("export", SAMPLE, "-o", out, "-Y", "api == JoinGroup")
    assert result.exit_code == 0
    assert result.stdout == ""
    assert result.stderr.splitlines()[-1] == f"16 exchanges written to {out}."
    assert out.read_bytes().startswith(begins)
    assert [path.name for path in tmp_path.iterdir()] == [name]
    assert out.stat().st_mode & 0o444 == 0o444


@pytest.mark.slow
def test_json_is_that_of_read(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    run("export", SAMPLE, "-o", out)
    assert [json.loads(line) for line in out.read_text().splitlines()] == objects(SAMPLE)


@pytest.mark.slow
def test_pcapng_reads_back(tmp_path: Path) -> None:
    for how in ([], ["--synthetic"]):
        out = tmp_path / f"out{len(how)}.pcapng"
        result = run("export", SAMPLE, "-o", out, *how)
        assert result.exit_code == 0
        assert ("synthetic" in result.stderr) == bool(how)
        assert objects(out) == objects(SAMPLE)


@pytest.mark.slow
def test_scrubbed(recorded_scram: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    result = run("export", recorded_scram, "-o", out, "--scrub")
    assert result.exit_code == 0
    assert "kproxy: scrubbed " in result.stderr
    before, after = objects("--show-secrets", recorded_scram), objects("--show-secrets", out)
    tokens = [
        (one["request"]["auth_bytes"], other["request"]["auth_bytes"])
        for one, other in zip(before, after, strict=True)
        if one["api"] == "SaslAuthenticate"
    ]
    assert tokens
    assert all(one != other and len(one) == len(other) for one, other in tokens)
    assert not any(exchange["problems"] for exchange in after)


def test_tls_becomes_readable_with_its_keys(tmp_path: Path) -> None:
    capture, keys = (DATA / f"24_k430_tls13_franz.{kind}" for kind in ("pcap", "keylog"))
    out = tmp_path / "out.pcapng"
    assert run("export", capture, "-o", out).exit_code == 3
    result = run("export", capture, "-o", out, "--keylog", keys, "--force")
    assert result.exit_code == 0
    assert "synthetic" in result.stderr
    plain = objects(out)  # without keys
    assert len(plain) == len(objects("--keylog", keys, capture)) > 10


def test_standard_output_needs_a_format(tmp_path: Path) -> None:
    result = run("export", SAMPLE, "-o", "-", "--format", "csv", "--columns", "number, api", "-c", "2")
    assert list(csv.reader(io.StringIO(result.stdout))) == [
        ["number", "api"],
        ["1", "ApiVersions"],
        ["2", "Metadata"],
    ]
    assert run("export", SAMPLE, "-o", "-").exit_code == 2


def test_connection_count_and_time(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run("export", SAMPLE, "-o", out, "--connection", "2", "--connection", "6", "--to", "5s", "-c", "9")
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert {exchange["connection"] for exchange in found} == {2, 6}
    expected = [exchange for exchange in objects("--to", "5s", SAMPLE) if exchange["connection"] in (2, 6)]
    assert found == expected[:9]


@pytest.mark.sample(2)
@pytest.mark.parametrize("capture", [SAMPLE, DATA / "24_k430_tls13_franz.pcap"], ids=lambda path: path.stem)
@pytest.mark.parametrize("how", ["json", "mermaid", "pcapng", "pcapng --scrub", "pcapng --synthetic"])
def test_rotated_files_are_one_capture(how: str, capture: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ring"
    folder.mkdir()
    packets = capture.read_bytes()
    for number, part in enumerate(rotated(packets, 70)):
        (folder / f"kafka.pcap{(number * 7 + 2) % 101}").write_bytes(part)
    keylog = capture.with_suffix(".keylog")
    keys = ["--keylog", keylog] if keylog.exists() else []
    for name, given in (("one", capture), ("several", folder)):
        assert run("export", given, "-o", tmp_path / name, "--format", *how.split(), *keys).exit_code == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "several").read_bytes()


def test_a_file_that_cannot_be_read_beside_others(tmp_path: Path) -> None:
    result = run("export", SAMPLE, tmp_path / "absent.pcap", "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 3
    assert "absent.pcap: No such file or directory" in result.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 402


def test_secrets_are_masked_unless_asked_for(recorded_scram: Path, tmp_path: Path) -> None:
    for how, masked in (([], True), (["--show-secrets"], False)):
        out = tmp_path / f"out{len(how)}.jsonl"
        run("export", recorded_scram, "-o", out, *how)
        tokens = [
            exchange["request"]["auth_bytes"]
            for exchange in map(json.loads, out.read_text().splitlines())
            if exchange["api"] == "SaslAuthenticate"
        ]
        assert tokens
        assert all((token is None) == masked for token in tokens)


def test_payload_none_leaves_records_out(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    run("export", SAMPLE, "-o", out, "--payload", "none", "-Y", "api == Produce")
    assert '"records":[]' in out.read_text()
    assert "eyJuIjowfQ" not in out.read_text()  # {"n":0} in base64


def test_nothing_is_overwritten_without_force(tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    out.write_text("mine")
    result = run("export", SAMPLE, "-o", out)
    assert result.exit_code == 2
    assert "exists; --force overwrites it" in result.stderr
    assert out.read_text() == "mine"
    assert run("export", SAMPLE, "-o", out, "--force").exit_code == 0
    assert out.read_text() != "mine"


def test_a_capture_is_never_overwritten(tmp_path: Path) -> None:
    capture = tmp_path / "a.pcapng"
    capture.write_bytes(SAMPLE.read_bytes())
    result = run("export", capture, "-o", capture, "--force")
    assert result.exit_code == 2
    assert "is one of the captures" in result.stderr
    assert capture.read_bytes() == SAMPLE.read_bytes()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-o", "x.pcap"], "write .pcapng"),
        (["-o", "x.txt"], "does not show the format"),
        (["-o", "x.csv", "--scrub"], "--payload none leaves records out"),
        (["-o", "x.pcapng", "--scrub", "--show-secrets"], "opposite of --show-secrets"),
        (["-o", "x.pcapng", "--payload", "none"], "--scrub blanks what records say"),
        (["-o", "x.json", "--synthetic"], "it needs pcapng"),
        (["-o", "x.json", "--columns", "api"], "only csv and parquet have columns"),
        (["-o", "x.csv", "--columns", "apis"], "'apis' is not a column of exchanges"),
        (["-o", "x.csv", "--text"], "it is for json"),
        (["-o", "x.csv", "-Y", "api =="], "invalid filter"),
        (["-o", "x.csv", "--keylog", "missing"], "the key log missing cannot be read"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str, tmp_path: Path) -> None:
    result = run("export", SAMPLE, *arguments)
    assert result.exit_code == 2
    assert reason in result.stderr


def test_nothing_selected(tmp_path: Path) -> None:
    result = run("export", SAMPLE, "-o", tmp_path / "x.csv", "-Y", "api == Vote")
    assert result.exit_code == 3
    assert "no exchange was selected" in result.stderr


def test_files_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    noise = tmp_path / "noise.pcap"
    noise.write_bytes(b"these are no packets at all")
    result = run("export", noise, "-o", tmp_path / "x.csv")
    assert result.exit_code == 1
    assert "not a capture file" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["noise.pcap"]
    result = run("export", SAMPLE, "-o", tmp_path / "nowhere" / "x.csv")
    assert result.exit_code == 1
    assert "could not be written: No such file" in result.stderr
