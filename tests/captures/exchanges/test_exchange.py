"""Fully decoded exchanges from captures that come with the project."""

from __future__ import annotations

import re
from itertools import islice
from pathlib import Path

import msgspec
import pytest

from captures.exchanges import Exchange, ExchangeReader, open_capture, rfc3339
from captures.interventions import FLAGS
from captures.json_objects import to_json
from tests.captures.recorded import FOLDER

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "json.md"


def read(name: str, **options: bool) -> list[Exchange]:
    capture = open_capture(str(FOLDER / name))
    capture.read()
    return list(ExchangeReader(capture, **options))


def test_any_exchange_alone_is_what_it_is_in_order() -> None:
    """The names of topic IDs come from earlier exchanges, which are then read first."""
    name = "20_k430_ck_zstd.pcap"
    in_order = [msgspec.json.encode(to_json(exchange)) for exchange in read(name)]
    capture = open_capture(str(FOLDER / name))
    capture.read()
    fetches = [
        n for n, text in enumerate(in_order) if b'"api":"Fetch"' in text and b"topics[0].topic_id" in text
    ]
    assert fetches
    for index in (fetches[-1], 0, fetches[0], len(in_order) - 1):
        reader = ExchangeReader(capture)
        assert msgspec.json.encode(to_json(reader.exchange(index))) == in_order[index]


@pytest.mark.slow
def test_keys_and_flags_are_those_of_the_document() -> None:
    text = DOCUMENT.read_text(encoding="utf-8")
    head, _, flags = text.partition("## `flags`")
    flags = flags.partition("\n## ")[0]
    documented = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.+?) \|", head, re.MULTILINE))))
    known = set(re.findall(r"`([a-z_]+)`", "".join(re.findall(r"^\| (`.+?) \|", flags, re.MULTILINE))))
    shapes = [to_json(exchange) for name in SHOWN for exchange in read(name)]
    assert {key for shape in shapes for key in shape} == documented - {"frame_numbers"}
    met = {flag for shape in shapes for flag in shape["flags"]}
    assert met <= known
    # no client here is newer than this project, none retransmits different bytes, nothing before was lost, no response
    # either, no proxy was in between, and there is no request log
    logged = {"request_logged", "response_logged"}
    assert known - met == {
        "request_guessed",
        "conflicting",
        "resynchronised",
        "not_recorded",
        *FLAGS,
        *logged,
    }


SHOWN = (
    "01_mock_java_throttle_bug.pcap",
    "01_nafka_kafkajs_none.pcap",
    "09_snaplen128.pcap",
    "20_k430_ck_zstd.pcap",
    "24_k430_franz_scramsha256.pcap",
    "26_k430_add_controller_controller.pcap.zst",
    "30_k0822_scala_acks0_partial.pcap",
    "35_k282_sasl_plain.pcap.zst",
)


@pytest.mark.slow
def test_secrets_are_masked_unless_asked_for() -> None:
    """alice's password in 35_k282_sasl_plain is alice-secret (the JAAS file of the broker)."""
    name = "35_k282_sasl_plain.pcap.zst"
    masked = b"".join(msgspec.json.encode(to_json(exchange)) for exchange in read(name))
    shown = read(name, show_secrets=True)
    tokens = [token for exchange in shown for token in exchange.tokens if token]
    assert b"\0alice\0alice-secret" in tokens
    assert b"alice-secret" not in masked
    assert msgspec.json.encode(tokens[0]).strip(b'"') not in masked
    first = next(exchange for exchange in shown if exchange.api == "SaslToken")
    assert to_json(first)["request"] == {"token": first.tokens[0]}
    assert (first.correlation_id, first.api_key, first.version) == (None, None, None)


@pytest.mark.slow
def test_damage_and_orphans_say_what_is_wrong() -> None:
    damaged = read("09_snaplen128.pcap")
    for exchange in damaged:
        for side, problem in exchange.problems:
            size = exchange.request_size if side == "request" else exchange.response_size
            assert -1 <= problem.offset <= size
        assert exchange.decoded_fully == (not exchange.problems and exchange.request_size > 0)
    cut = [exchange for exchange in damaged if "request_damaged" in exchange.flags]
    assert cut
    assert all(any("were not captured" in problem.reason for _, problem in each.problems) for each in cut)
    orphans = [each for each in read("26_k430_add_controller_controller.pcap.zst") if each.api == "unknown"]
    assert orphans
    assert all(each.request is None and not each.decoded_fully and each.problems for each in orphans)


def test_bodies_are_bytes_without_annotations() -> None:
    plain = read("32_k0102_java_snappy.pcap", annotate=False)
    shown = read("32_k0102_java_snappy.pcap")
    for bare, full in islice(zip(plain, shown, strict=True), None):
        assert not bare.annotations.decoded
        if bare.api == "Produce":
            assert bare.request is not None
            assert full.request is not None
            records = bare.request.value["topic_data"][0]["partition_data"][0]["records"]
            batches = full.request.value["topic_data"][0]["partition_data"][0]["records"]
            assert sum(batch["size"] for batch in batches) == len(records)
            break
    else:
        pytest.fail("no Produce")


def test_times_in_utc_with_nanoseconds() -> None:
    assert rfc3339(1_700_000_000_000_000_001) == "2023-11-14T22:13:20.000000001Z"


def test_rows_read_together_are_those_read_one_by_one() -> None:
    capture = open_capture(str(FOLDER / "24_k430_franz_scramsha256.pcap"))
    capture.read()
    reader = ExchangeReader(capture)
    assert list(reader.bares(range(len(reader)))) == [reader.bare(index) for index in range(len(reader))]
    assert [each.number for each in reader.bares([4, 2])] == [5, 3]
