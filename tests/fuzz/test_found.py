"""Every input of the corpus, and every one that ever broke a target, run through its target without atheris.

Those of ``fuzz/open`` must still break theirs: a fixed one has to be moved to ``fuzz/found``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fuzz import seeds
from fuzz.engine import replay
from fuzz.target import CORPUS, FOUND, NAMES, OPEN, Violation, kept, known, load, whole


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs_hold(name: str) -> None:
    paths = kept(name)
    assert paths, f"no corpus: python -m fuzz.seeds makes it: {CORPUS / name}"
    broken = replay(load(name), paths)
    assert not broken, "\n".join(f"{path}\n{text}" for path, text in broken.items())


@pytest.mark.xfail(strict=True, raises=Violation, reason="known and not mended; once it holds: to fuzz/found")
@pytest.mark.parametrize(
    ("name", "path"),
    [pytest.param(name, path, id=f"{name}-{path.name}") for name in NAMES for path in known(name)],
)
def test_open_inputs_still_break_their_target(name: str, path: Path) -> None:
    whole(load(name))(path.read_bytes())


def test_every_folder_belongs_to_a_target() -> None:
    folders = {path.name for root in (CORPUS, FOUND, OPEN) if root.is_dir() for path in root.iterdir()}
    assert folders <= set(NAMES)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for name in NAMES for path in (*kept(name), *known(name))]
    assert sum(sizes) <= seeds.MOST_BYTES


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_within_the_bounds_of_their_target(name: str) -> None:
    target = load(name)
    found = dict(target.seeds())
    assert found
    assert max(map(len, found.values())) <= target.longest
    written = {path.name for path in (CORPUS / name).glob(f"{seeds.SEED}*")}
    assert written == {seeds.file_name(label) for label in found}, "python -m fuzz.seeds writes them"
