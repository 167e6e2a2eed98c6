"""Hypothesis strategies for records, and batches recorded from real clients."""

from __future__ import annotations

from hypothesis import strategies as st

from dissectors.records import Record

maybe_bytes = st.none() | st.binary(max_size=40) | st.binary(min_size=60, max_size=200)
headers = st.lists(
    st.tuples(st.text(st.characters(exclude_categories=["Cs"]), max_size=6), maybe_bytes), max_size=3
).map(tuple)


@st.composite
def record_lists(draw: st.DrawFn, *, with_headers: bool = True, start: int | None = None) -> list[Record]:
    """Records with rising offsets and gaps as left by compaction; timestamps go up and down."""
    count = draw(st.integers(0, 8))
    offset = draw(st.integers(0, 1 << 40)) if start is None else start
    base = draw(st.integers(1, 1 << 42))
    found = []
    for _ in range(count):
        found.append(
            Record(
                offset,
                draw(st.integers(max(0, base - (1 << 33)), base + (1 << 33))),
                draw(maybe_bytes),
                draw(maybe_bytes),
                draw(headers) if with_headers else (),
            )
        )
        offset += draw(st.sampled_from([1, 1, 1, 2, 70, 9000, 2_500_000]))
    return found


MARKER = bytes.fromhex(
    # 22_k411_tx_java_fence: an ABORT marker in a Fetch answer of Kafka 4.1.1
    "0000000000000003000000420000000002893697df003000000000000001a1fd82753f000001a1fd82753f0000000000000002"
    "0001ffffffff000000012000000008000000000c00000000000000"
)
HEADER_RECORD = bytes.fromhex(
    # 27_k391_kp_zstd: kafka-python 3.0.12, too small to compress; null value, header empty=b""
    "00000000000000000000003f00000000026add0aeb000000000000000001a1fd82d68a000001a1fd82d68affffffffffff"
    "ffffffffffffffff000000011a0000000000020a656d70747900"
)
LOG_APPEND_V1 = bytes.fromhex(
    # 32_k0102_java_compacted_ts: Kafka 0.10.2.2, message.timestamp.type=LogAppendTime, a tombstone
    "00000000000000030000001aa75547aa0108000001a1fd85bd10000000046b657933ffffffff"
)
GZIP_V1_RELATIVE = bytes.fromhex(
    # 34_k111_sweep: Fetch answer of Kafka 1.1.1; wrapper at offset 4, inner messages at 0 and 1
    "00000000000000040000005391d1a4990101ffffffffffffffffffffffff0000003d1f8b08000000000000ff6360800379d9"
    "a79b8e3332fc8702a008633690e0282e4f4d2d502833802a630462b168c72f8f114a610000a403a3eb4d000000"
)
LZ4_V0 = bytes.fromhex(
    # 30_k0822_kp_api0.8.2_lz4: kafka-python to Kafka 0.8.2.2, frame checksum as before KIP-57, and the
    # value is 20,000 times "x"
    "00000000000000000000008bade7c6b30003ffffffff0000007d04224d1860401a6e00000015000100ff024e2e401b2ba1"
    "0000ffffffff00004e20780100ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff55507878787878"
    "00000000"
)
SNAPPY_V2 = bytes.fromhex(
    # 20_k411_java_snappy: Java client 4.1, xerial framing
    "00000000000000000000009cffffffff023231f355000200000000000001a1fd81b539000001a1fd81b539ffffffffffff"
    "ffffffffffffffff0000000182534e4150505900000000010000000100000057a40874c4100000000a6b65793133ac107b"
    "2269223a3134392c22706164223a2270fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100"
    "fe0100fe0100fe0100fe0100ee01000d0108227d00"
)
LZ4_V2 = bytes.fromhex(
    # 27_k391_java_idem: Java client 3.9 to Kafka 3.9.1, idempotent producer
    "00000000000000000000006cffffffff0206b83099000300000000000001a1fd82a854000001a1fd82a854000000000000"
    "000000000000002a0000000104224d186040822c000000ff0fc4100000000a6b65793133ac107b2269223a3134392c2270"
    "6164223a22700100fffffff1507070227d0000000000"
)
ZSTD_V2 = bytes.fromhex(
    # 20_k430_java_zstd: Java client 4.3, a frame without content size
    "000000000000000000000066ffffffff024c725a97000400000000000001a1fd79ee04000001a1fd79ee04ffffffffffff"
    "ffffffffffffffff0000000128b52ffd00584c01001402cc140000000a6b65793132b4147b2269223a3134382c22706164"
    "223a2270227d00010012f40327010000"
)
GZIP_V2 = bytes.fromhex(
    # 34_k111_sweep: Fetch answer of Kafka 1.1.1, two tombstone-like records
    "00000000000000030000005a0000000002c20c893c000100000001ffffffffffffffffffffffffffffffffffffffffffff"
    "ffffffffffffffff000000021f8b08000000000000ff9363606060ca16282e4f4d2d50283360e0017219191900152fc995"
    "17000000"
)
PADDING = bytes.fromhex(
    # 35_k282_errors: Kafka 2.8.2 down-converting; 38 bytes to fill, 61 is the least it announces
    "ffffffffffffffff0000003d" + "00" * 26
)
RECORDED = (
    MARKER,
    HEADER_RECORD,
    LOG_APPEND_V1,
    GZIP_V1_RELATIVE,
    LZ4_V0,
    SNAPPY_V2,
    LZ4_V2,
    ZSTD_V2,
    GZIP_V2,
)
