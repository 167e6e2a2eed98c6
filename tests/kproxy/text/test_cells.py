"""Text in cells: shortening to few cells."""

from __future__ import annotations

import pytest

from kproxy.text.cells import cut_apart, cut_name, width


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("127.0.0.1:29092", 15, "127.0.0.1:29092"),
        ("127.0.0.1:29092", 12, "127.0…:29092"),
        ("127.0.0.1:29092", 7, "…:29092"),
        ("127.0.0.1:29092", 6, ":29092"),
        ("127.0.0.1:29092", 5, "127.…"),  # no room for the port: shortened like any text
        ("[fd00::1]:9092", 10, "[fd0…:9092"),
        ("m3 (127.0.0.1:50608)", 15, "m3 (127…:50608)"),
        ("größe-größe:9092", 9, "grö…:9092"),
        ("orders-of-yesterday-3", 12, "orders…day-3"),
        ("orders-of-yesterday-12@4711", 12, "ord…-12@4711"),
        ("日本語のトピック-3", 10, "日本…ク-3"),
        ("CreateTopics v4", 12, "Create…cs v4"),
        ("m3 was removed from the group", 12, "m3 was remo…"),
        ("s1-StreamThread-2-consumer", 18, "s1-Str…-2-consumer"),
        ("s1-StreamThread-2-consumer", 12, "s1-…-2-cons…"),
        ("s1-StreamThread-2-consumer", 9, "s1-…-2-c…"),
        ("s1-StreamThread-2-consumer", 8, "s1-S…mer"),  # no room for the number
        ("__consumer_offsets", 12, "__cons…fsets"),
        ("00000000010004633004", 12, "00000000010…"),
        ("4711-orders-west", 12, "4711-o…-west"),
        ("orders-of-yesterday-12 at offset 7", 16, "orders-…day-12 …"),
        ("gr2-streams_kip1071-cnt-changelog 2-3  wait 500ms", 18, "gr2-stre…angelog …"),
        ("orders at offset 120412 of 3", 19, "orders at offset …"),
        ("orders 0-5 and 12:30", 10, "orders 0-…"),
        ('{"id":1,"name":"x"}', 10, '{"id":1,"…'),
        ("kafka", 3, "ka…"),
    ],
)
def test_names_are_cut_in_the_middle_and_sentences_at_their_end(text: str, room: int, shown: str) -> None:
    found = cut_name(text, room)
    assert found == shown
    assert width(found) <= room


def test_names_whose_ends_are_equal_are_cut_elsewhere() -> None:
    thread, updater = "s1-StreamThread-1-consumer", "s1-StateUpdater-1-restore-consumer"
    shown = cut_apart(thread, 8, ())
    assert shown == cut_name(thread, 8) == cut_name(updater, 8)
    assert cut_apart(updater, 8, {shown}) == "s1-St…er"
    assert cut_apart("m1", 10, {"m1"}) == "m1", "it is not cut"
