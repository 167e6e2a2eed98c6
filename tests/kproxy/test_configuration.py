"""The configuration file: its location, profiles, and error positions."""

from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.configuration import FILE, Configuration, ConfigurationError, configuration_folder, load

TEXT = """\
limit = ["message_records=5M"]
[read]
count = 3
"quoted key" = 1

[ profile . fast.read ]
count = 1
[profile.fast]
proxy.listen = ":1"
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("KPROXY_CONFIG", raising=False)
    monkeypatch.delenv("KPROXY_PROFILE", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    (tmp_path / "config" / "kproxy").mkdir(parents=True)
    return tmp_path


def test_the_nearest_file_holds(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load() == Configuration()
    user = folder / "config" / "kproxy"
    for number, file in enumerate((user / "config.toml", user / FILE, Path(FILE))):
        file.write_text(f"[read]\ncount = {number}\n")
        assert (load().path, load().tables) == (file, {"read": {"count": number}})
    named = folder / "named.toml"
    named.write_text("[read]\ncount = 3\n")
    monkeypatch.setenv("KPROXY_CONFIG", str(named))
    assert load().path == named
    assert load(Path(FILE)).path == Path(FILE)


def test_a_relative_folder_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert configuration_folder() == Path.home() / ".config" / "kproxy"


def test_a_file_that_others_may_write_is_not_found_by_itself() -> None:
    Path(FILE).write_text(TEXT)
    Path(FILE).chmod(0o666)
    found = load()
    assert found.path is None
    assert "is not used" in found.notes[0]
    assert load(Path(FILE)).path == Path(FILE)


def test_a_profile_lies_over_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    Path(FILE).write_text(TEXT)
    assert load().table("read")["count"] == 3
    fast = load(profile="fast")
    assert fast.table("read") == {"count": 1, "quoted key": 1}
    assert fast.table("proxy") == {"listen": ":1"}
    assert fast.location("read", "count") == "kproxy.toml, line 7: profile.fast.read.count"
    assert fast.location("read", "quoted key") == "kproxy.toml, line 4: read.quoted key"
    assert fast.location("limit") == "kproxy.toml, line 1: limit"
    assert fast.location("proxy", "listen") == "kproxy.toml, line 9: profile.fast.proxy.listen"
    assert fast.location("proxy", "nowhere") == "kproxy.toml: proxy.nowhere"
    monkeypatch.setenv("KPROXY_PROFILE", "fast")
    assert load() == fast


@pytest.mark.parametrize(
    ("content", "profile", "problem"),
    [
        (b"read = [", "", "kproxy.toml: this is not TOML: "),
        (b"a = " + b"[" * 100_000, "", "kproxy.toml: this is not TOML: "),
        (b"\xff", "", "kproxy.toml: this is not UTF-8 text: byte 0"),
        (
            TEXT.encode(),
            "fist",
            "kproxy.toml: profile.fist: there is no profile of that name (did you mean fast?)",
        ),
        (b"[profile]\nfast = 3", "fast", "kproxy.toml, line 2: profile.fast: this must be a table"),
        (b"profile = 3", "fast", "kproxy.toml, line 1: profile: this must be a table"),
        (None, "fast", "there is no kproxy.toml to contain a profile 'fast'"),
    ],
)
def test_what_cannot_be_read_is_told(content: bytes | None, profile: str, problem: str) -> None:
    if content is not None:
        Path(FILE).write_bytes(content)
    with pytest.raises(ConfigurationError) as caught:
        load(profile=profile)
    assert str(caught.value).startswith(problem)


def test_a_file_that_is_named_has_to_be_there() -> None:
    with pytest.raises(ConfigurationError, match=r"nowhere\.toml: there is no such file"):
        load(Path("nowhere.toml"))
