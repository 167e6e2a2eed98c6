from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.budget import changed as limits
from dissectors.embedded import Hints, decode
from dissectors.records import Codec, compress

# 23_k411_admin2_java43.pcap: from a PushTelemetry of kafka-clients 4.3.0, decompressed: a gauge, a sum, and a gauge
# with attributes, each in a resource of its own
GAUGE = bytes.fromhex(
    "0a48 0a00 1244 1242 0a2a 6f72672e6170616368652e6b61666b612e636f6e73756d65722e726571756573742e73697a652e6d6178"
    "2a14 0a12 19 00e28be58906ea18 21 0000000000805740"
)
SUM = bytes.fromhex(
    "0a64 0a00 1260 125e 0a39 6f72672e6170616368652e6b61666b612e636f6e73756d65722e7375636365737366756c2e"
    "61757468656e7469636174696f6e2e746f74616c 3a21 0a1b 11 4088c8b88906ea18 19 c08d02e58906ea18"
    "21 0000000000000000 1001 1801"
)
WITH_ATTRIBUTES = bytes.fromhex(
    "0a75 0a00 1271 126f 0a33 6f72672e6170616368652e6b61666b612e636f6e73756d65722e66657463682e6d616e616765722e"
    "7265636f7264732e6c6167 2a38 0a36 19 00e28be58906ea18 21 0000000000000000"
    "3a10 0a09 706172746974696f6e 1203 0a0130 3a10 0a05 746f706963 1207 0a05 6f2d616432"
)


def message(number: int, *parts: bytes) -> bytes:
    """A field of the given number, with a message or string inside."""
    content = b"".join(parts)
    length = (
        bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
    )
    return bytes([number << 3 | 2]) + length + content


def fixed(number: int, code: str, item: float) -> bytes:
    return bytes([number << 3 | 1]) + struct.pack("<" + code, item)


def metric(*parts: bytes) -> dict[str, object]:
    """Decode MetricsData with one metric of these fields."""
    data = message(1, message(2, message(2, *parts)))
    found = decode("telemetry", data, Hints(compression=0))
    assert found.problems == ()
    decoded: dict[str, object] = found.value["resources"][0]["scopes"][0]["metrics"][0]
    return decoded


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_recorded_metrics_in_all_codecs(codec: Codec) -> None:
    data = compress(codec, GAUGE + SUM + WITH_ATTRIBUTES)
    found = decode("telemetry", data, Hints(compression=codec))
    assert (found.problems, found.guess, found.label) == ((), "", "OpenTelemetry metrics")
    gauge, total, lag = (resource["scopes"][0]["metrics"][0] for resource in found.value["resources"])
    assert gauge == {
        "name": "org.apache.kafka.consumer.request.size.max",
        "description": "",
        "unit": "",
        "type": "gauge",
        "points": [{"attributes": {}, "time_unix_nano": 1795254590792000000, "value": 94.0}],
    }
    assert (total["type"], total["temporality"], total["monotonic"]) == ("sum", "delta", True)
    assert total["points"][0]["start_time_unix_nano"] == 1795254590041000000
    assert lag["points"][0]["attributes"] == {"partition": "0", "topic": "o-ad2"}
    guessed = decode("telemetry", data)
    assert guessed.value == found.value
    assert guessed.guess == f"compression not announced, looks like {codec.name.lower()}"


# Laid out by hand after opentelemetry-proto's metrics.proto: Kafka's clients send none of these
def test_histograms() -> None:
    point = (
        fixed(3, "Q", 9), fixed(4, "Q", 3), fixed(5, "d", 2.5), message(6, struct.pack("<2Q", 1, 2)),
        message(7, struct.pack("<d", 10.0)), fixed(11, "d", 0.5), fixed(12, "d", 1.5),
    )  # fmt: skip
    found = metric(message(1, b"h"), message(9, message(1, *point), b"\x10\x02"))
    assert (found["type"], found["temporality"]) == ("histogram", "cumulative")
    assert found["points"] == [
        {
            "attributes": {},
            "time_unix_nano": 9,
            "count": 3,
            "sum": 2.5,
            "bucket_counts": [1, 2],
            "explicit_bounds": [10.0],
            "min": 0.5,
            "max": 1.5,
        }
    ]


def test_exponential_histograms_and_summaries() -> None:
    buckets = message(8, b"\x08\x03", message(2, b"\x01\x80\x01"))
    found = metric(message(10, message(1, fixed(4, "Q", 129), b"\x30\x05", buckets), b"\x10\x09"))
    assert (found["type"], found["temporality"]) == ("exponential_histogram", 9)
    assert found["points"] == [
        {"attributes": {}, "count": 129, "scale": -3, "positive": {"offset": -2, "bucket_counts": [1, 128]}}
    ]
    quantile = message(6, fixed(1, "d", 0.5), fixed(2, "d", 7.0))
    found = metric(message(11, message(1, quantile)))
    assert found["points"] == [{"attributes": {}, "quantile_values": [{"quantile": 0.5, "value": 7.0}]}]


def test_attribute_values_of_all_types() -> None:
    values = {
        "text": message(1, b"x"),
        "yes": b"\x10\x01",
        "number": b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
        "real": fixed(4, "d", 0.5),
        "list": message(5, message(1, message(1, b"a")), message(1, b"\x10\x00")),
        "map": message(6, message(1, message(1, b"k"), message(2, message(1, b"v")))),
        "raw": message(7, b"\xff"),
        "none": b"",
    }
    attributes = [message(7, message(1, name.encode()), message(2, item)) for name, item in values.items()]
    exemplar = message(5, fixed(6, "q", -4), message(7, message(1, b"e"), message(2, b"\x10\x01")))
    found = metric(message(5, message(1, *attributes, exemplar, fixed(6, "q", -1))))
    assert found["points"] == [
        {
            "attributes": {
                "text": "x",
                "yes": True,
                "number": -1,
                "real": 0.5,
                "list": ["a", False],
                "map": {"k": "v"},
                "raw": b"\xff",
                "none": None,
            },
            "exemplars": [{"attributes": {"e": True}, "value": -4}],
            "value": -1,
        }
    ]
    assert metric(message(1, b"empty"))["type"] is None


def test_scope_and_resource() -> None:
    attribute = message(1, message(1, b"zone"), message(2, message(1, b"eu")))
    scope = message(1, message(1, b"lib"), message(2, b"1.0"), message(3, attribute[2:]))
    data = message(1, message(1, attribute), message(2, scope))
    assert decode("telemetry", data, Hints(compression=0)).value == {
        "resources": [
            {
                "attributes": {"zone": "eu"},
                "scopes": [{"name": "lib", "version": "1.0", "attributes": {"zone": "eu"}, "metrics": []}],
            }
        ]
    }


def test_faults_keep_what_came_before() -> None:
    found = decode("telemetry", GAUGE + SUM[:-3], Hints(compression=0))
    assert len(found.value["resources"]) == 1
    [(offset, _, reason)] = found.problems
    assert reason == "3 of 100 bytes are missing"
    assert offset == len(GAUGE) + 2
    found = decode("telemetry", compress(Codec.ZSTD, GAUGE)[:-5], Hints(compression=4))
    assert found.problems
    found = decode("telemetry", b"x", Hints(compression=7))
    assert found.value is None
    assert "unknown compression codec 7" in found.problems[0][2]


def test_bombs_are_bounded() -> None:
    with limits(telemetry_bytes=1000):
        found = decode("telemetry", compress(Codec.ZSTD, bytes(100_000)), Hints(compression=4))
    assert found.value is None
    assert found.limit == "telemetry_bytes"
    assert "would go over the limit telemetry_bytes (1,000 bytes)" in found.problems[0][2]


def test_nothing_pushed() -> None:
    found = decode("telemetry", b"", Hints(compression=4))
    assert (found.value, found.problems) == (None, ())


@settings(deadline=None)
@given(st.binary(max_size=100), st.integers(0, len(GAUGE + SUM)))
def test_any_bytes(data: bytes, at: int) -> None:
    whole = GAUGE + SUM
    for content in (data, whole[:at] + data + whole[at + len(data) :]):
        decode("telemetry", content, Hints(compression=0))
        decode("telemetry", content)
