"""Reading selected fields of many exchanges: the same values as the full decode, for frames of all kinds."""

from __future__ import annotations

import numpy as np
import pytest

from captures.exchanges import ExchangeReader, open_capture, projected_reader
from captures.exchanges.projected_reader import NEEDS, ProjectedReader, paths_of
from dissectors.projection import pick, tree
from tests.captures.recorded import FOLDER

NAMES = (
    "20_k430_ck_zstd.pcap",
    "09_snaplen128.pcap",
    "01_mock_java_throttle_bug.pcap",
    "01_nafka_kafkajs_none.pcap",
    "35_k282_sasl_plain.pcap.zst",
    "36_k251_sweep.pcap.zst",
)


def read(name):
    capture = open_capture(str(FOLDER / name))
    capture.read()
    return capture


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", NAMES)
def test_projected_values_are_parts_of_the_full_ones(name):
    capture = read(name)
    needs = frozenset(NEEDS)
    rows = np.arange(len(capture.table))
    exchanges = {x.row: x for x in ExchangeReader(capture, annotate=False, summary=False)}
    met = 0
    for parts in ProjectedReader(capture, lambda _: needs).read(rows):
        whole = exchanges[parts.row]
        assert parts.key == (-1 if whole.api_key is None else whole.api_key)
        for side, part, body in (
            ("request", parts.request, whole.request),
            ("response", parts.response, whole.response),
        ):
            if part is None:
                continue
            met += 1
            assert (part.version, part.guess) == (body.version, body.guess)
            if part.value is None:
                assert body.value is None
                continue
            wanted = tree(paths_of(needs, parts.key, part.version, side))
            assert pick(part.value, wanted) == pick(body.value, wanted), (whole.number, side)
    assert met


@pytest.mark.slow
def test_every_row_comes_once_in_the_given_order(monkeypatch):
    capture = read("36_k251_sweep.pcap.zst")
    rows = np.random.default_rng(1).permutation(len(capture.table))
    reader = ProjectedReader(capture, lambda _: frozenset({"topics"}))
    whole = list(reader.read(rows))
    assert [parts.row for parts in whole] == rows.tolist()
    monkeypatch.setattr(projected_reader, "_MOST_BYTES", 500)
    assert list(reader.read(rows)) == whole
    assert list(reader.read(rows[:0])) == []


def test_a_side_of_which_nothing_is_wanted_is_not_read(monkeypatch):
    capture = read("20_k430_ck_zstd.pcap")
    asked = []
    original = projected_reader.read_frames

    def counted(of, rows, room):
        asked.extend(side for side in rows for _ in rows[side])
        return original(of, rows, room)

    monkeypatch.setattr(projected_reader, "read_frames", counted)
    reader = ProjectedReader(capture, lambda key: frozenset({"acks"} if key == 0 else ()))
    found = list(reader.read(np.arange(len(capture.table))))
    produced = int(np.count_nonzero(capture.table.column("api_key") == 0))
    assert asked == ["request"] * produced
    assert [parts.request.value["acks"] for parts in found if parts.request] == [-1] * produced
    assert not any(parts.response for parts in found)


def test_paths_may_be_asked_for_with_their_side():
    assert paths_of(frozenset({"request.topics.topic", "acks"}), 1, 4, "request") == {"topics.topic", "acks"}
    assert paths_of(frozenset({"request.topics.topic"}), 1, 4, "response") == frozenset()
