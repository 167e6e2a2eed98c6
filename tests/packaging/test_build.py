"""The wheel and the source distribution: their content, reproducibility and installation."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from email.message import Message
from email.parser import Parser
from importlib.metadata import version
from pathlib import Path

from tests.packaging.tree import ROOT, Build

PACKAGES = ("kproxy", "captures", "dissectors")
LEFT_OUT = ("__pycache__", ".pyc")


def files_of(folder: str) -> set[str]:
    """Return the files below a folder of the tree, without those that Python creates."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not any(part in path.as_posix() for part in LEFT_OUT)
    }


def members(sdist: Path) -> set[str]:
    with tarfile.open(sdist) as archive:
        return {each.name.partition("/")[2] for each in archive.getmembers() if each.isfile()}


# ------------------------------------------------------------ reproducible
def test_the_same_sources_make_the_same_source_distribution(
    build: Build, sdist: Path, unpacked: Path
) -> None:
    assert build("sdist", unpacked).read_bytes() == sdist.read_bytes()


def test_the_same_sources_make_the_same_wheel(build: Build, wheel: Path, unpacked: Path) -> None:
    assert build("wheel", unpacked).read_bytes() == wheel.read_bytes()


def test_times_are_those_that_were_asked_for(build: Build, wheel: Path) -> None:
    dated = build("wheel", SOURCE_DATE_EPOCH="1700000000")  # 2023-11-14T22:13:20Z
    with zipfile.ZipFile(dated) as archive:
        assert {each.date_time for each in archive.infolist()} == {(2023, 11, 14, 22, 13, 20)}
    assert dated.read_bytes() != wheel.read_bytes()


# ------------------------------------------------------------ content
def test_the_wheel_has_the_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    inside = {name for name in names if name.partition("/")[0] in PACKAGES}
    assert inside == set().union(*map(files_of, PACKAGES))
    assert {name.partition("/")[0] for name in names - inside} == {
        f"kproxy-{version('kproxy')}.dist-info",
        f"kproxy-{version('kproxy')}.data",
        "pyspark_kproxy.py",  # Spark finds the data source by this name
    }
    assert {f"{package}/py.typed" for package in PACKAGES} <= inside
    assert "captures/samples/rebalance.pcap" in inside


def test_the_wheel_has_the_manual_pages(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        man = {name.rpartition("/share/man/man1/")[2] for name in archive.namelist() if "/share/" in name}
    assert man == {Path(each).name for each in files_of("docs/man")}
    assert "kproxy.1" in man


def test_the_wheel_says_what_it_is(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (place,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        said: Message = Parser().parsestr(archive.read(place).decode())
        (entries,) = [name for name in names if name.endswith("/entry_points.txt")]
        assert archive.read(entries).decode().split() == [
            "[console_scripts]",
            "kproxy",
            "=",
            "kproxy.cli:main",
            "[pytest11]",
            "kproxy",
            "=",
            "kproxy.testing.plugin",
        ]
    assert said["Name"] == "kproxy"
    assert said["License-Expression"] == "MIT"
    assert said["Requires-Python"] == ">=3.11"
    assert said.get_payload() == (ROOT / "README.md").read_text()
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)


def test_the_source_distribution_has_tests_and_what_they_need(sdist: Path) -> None:
    found = members(sdist)
    for folder in (*PACKAGES, "tests", "docs", "benchmarks", ".ci"):
        assert files_of(folder) <= found, folder
    assert {
        "pyproject.toml",
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "Containerfile",
        ".dockerignore",
    } <= found
    assert not [name for name in found if any(part in name for part in LEFT_OUT)]


# ------------------------------------------------------------ installation
def test_the_wheel_installs_and_runs(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv")
    scripts = tmp_path / "venv" / "bin"
    quiet = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    quiet.pop("PYTHONPATH", None)

    def run(*command: str | Path) -> str:
        return subprocess.run(
            [str(scripts / command[0]), *map(str, command[1:])],
            cwd=tmp_path,
            env=quiet,
            check=True,
            capture_output=True,
            text=True,
        ).stdout

    install = [sys.executable, "-m", "pip", "--python", str(scripts / "python"), "install"]
    subprocess.run(
        [*install, "--no-index", "--no-deps", str(wheel)], env=quiet, check=True, capture_output=True
    )
    where = Path(run("python", "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    # kproxy's dependencies come from the environment of the tests; kproxy itself does not
    needed = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}
    (where / "needed.pth").write_text("\n".join(needed))
    assert Path(run("python", "-c", "import kproxy; print(kproxy.__file__)").strip()).is_relative_to(where)
    assert run("kproxy", "--version") == f"kproxy {version('kproxy')}\n"
    sample = where / "captures" / "samples" / "rebalance.pcap"
    assert len(run("kproxy", "read", "--json", sample).splitlines()) == 402
    assert (tmp_path / "venv" / "share" / "man" / "man1" / "kproxy-read.1").is_file()


def test_kproxy_is_not_tested_with_an_old_build_of_itself() -> None:
    """The tests import the tree, even if a wheel is installed as well."""
    import kproxy

    assert Path(kproxy.__file__).is_relative_to(ROOT), sys.path
