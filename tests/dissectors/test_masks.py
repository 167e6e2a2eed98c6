from __future__ import annotations

from dissectors.masks import Masks


def test_what_holds_a_secret() -> None:
    masks = Masks(["request.auth_bytes.password"])
    assert "request.auth_bytes.password" in masks
    assert "request.auth_bytes" not in masks
    assert masks.within("request.auth_bytes")
    assert not masks.within("request.auth")
    assert not masks.within("request.auth_bytes.password")


def test_what_is_covered() -> None:
    masks = Masks(["request.auth_bytes.password", "response.undecoded"])
    assert masks.covers("request.auth_bytes")
    assert masks.covers("request.auth_bytes.password")
    assert masks.covers("request.auth_bytes.password.hash[3]")
    assert not masks.covers("request.auth_bytes.user")
    assert not masks.covers("request.auth")
