"""Text in cells: what is cut where there are too few."""

from __future__ import annotations

import pytest

from kproxy.text.cells import cut_host, width


@pytest.mark.parametrize(
    ("text", "room", "shown"),
    [
        ("127.0.0.1:29092", 15, "127.0.0.1:29092"),
        ("127.0.0.1:29092", 12, "127.0…:29092"),
        ("127.0.0.1:29092", 7, "…:29092"),
        ("127.0.0.1:29092", 6, ":29092"),
        ("127.0.0.1:29092", 5, "127.0.0.1:29092"),  # no room for the port: cut as any text
        ("[fd00::1]:9092", 10, "[fd0…:9092"),
        ("größe-größe:9092", 9, "grö…:9092"),
        ("kafka", 3, "kafka"),
        ("a:b\x1b[2J", 3, "a:b\ufffd[2J"),
    ],
)
def test_the_port_of_an_address_is_not_cut(text: str, room: int, shown: str) -> None:
    found = cut_host(text, room)
    assert found == shown
    if ":" in shown and shown != text and "\ufffd" not in shown:
        assert width(found) <= room
