"""A codec added in the two places named in CONTRIBUTING is supported by all code that handles codecs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dissectors.codec import CODEC_LABELS, CODEC_MASK, KNOWN_CODECS, Codec
from dissectors.records import codecs

ROOT = Path(__file__).parents[2]

NEW = """
import sys, types
from pathlib import Path

# the new line in dissectors/codec.py
source = Path("dissectors/codec.py").read_text().replace("UNKNOWN_5 = 5", r'BROTLI = 5, b"\\xce\\xb2", 2')
module = types.ModuleType("dissectors.codec")
exec(compile(source, "dissectors/codec.py", "exec"), module.__dict__)
sys.modules["dissectors.codec"] = module
Codec = module.Codec

# the new line in dissectors/records/codecs.py: the bytes turned around
from dissectors.records import codecs
codecs._IMPLEMENTATIONS[Codec.BROTLI] = codecs._Implementation(
    lambda data, bound, magic: codecs.InflatedBytes(data[2:][::-1]),
    lambda data, magic: Codec.BROTLI.signature + data[::-1],
)

from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
rows = [Record(n, 1_700_000_000_000, b"key", b"value %d" % n) for n in range(3)]
batch = build_batch(rows, codec=Codec.BROTLI)
"""


def with_new_codec(script: str, *arguments: str) -> str:
    """Run Python lines in a process in which Kafka has a codec 5, and return what they print."""
    done = subprocess.run(
        [sys.executable, "-c", NEW + script, *arguments],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_three_bits_of_attributes() -> None:
    assert [*Codec] == [*range(CODEC_MASK + 1)]
    assert CODEC_LABELS[:5] == ("none", "gzip", "snappy", "lz4", "zstd")  # CompressionType.java
    assert [codec.label for codec in KNOWN_CODECS] == [*CODEC_LABELS[:5]]


def test_every_known_codec_is_implemented_and_can_be_told_by_its_first_bytes() -> None:
    assert [*codecs._IMPLEMENTATIONS] == [*KNOWN_CODECS[1:]]
    for codec in KNOWN_CODECS[1:]:
        assert codecs.compress(codec, b"text").startswith(codec.signature)
        assert codec.signature


@pytest.mark.slow
def test_dissectors_know_a_new_codec() -> None:
    told = with_new_codec("""
from dissectors import embedded
from dissectors.domains import COMPRESSION
from dissectors.embedded.model import Hints
from dissectors.records import trace_records
print(COMPRESSION.name_of(5), COMPRESSION.value_of("brotli"))
print([record.value for record in record_set(batch).batches[0].read().records])
print(record_set(bytes(40) + batch, aligned=False).batches)
print(len( trace_records(batch).nodes[0].children[-1].children))
try:
    build_batch(rows, magic=1, codec=Codec.BROTLI)
except ValueError as error:
    print(error)
print(embedded.decode("telemetry", Codec.BROTLI.signature, Hints()).guess)
""")
    assert told.splitlines() == [
        "brotli 5",
        "[b'value 0', b'value 1', b'value 2']",
        "[<Batch magic=2 codec=brotli count=3 offsets=0..2 bytes=40..154>]",
        "3",
        "magic 1 has no codec brotli",
        "compression not announced, looks like brotli",
    ]


@pytest.mark.slow
def test_the_program_knows_a_new_codec(tmp_path: Path) -> None:
    told = with_new_codec(
        """
from click.testing import CliRunner
from captures.filters.fields import FIELDS
from captures.tables.schema import TABLES
from kproxy.cli import main
from kproxy.tui.detail.batches import note
from tests.lanes.hostile.wire import capture, produced
file, scrubbed, table = sys.argv[1:]
Path(file).write_bytes(b"".join(capture([produced(batch)])))
for arguments in (
    ["read", file], ["read", "--json", file], ["read", "-Y", "codec == brotli", file],
    ["export", file, "--scrub", "-o", scrubbed], ["read", scrubbed],
    ["doctor"],
):
    result = CliRunner().invoke(main, arguments)
    print(arguments[0], result.exit_code, *(word.strip(",") for word in result.output.replace('"', " ").split()
          if word.strip(",") in ("zstd", "brotli")))
CliRunner().invoke(main, ["tables", file, "-o", table])
import pyarrow.parquet as pq
print(pq.read_table(Path(table) / "record_batches")["codec"].to_pylist())
(field,) = (field for field in FIELDS if field.name == "codec")
print([*field.choices()], field.doc, sep=chr(10))
(column,) = (column for column in TABLES["record_batches"].columns if column.name == "codec")
print(column.meaning, note("batch", "attributes", 5), sep=chr(10))
""",
        *(str(tmp_path / name) for name in ("new.pcap", "scrubbed.pcapng", "tables")),
    )
    assert told.splitlines() == [
        "read 0 brotli",
        "read 0 brotli",
        "read 0 brotli",
        "export 0",
        "read 0 zstd",  # scrubbed batches keep their size, by a codec of which every size can be had
        "doctor 0 zstd brotli",
        "['brotli']",
        "['none', 'gzip', 'snappy', 'lz4', 'zstd', 'brotli']",
        "compression of the record batches: none, gzip, snappy, lz4, zstd, brotli",
        "`none`, `gzip`, `snappy`, `lz4`, `zstd`, `brotli`",
        "brotli",
    ]
