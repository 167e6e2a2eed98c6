"""Alerts in words."""

from __future__ import annotations

import pytest

from captures.packets.tls import Alert
from dissectors.conversation import Side


@pytest.mark.parametrize(
    ("level", "code", "text"),
    [  # levels and codes: RFC 8446, section 6
        (1, 0, "warning alert close_notify from the client: the sender is done"),
        (2, 22, "fatal alert record_overflow from the client"),
        (2, 199, "fatal alert alert 199 from the client"),
        (7, 80, "level 7 alert internal_error from the client"),
    ],
)
def test_text(level: int, code: int, text: str) -> None:
    assert Alert(Side.CLIENT, 0, 7, level, code).text == text
