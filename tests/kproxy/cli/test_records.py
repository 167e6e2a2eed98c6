"""``kproxy records`` as its users run it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from crc32c import crc32c

from captures.log_segments import LogSurvey, PartitionLog
from dissectors import budget
from dissectors.records import Record
from dissectors.records.batch import CRC_START, HEADER_AT
from dissectors.records.build import build_batch
from kproxy.cli import main

DATA = Path(__file__).parents[2] / "data"
TRANSACTIONS = DATA / "captures" / "22_k430_java_commit_abort.pcap"
ZSTD = DATA / "captures" / "20_k430_ck_zstd.pcap"
CONTROLLER = DATA / "captures" / "26_k430_add_controller_controller.pcap.zst"
EMPTY = DATA / "findings" / "24_k430_java_denied.pcap.zst"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["records", *map(str, arguments)], catch_exceptions=False)


def as_json(*arguments: str | Path) -> list[dict[str, Any]]:
    result = run("--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_one_line_a_record() -> None:
    shown = run("--utc", TRANSACTIONS)
    assert shown.exit_code == 0
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[9] == "tw1-0@9 2026-11-21 09:40:40.541 produced #10 k9 v9"
    assert lines[10] == "tw1-0@11 2026-11-21 09:40:40.670 produced #14 k0 aborted: v0"
    assert len(lines) == 30
    assert not shown.stderr


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--offset", "12"], [12]),
        (["--offset", "12..14"], [12, 13, 14]),
        (["--offset", "..1"], [0, 1]),
        (["--offset", "30.."], [30, 31]),
        (["-c", "2"], [0, 1]),
        (["--key", "k3"], [3, 14, 25]),
        (["--contains", "v3", "--offset", "10.."], [14, 25]),
        (["--topic", "tw1", "--partition", "0", "-c", "1"], [0]),
        (["--topic", "t?1", "-c", "1"], [0]),
        (["--topic", "other"], []),
        (["--partition", "1"], []),
        (["-Y", "api == Fetch"], []),
        (["-Y", "number == 14", "-c", "1"], [11]),
        (["-Y", "api == Produce and value == v3"], [3, 14, 25]),
        (["--to", "0s"], []),
        (["--utc", "--timestamp", "2026-11-21T09:40:40.68..", "-c", "1"], [22]),
        (["--utc", "--timestamp", "..2026-11-21T09:40:40.53"], [0]),
    ],
)
def test_records_are_selected(options: list[str], offsets: list[int]) -> None:
    assert [each["offset"] for each in as_json(*options, TRANSACTIONS)] == offsets


def test_json_has_what_the_documentation_says() -> None:
    (found,) = as_json("--offset", "11", TRANSACTIONS)
    documented = (DATA.parents[1] / "docs" / "records.md").read_text()
    for key in (*found, *found["batch"]):
        assert f"`{key}`" in documented
    assert (found["key"], found["key_format"], found["value"], found["value_format"]) == (
        "k0",
        "text",
        "v0",
        "text",
    )
    assert (found["origin"], found["exchange"], found["committed"]) == ("produced", 14, False)


def test_once_shows_an_offset_once() -> None:
    every, once = as_json(ZSTD), as_json("--once", ZSTD)
    places = [(each["topic"], each["partition"], each["offset"]) for each in once]
    assert len(every) == 2 * len(once)
    assert len(set(places)) == len(places)
    assert {each["origin"] for each in once} == {"produced"}


def test_formats_are_chosen_and_what_does_not_fit_is_counted() -> None:
    shown = run("--format", "int", "--key-format", "hex", "-c", "1", TRANSACTIONS)
    assert "6b30" in shown.stdout
    assert "30256" in shown.stdout  # 0x7630
    assert not shown.stderr
    refused = run("--format", "json", "-c", "1", TRANSACTIONS)
    assert "1 key or value: not JSON" in refused.stderr


def test_all_of_a_record() -> None:
    shown = run("-V", "--utc", "--offset", "11", TRANSACTIONS).stdout.splitlines()
    assert shown[0].startswith("tw1-0@11  2026-11-21 09:40:40.670  produced #14 at 09:40:40.672 by tx-java ")
    assert shown[1] == "  aborted"
    assert shown[2].endswith("transaction aborted")
    assert shown[3:6] == ["  key (2 B)  k0", "  value (2 B)  v0", ""]
    pretty = run("-V", "-c", "1", DATA / "captures" / "32_k0102_java_snappy.pcap").stdout
    assert '    {\n      "i": 0,\n' in pretty


def test_kafkas_own_topics_are_decoded() -> None:
    found = as_json("-c", "5", CONTROLLER)
    assert {each["value_format"] for each in found} == {"kafka"}
    assert {each["value"]["type"] for each in found} == {"NoOp"}


def test_a_record_of_the_user_cannot_drive_the_terminal() -> None:
    shown = run("--format", "text", ZSTD)
    assert "\x1b" not in shown.stdout
    assert len(shown.stdout.splitlines()) == 312


def test_nothing_to_show_is_said() -> None:
    assert "No records in the capture." in run(EMPTY).stderr
    assert "No records that fit." in run("--topic", "other", TRANSACTIONS).stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--offset", "x"], "'x' is not a range of offsets"),
        (["--offset", "5..1"], "'5..1' ends before it begins"),
        (["--timestamp", "soon.."], "'soon' is not a time"),
        (["-Y", "topic ="], "invalid filter"),
        (["--value-schema", "none.avsc"], "none.avsc cannot be read: No such file"),
        (["--registry", "localhost"], "is not the URL of a schema registry"),
        (["--format", "xml"], "'xml' is not one of"),
    ],
)
def test_mistakes_are_pointed_at(options: list[str], said: str) -> None:
    refused = run(*options, TRANSACTIONS)
    assert refused.exit_code == 2
    assert said in refused.stderr


def test_a_limit_is_named_and_the_exit_code_says_so() -> None:
    result = CliRunner().invoke(main, ["--limit", "message_records=1", "records", str(TRANSACTIONS)])
    assert result.exit_code == 3
    assert "records beyond the limit message_records (1 records) are not shown, in 3 batches" in result.stderr
    assert len(result.stdout.splitlines()) == 4


def test_avro_by_a_schema(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "R", "fields": [{"name": "c", "type": "int"}]}
    (tmp_path / "r.avsc").write_text(json.dumps(schema))
    # the values v0 to v9 are two bytes: no record with one integer
    shown = run("--value-schema", f"tw1={tmp_path / 'r.avsc'}", "-c", "1", TRANSACTIONS)
    assert "1 key or value: does not fit" in shown.stderr
    fields = [{"name": name, "type": "int"} for name in "ab"]
    (tmp_path / "r.avsc").write_text(json.dumps({**schema, "fields": fields}))
    (found,) = as_json("--value-schema", f"tw1={tmp_path / 'r.avsc'}", "-c", "1", TRANSACTIONS)
    # 'v' is 0x76, '0' is 0x30: zig-zag 59 and 24
    assert (found["value"], found["value_format"]) == ({"a": 59, "b": 24}, "avro")


@pytest.mark.slow
def test_records_from_a_pipe() -> None:
    piped = subprocess.run(
        [sys.executable, "-m", "kproxy", "records", "--utc", "-c", "3", "-"],
        input=TRANSACTIONS.read_bytes(),
        capture_output=True,
        check=False,
    )
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout.decode().splitlines()[0].endswith("k0    v0")
    assert len(piped.stdout.splitlines()) == 3


def test_the_records_are_those_of_the_table(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as parquet

    made = CliRunner().invoke(main, ["tables", str(ZSTD), "-o", str(tmp_path / "t"), "--table", "records"])
    assert made.exit_code == 0, made.output
    rows = [
        row for file in sorted(tmp_path.rglob("*.parquet")) for row in parquet.read_table(file).to_pylist()
    ]
    ours = as_json(ZSTD)
    assert sorted(
        (row["number"], row["partition"], row["log_offset"], row["timestamp"]) for row in rows
    ) == sorted((each["exchange"], each["partition"], each["offset"], each["timestamp"]) for each in ours)


def test_columns_are_as_wide_as_what_is_shown_needs() -> None:
    path = DATA / "captures" / "24_k430_franz_scramsha256.pcap"
    few, all_of_them = (run("--utc", *options, path).stdout.splitlines() for options in (["-c", "7"], []))
    assert "  key6  {" in few[6]
    assert "  key6   {" in all_of_them[6]
    assert "  key11  {" in all_of_them[11]


# ---------------------------------------------------------------- log segments
LOGS = DATA / "log_segments"


def test_records_of_a_log() -> None:
    shown = run("--utc", LOGS / "orders-0", "--offset", "86..88")
    assert shown.exit_code == 0
    lines = [" ".join(line.split())[:60] for line in shown.stdout.splitlines()]
    assert lines[0].startswith("orders-0@86 2026-11-27 13:15:")
    assert "control record COMMIT: " in shown.stdout.splitlines()[0]
    assert "tx-0  aborted: abort 0 abort 0" in shown.stdout.splitlines()[1]
    assert shown.stderr == (
        "kproxy: orders-0: 1 segment, 15 batches, 107 records, offsets 0..106; "
        "transactions: 2 committed, 1 aborted, open since offset 101 (producer 7)\n"
    )


def test_gaps_that_compaction_left_are_reported() -> None:
    shown = run(LOGS / "prices-0", "--offset", "566")
    assert len(shown.stdout.splitlines()) == 1
    assert (
        "4 segments, 72 batches, 88 records, offsets 113..566; 366 offsets without a record, in 9 gaps; "
        "5 batches that compaction has emptied"
    ) in shown.stderr


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--offset", "100.."], [100, *range(101, 107)]),
        (["-c", "2"], [0, 1]),
        (["--key", "tx-3", "--offset", "..100"], [83, 90, 97]),
        (["--contains", "order gzip-7"], [27]),
        (["-Y", "key == tx-3 and not value contains abort"], [83, 97, 104]),
        (["-Y", "partition == 1 or key == tx-3"], [83, 90, 97, 104]),
        (["--topic", "prices"], []),
        (["--partition", "7"], []),
        (["--timestamp", "..2026-11-27T13:00:00Z"], []),
        (["--timestamp", "2026-11-27T13:00:00Z..", "--offset", "5"], [5]),
        (["--once", "--offset", "..1"], [0, 1]),
    ],
)
def test_records_of_a_log_are_selected(options: list[str], offsets: list[int]) -> None:
    assert [each["offset"] for each in as_json(*options, LOGS / "orders-0")] == offsets


def test_json_of_a_log_has_its_position_instead_of_an_exchange() -> None:
    every = as_json(LOGS)
    assert {each["topic"] for each in every} > {"orders", "prices", "__cluster_metadata"}
    aborted = [each["offset"] for each in every if each["committed"] is False]
    assert aborted == [87, 88, 89, 90, 91, 92]
    (found,) = as_json("--offset", "101", LOGS / "orders-0")
    documented = (DATA.parents[1] / "docs" / "records.md").read_text()
    for key in found:
        assert f"`{key}`" in documented
    assert (found["origin"], found["committed"]) == ("log", None)
    assert found["file"] == str(LOGS / "orders-0" / f"{0:020}.log")
    assert isinstance(found["position"], int)
    assert "exchange" not in found


def test_kafkas_own_topics_in_a_log_are_decoded() -> None:
    offsets = as_json(LOGS / "__consumer_offsets-0")
    commits = [each for each in offsets if each["value"]["type"] == "OffsetCommit"]
    assert commits[0]["key"] == {"group": "billing", "topic": "orders", "partition": 0}
    metadata = as_json(LOGS / "__cluster_metadata-0")
    assert {"Topic", "Partition", "RegisterBroker"} <= {
        each["value"]["type"] for each in metadata if each["control"] is None
    }


def test_all_of_a_record_of_a_log() -> None:
    segment = LOGS / "orders-0" / f"{0:020}.log"
    shown = run("-V", "--offset", "87", segment).stdout.splitlines()
    assert f"of {segment}" in shown[0]
    assert shown[1] == "  aborted"


def test_damage_in_a_log_is_named_and_does_not_end_it(tmp_path: Path) -> None:
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.parent.mkdir()
    data = bytearray((LOGS / "orders-0" / segment.name).read_bytes())
    positions = sorted({each["position"] for each in as_json(LOGS / "orders-0")})
    data[positions[1] - 1] ^= 1
    segment.write_bytes(data[:-3])
    shown = run("--json", segment)
    assert shown.exit_code == 3
    found = [json.loads(line) for line in shown.stdout.splitlines()]
    assert sorted({each["position"] for each in found}) == positions[1:-1]
    _, checksum, tail = shown.stderr.splitlines()
    assert checksum == (
        f"kproxy: {segment}: byte 0: the checksum does not match: {positions[1]:,} bytes, offsets 0..19 by its header, "
        "not shown"
    )
    assert tail.startswith(f"kproxy: {segment}: byte {positions[-1]}: the file ends after ")


def test_an_index_that_contradicts_the_log_is_named(tmp_path: Path) -> None:
    partition = Path(shutil.copytree(LOGS / "orders-0", tmp_path / "orders-0"))
    index = partition / f"{0:020}.index"
    index.write_bytes(b"\0\0\0\1\0\0\0\1")
    shown = run("-c", "1", partition)
    assert shown.exit_code == 3
    assert shown.stderr.splitlines()[1] == (
        f"kproxy: {index}: byte 0: offset 1 at position 1, where no batch begins"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--from", "5s"], "--timestamp"),
        (["--follow"], "--follow"),
        (["--align-clocks"], "--align-clocks"),
        (["-Y", "client_id == app"], "-Y: a filter of log segments can only use topic"),
        (["-Y", "@marked or key == a"], "-Y: a filter of log segments can only use topic"),
    ],
)
def test_what_a_log_does_not_have_is_refused(options: list[str], message: str) -> None:
    shown = run(LOGS / "orders-0", *options)
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert not shown.stdout


def test_many_damaged_parts_are_counted(tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / f"{0:020}.log"
    segment.parent.mkdir()
    batches = [bytearray(build_batch([Record(at, 1, None, b"v", ())])) for at in range(30)]
    for each in batches[:25]:
        each[-2] ^= 1
    segment.write_bytes(b"".join(batches))
    shown = run(segment)
    assert len(shown.stdout.splitlines()) == 5
    assert len(shown.stderr.splitlines()) == 22
    assert shown.stderr.endswith("kproxy: 5 more damaged parts\n")


def test_batches_that_are_not_read_to_the_end_are_counted(tmp_path: Path) -> None:
    segment = tmp_path / "t-0" / f"{0:020}.log"
    segment.parent.mkdir()
    data = bytearray(build_batch([Record(at, 1, None, b"v", ()) for at in range(3)]))
    data[HEADER_AT["records_count"] + 3] = 9
    data[HEADER_AT["crc"] : CRC_START] = crc32c(bytes(data[CRC_START:])).to_bytes(4)
    segment.write_bytes(data)
    shown = run(segment)
    assert shown.exit_code == 3
    assert len(shown.stdout.splitlines()) == 3
    assert "1 batch could not be read to the end: its checksum is valid" in shown.stderr
    with budget.changed(batch_records=2):
        shown = run(segment)
    assert shown.exit_code == 3
    assert len(shown.stdout.splitlines()) == 2
    assert "records beyond the limit batch_records" in shown.stderr


def test_a_snapshot_of_the_metadata_log_is_read() -> None:
    (found,) = as_json(LOGS / "__cluster_metadata-0" / f"{0:020}-{0:010}.checkpoint", "--offset", "1")
    assert (found["control"], found["position"]) == ("KRAFT_VERSION", 0)


def test_captures_and_logs_are_not_mixed() -> None:
    shown = run(LOGS / "orders-0", ZSTD)
    assert shown.exit_code == 1
    assert f"{ZSTD}: not a log segment" in shown.stderr


def test_a_folder_that_disappears_meanwhile_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (segment,) = Path(shutil.copytree(LOGS / "orders-0", tmp_path / "orders-0")).glob("*.log")
    survey = LogSurvey.__init__

    def deleted(self: LogSurvey, log: PartitionLog) -> None:
        survey(self, log)
        segment.unlink()

    monkeypatch.setattr(LogSurvey, "__init__", deleted)
    shown = run(segment)
    assert (shown.exit_code, shown.stderr) == (1, f"kproxy: {segment}: No such file or directory\n")


def test_an_empty_log_has_no_records(tmp_path: Path) -> None:
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.parent.mkdir()
    segment.touch()
    shown = run(segment)
    assert shown.exit_code == 0
    assert shown.stderr == "kproxy: orders-0: no batches\nNo records in the log.\n"
