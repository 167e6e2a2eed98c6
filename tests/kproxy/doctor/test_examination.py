"""All areas are examined, even if one of them fails."""

from __future__ import annotations

import pytest

from kproxy.doctor import AREAS, Check, State, examination, examine


@pytest.mark.slow
def test_all_areas() -> None:
    found = examine()
    assert list(found.areas) == list(AREAS)
    assert all(found.areas.values())
    assert found.works


def test_what_fails_is_broken_and_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Check:
        raise RuntimeError("the library is of another machine\nand more")

    monkeypatch.setattr("kproxy.doctor.proxy.descriptors", fail)
    found = examine(["proxy", "TLS"])
    assert [(check.name, check.state) for check in found.areas["proxy"]] == [
        ("event loop", State.OK),
        ("proxy", State.BROKEN),
    ]
    assert found.areas["proxy"][1].found == "RuntimeError: the library is of another machine"
    assert len(found.areas["TLS"]) == 2
    assert not found.works


def test_an_area_that_cannot_be_imported() -> None:
    (check,) = examination.checked_area("core", "kproxy.doctor.no_such_area")
    assert check.state is State.BROKEN
    assert "no_such_area" in check.found
