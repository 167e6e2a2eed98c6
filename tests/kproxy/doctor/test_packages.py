"""Requirements and versions are parsed as by ``packaging``; commands fit the way in which kproxy was installed."""

from __future__ import annotations

import sys
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement as Truth
from packaging.specifiers import SpecifierSet

from kproxy.doctor import packages


def test_requirements_are_those_of_the_metadata() -> None:
    for extra in (None, "spark", "parquet", "metrics"):
        truth = {
            each.name: each.specifier
            for each in map(Truth, requires("kproxy") or ())
            if (each.marker is None or each.marker.evaluate({"extra": extra or ""}))
            and ("extra" in str(each.marker)) == (extra is not None)
        }
        found = {
            each.name: SpecifierSet(each.bounds) for each in packages.requirements() if each.extra == extra
        }
        assert found == truth
        assert found
    assert "pytest" not in {each.name for each in packages.requirements()}


@pytest.mark.parametrize("bounds", ["<3,>=1.26", "==8.2.8", ">=15", "", ">=2.0,!=2.4.6", "<=2", ">2.4"])
@pytest.mark.parametrize(
    "have", ["1.26", "1.26.0", "2", "2.0.0", "2.4", "2.4.6", "3.0", "8.2.8", "15.0.1", "26.0.1"]
)
def test_bounds_hold_as_they_do_for_packaging(have: str, bounds: str) -> None:
    assert packages.within(have, bounds) == SpecifierSet(bounds).contains(have)


def test_what_is_not_installed_fits_nothing() -> None:
    missing = packages.Requirement("kproxy-no-such-package", ">=1", None)
    assert missing.installed is None
    assert not missing.fits


def test_pip_is_told_where_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/opt/my tools/bin/python")
    command = packages.install_command("kproxy[spark]")
    assert command == "'/opt/my tools/bin/python' -m pip install 'kproxy[spark]'"


def test_pipx_installs_into_its_own_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    venv = tmp_path / "kproxy"
    venv.mkdir()
    (venv / "pipx_metadata.json").touch()
    monkeypatch.setattr(sys, "prefix", str(venv))
    assert packages.install_command("kproxy[metrics]") == "pipx runpip kproxy install 'kproxy[metrics]'"


def test_a_tool_of_uv_has_no_pip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(sys, "executable", "/x/bin/python")
    assert packages.install_command("kproxy[jdk]") == "uv pip install --python /x/bin/python 'kproxy[jdk]'"


@pytest.mark.parametrize(
    ("manager", "command"),
    [
        ("apt-get", "sudo apt-get install libpcap0.8"),
        ("apk", "sudo apk add libpcap"),
        ("brew", "brew install libpcap"),
        ("", ""),
    ],
)
def test_packages_of_the_system(monkeypatch: pytest.MonkeyPatch, manager: str, command: str) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}" if name == manager else None)
    assert packages.system_command({"": "libpcap", "apt-get": "libpcap0.8"}) == command


def test_lists_read_well() -> None:
    assert [packages.listed(each) for each in (["a"], ["a", "b"], ["a", "b", "c"])] == [
        "a",
        "a and b",
        "a, b and c",
    ]
