"""Exchanges with summaries made in bulk: the same as from the reader, except for bodies."""

from __future__ import annotations

from dataclasses import fields

import pytest

from captures.exchanges import ExchangeReader, open_capture, projected_reader, shapes
from captures.exchanges.summarised_exchanges import SummarisedExchanges
from tests.captures.recorded import CAPTURES, FOLDER

_NOTHING_ALIKE = ("01_mock_java_throttle_bug.pcap", "01_nafka_kafkajs_none.pcap", "06_tansu_garbage.pcap")
"""Captures in which nearly all exchanges are special, or provide context."""
_BODIES = {"request", "response"}


def read(path):
    capture = open_capture(str(path))
    capture.read()
    return capture


def told(exchange, *, waits=True):
    """Return everything that does not depend on the fields of bodies."""
    found = {each.name: getattr(exchange, each.name) for each in fields(exchange) if each.name not in _BODIES}
    for name in ("errors", "expected"):  # each has the structs around its code, which are not read in full
        found[name] = [error._replace(holders=()) for error in found[name]]
    if not waits:
        del found["wait"], found["wait_reason"]
    for side in _BODIES:
        body = getattr(exchange, side)
        found[side] = (
            None if body is None else (body.key, body.asked, body.version, body.guess, body.problems)
        )
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_everything_but_bodies_is_as_the_reader_has_it(name, monkeypatch):
    # small captures have few similar messages: one is enough
    monkeypatch.setattr(projected_reader, "_WORTH_SHARING", 1)
    monkeypatch.setattr(shapes, "_WORTH_A_SHAPE", 1)
    capture = read(FOLDER / name)
    whole = ExchangeReader(capture, annotate=False)
    made = SummarisedExchanges(ExchangeReader(capture, annotate=False), waits=True)
    indexes = range(len(whole))
    alike = 0
    for one, other in zip(whole.several(indexes), made.several(indexes), strict=True):
        assert told(other) == told(one)
        alike += other.request is not None and other.request.value == {} != one.request.value
    assert alike or name in _NOTHING_ALIKE


def test_any_rising_indexes_can_be_asked_for():
    capture = read(FOLDER / "20_k430_ck_zstd.pcap")
    whole = ExchangeReader(capture, annotate=False)
    made = SummarisedExchanges(ExchangeReader(capture, annotate=False), waits=False)
    for indexes in (range(5, len(whole), 3), range(len(whole) - 1, len(whole)), range(0)):
        expected = [told(each, waits=False) for each in whole.several(indexes)]
        assert [told(each, waits=False) for each in made.several(indexes)] == expected
