"""Each case is kept once, however often it occurs, until it is fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz.cases import Cases, guarded, signature
from fuzz.target import Target, Violation, check


def broken(data: bytes) -> None:
    check(data != b"bad", "bytes", len(data), "are bad")
    if data.startswith(b"key"):
        raise KeyError(data)


TARGET = Target(
    "made", broken, lambda: iter([("one", b"fine"), ("two", b"key 1"), ("three", b"key 2")]), "", 9
)


def error_of(data: bytes) -> Exception:
    try:
        broken(data)
    except Exception as error:
        return error
    raise AssertionError("it holds")


def test_a_case_is_told_by_what_it_is_and_where_it_came_from() -> None:
    assert signature(error_of(b"key 1")) == signature(error_of(b"key 2"))
    assert "KeyError tests/fuzz/test_cases.py:" in signature(error_of(b"key 1"))
    assert signature(error_of(b"bad")).startswith("Violation bytes # are bad tests/fuzz/test_cases.py:")


def test_each_is_kept_once(tmp_path: Path) -> None:
    cases = Cases(tmp_path / "made.cases", tmp_path / "found")
    first = cases.take(b"key 1", error_of(b"key 1"))
    assert first is not None
    assert first.read_bytes() == b"key 1"
    assert cases.take(b"key 2", error_of(b"key 2")) is None
    assert cases.take(b"bad", error_of(b"bad")) is not None
    later = Cases(tmp_path / "made.cases", tmp_path / "found")
    assert later.take(b"key 3", error_of(b"key 3")) is None
    assert later.lines()[0]["input"] == first.name
    assert "KeyError: b'key 1'" in later.lines()[0]["traceback"]


def test_what_is_mended_is_a_case_again_if_it_comes_again(tmp_path: Path) -> None:
    cases = Cases(tmp_path / "made.cases", tmp_path / "found")
    cases.take(b"key 1", error_of(b"key 1"))
    cases.take(b"bad", error_of(b"bad"))
    cases.forget_mended(Target("made", lambda data: check(data != b"bad"), lambda: iter(()), "", 9))
    assert [line["told_by"].split()[0] for line in cases.lines()] == ["Violation"]
    assert cases.take(b"key 1", error_of(b"key 1")) is not None


def test_a_target_may_begin_with_what_breaks_it(tmp_path: Path) -> None:
    cases = Cases(tmp_path / "made.cases", tmp_path / "found")
    assert [path.read_bytes() for path in cases.warm(TARGET)] == [b"key 1"]


def test_an_input_without_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """The timer is the system's; here it expires at once."""
    import fuzz.cases as module

    monkeypatch.setattr(module.signal, "setitimer", lambda which, most: most and module._too_long(0, None))
    with pytest.raises(Violation, match="processor time"):
        guarded(TARGET)(b"fine")
