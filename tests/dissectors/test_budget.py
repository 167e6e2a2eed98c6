from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from dissectors import budget
from dissectors.budget import LIMITS, Budget, LimitReached, LimitSettingError, configure, limit
from dissectors.errors import DecodeError


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(budget, "IN_FORCE", {name: each.default for name, each in LIMITS.items()})
    monkeypatch.setenv(budget.ENVIRONMENT, "")
    yield
    monkeypatch.delenv(budget.ENVIRONMENT, raising=False)


def test_what_is_spent_is_missing_later() -> None:
    mine = Budget("message_records")
    mine.spend("message_records", LIMITS["message_records"].default - 1)
    assert mine.left("message_records") == 1
    mine.spend("message_records", 1)
    with pytest.raises(LimitReached) as caught:
        mine.spend("message_records", 1, "batch 3")
    assert caught.value.limit == "message_records"
    assert caught.value.reason == "batch 3 would go over the limit message_records (1,000,000 records)"
    mine.give_back("message_records", 5)
    assert mine.left("message_records") == 5


@pytest.mark.parametrize(
    ("text", "value"), [("7", 7), ("3K", 3000), ("2MiB", 2 << 20), ("1G", 10**9), ("5kb", 5000)]
)
def test_values(text: str, value: int) -> None:
    configure([f"batch_bytes={text}"])
    assert limit("batch_bytes") == value


@pytest.mark.parametrize("setting", ["nothing=1", "batch_bytes", "batch_bytes=many", "batch_bytes=-1"])
def test_wrong_settings_change_nothing(setting: str) -> None:
    with pytest.raises(LimitSettingError):
        configure(["message_records=5", setting])
    assert limit("message_records") == 1_000_000


def test_processes_inherit_limits() -> None:
    configure(["message_records=5"])
    code = "from dissectors.budget import limit; print(limit('message_records'), limit('batch_records'))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "5 1000000\n"


def test_a_wrong_environment_ends_no_import(monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import dissectors.budget as b; print(b.limit('message_records'))"
    environment = {**os.environ, budget.ENVIRONMENT: "message_records=lots"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert told.stdout == "1000000\n"
    monkeypatch.setenv(budget.ENVIRONMENT, "message_records=lots")
    with pytest.raises(LimitSettingError, match="'lots' is not a number"):
        budget.from_environment()


def test_limits_are_changed_for_a_while() -> None:
    with budget.changed(batch_bytes=3):
        assert limit("batch_bytes") == 3
    assert limit("batch_bytes") == LIMITS["batch_bytes"].default


def test_an_error_stays_what_it_is_as_it_is_handed_out() -> None:
    reached = LimitReached("batch_bytes", "decompressing").moved(7, "records")
    assert (budget.limit_of(reached), reached.offset, reached.field_path) == ("batch_bytes", 7, "records")
    assert budget.limit_of(DecodeError("else")) == ""


def test_every_limit_is_in_the_reference() -> None:
    lines = budget.reference().splitlines()
    assert [line.split("`")[1] for line in lines[2:]] == list(LIMITS)
    assert "| `batch_bytes` | 128 MiB | batch |" in budget.reference()
