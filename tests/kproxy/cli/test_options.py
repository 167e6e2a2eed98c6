"""Options shared by several commands."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from dissectors import budget
from kproxy.cli import main
from tests.captures.recorded import FOLDER

CAPTURE = str(FOLDER / "20_k430_ck_zstd.pcap")


@pytest.fixture(autouse=True)
def defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(budget.ENVIRONMENT, "")
    with budget.changed():
        yield


def test_a_limit_is_kept_to_and_told() -> None:
    result = CliRunner().invoke(main, ["--limit", "message_records=0", "read", "--json", CAPTURE])
    assert result.exit_code == 3
    assert "would go over the limit message_records (0 records)" in result.stdout
    assert CliRunner().invoke(main, ["--limit", "message_records=2K", "read", CAPTURE]).exit_code == 0


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("message_records=5x", "limit message_records: '5x' is not a number such as 500000"),
        ("nothing=5", "there is no limit 'nothing'"),
    ],
)
def test_a_wrong_limit_is_wrong_usage(setting: str, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    result = CliRunner().invoke(main, ["--limit", setting, "read", CAPTURE])
    assert result.exit_code == 2
    assert says in result.stderr
    monkeypatch.setenv(budget.ENVIRONMENT, setting)
    result = CliRunner().invoke(main, ["read", CAPTURE])
    assert result.exit_code == 2
    assert f"the environment variable KPROXY_LIMITS: {says}" in result.stderr


def test_a_filter_that_cannot_be_decided_is_told() -> None:
    result = CliRunner().invoke(
        main, ["--limit", "message_records=0", "read", "-Y", "value ~ nowhere", CAPTURE]
    )
    assert result.exit_code == 3
    assert "whether the filter fits is undecided of" in result.stderr
    assert "more to read than the limit message_records (0 records)" in result.stderr


def test_an_export_tells_what_is_missing(tmp_path: object) -> None:
    arguments = ["--limit", "message_records=0", "export", CAPTURE, "-o", f"{tmp_path}/out.jsonl"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 3
    assert "what is beyond the limit message_records (0 records) is missing in" in result.stderr
