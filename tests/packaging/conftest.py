"""The package, built with the backend of ``pyproject.toml`` and without network."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.packaging.tree import ROOT, Build


@pytest.fixture(scope="session")
def build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    """Return a function that builds a target, ``wheel`` or ``sdist``, from a tree, and returns the file."""
    if find_spec("hatchling") is None:
        pytest.skip("hatchling, which builds the package, is not installed: pip install -e '.[dev]'")

    def built(target: str, tree: Path = ROOT, **environment: str) -> Path:
        folder = tmp_path_factory.mktemp(target)
        subprocess.run(
            [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(folder)],
            cwd=tree,
            check=True,
            capture_output=True,
            env={**os.environ, **environment},
        )
        (file,) = folder.iterdir()
        return file

    return built


@pytest.fixture(scope="session")
def sdist(build: Build) -> Path:
    """The source distribution."""
    return build("sdist")


@pytest.fixture(scope="session")
def unpacked(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, unpacked into another folder; times and modes differ from those of the tree."""
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    for path in tree.rglob("*"):
        os.utime(path, (1_234_567_890, 1_234_567_890))
        path.chmod(0o700 if path.is_dir() or path.stat().st_mode & 0o100 else 0o600)
    return tree


@pytest.fixture(scope="session")
def wheel(build: Build) -> Path:
    """The wheel."""
    return build("wheel")
