"""Lines about exchanges affected by loss or guesses."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from captures.exchanges import ExchangeReader, Flag, open_capture
from kproxy.text.lines import response_text
from tests.captures.exchanges.talk import Talk, packets
from tests.captures.packets.kit import pcap


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        (Flag(0), ""),
        (Flag.CONFLICTING, "(captured twice, with differing bytes)"),
        (Flag.RESYNCHRONISED, "(found after bytes of no frame)"),
        (Flag.UNANSWERED | Flag.RESYNCHRONISED, "NO ANSWER (found after bytes of no frame)"),
        (Flag.ORPHAN | Flag.RESYNCHRONISED, "response to an unseen request, correlation ID 0 (found after"),
    ],
)
def test_what_is_special_is_said(tmp_path: Path, flag: Flag, said: str) -> None:
    talk = Talk(0)
    talk.exchange(0, key=18, version=0, body=b"")
    path = tmp_path / "talk.pcap"
    path.write_bytes(pcap(list(packets(talk, Random(1)))))
    capture = open_capture(str(path))
    capture.read()
    capture.table.mark(0, flag)
    (exchange,) = ExchangeReader(capture)
    text, _ = response_text(exchange)
    assert said in text
    assert ("(found" in text) == bool(flag & Flag.RESYNCHRONISED)
