"""Missing compression, and compression that makes data larger."""

from __future__ import annotations

import random

from captures.analysis.findings.batch_samples import worth_a_look
from captures.analysis.findings.common import NO_PRODUCE
from captures.analysis.findings.finding import Severity
from captures.analysis.findings.rules.batches import CompressionGrows, NoCompression
from dissectors.records import Codec
from tests.captures.analysis.findings.group_kit import made, of_exchanges
from tests.captures.analysis.findings.record_kit import batch, of_recording, produce

TEXT = b'{"customer": 4711, "state": "shipped", "warehouse": "north"}' * 100
NOISE = random.Random(4).randbytes(6000)


def test_a_sample_gets_thinner() -> None:
    looked = [count for count in range(1, 300) if worth_a_look(count)]
    assert looked == [*range(1, 17), 32, 64, 128, 256]


# ---------------------------------------------------------------- missing
def test_much_text_that_is_not_compressed() -> None:
    sent = [produce(batch(10, value=TEXT), number=at) for at in range(1, 20)]
    (found,) = of_exchanges(NoCompression, *sent)
    assert found.subject == "client app, topic orders"
    assert found.severity is Severity.LOW
    assert "sent 1.1 MiB to orders uncompressed" in found.sentence
    assert "saved about 100%" in found.sentence
    assert of_exchanges(NoCompression, *sent[:9]) == []


def test_what_would_not_get_smaller() -> None:
    noise = [produce(batch(1, value=random.Random(at).randbytes(60_000))) for at in range(20)]
    assert of_exchanges(NoCompression, *noise) == []
    assert of_exchanges(NoCompression, *[produce(batch(10, value=TEXT, codec=Codec.LZ4))] * 400) == []


def test_healthy_producers_without_compression_send_little() -> None:
    assert of_recording("20_k430_java_none", NoCompression) == []
    (found,) = of_recording("20_k430_java_none", NoCompression, size=1000)
    assert found.subject == "client java-none, topic qc-java-none"


# ---------------------------------------------------------------- useless
def test_compression_of_what_is_random_grows() -> None:
    sent = [produce(batch(1, value=NOISE, codec=Codec.GZIP), number=at) for at in range(1, 30)]
    (found,) = of_exchanges(CompressionGrows, *sent)
    assert found.subject == "client app, topic orders, gzip"
    assert "0% larger than without" in found.sentence
    assert "16 of 29 batches sampled" in found.sentence
    assert of_exchanges(CompressionGrows, *sent[:15]) == []


def test_compression_that_saves_on_the_whole() -> None:
    noise = [produce(batch(1, value=NOISE[:300], codec=Codec.GZIP))] * 12
    text = [produce(batch(1, value=TEXT, codec=Codec.GZIP))] * 4
    assert of_exchanges(CompressionGrows, *noise, *text) == []
    assert of_exchanges(CompressionGrows, *[produce(batch(1, value=TEXT, codec=Codec.ZSTD))] * 20) == []


def test_old_messages_and_what_cannot_be_decompressed_are_left_out() -> None:
    old = produce(batch(1, value=NOISE, magic=1, codec=Codec.GZIP))
    broken = bytearray(batch(1, value=NOISE, codec=Codec.LZ4))
    broken[61:70] = b"\xff" * 9
    assert of_exchanges(CompressionGrows, *[old, produce(bytes(broken))] * 20) == []


def test_what_they_cannot_judge() -> None:
    for rule in (CompressionGrows, NoCompression):
        assert made(rule).blind() == NO_PRODUCE
        assert made(rule, exchanges=[produce(batch(1))]).blind() == ""
