"""Fields of bodies that may be partial, null, or of another version."""

from __future__ import annotations

import pytest

from captures.meaning.exchange import Body, replica_of


@pytest.mark.parametrize(
    ("request_", "replica"),
    [
        ({"replica_id": 2}, 2),
        ({"replica_id": -1}, -1),
        ({"replica_state": {"replica_id": 3, "replica_epoch": 9}}, 3),
        ({"replica_state": None}, -1),
        ({}, -1),
    ],
)
def test_followers_tell_who_they_are(request_: Body, replica: int) -> None:
    assert replica_of(request_) == replica
