"""Every input of the corpus, and every one that ever broke a target, through its target, without atheris."""

from __future__ import annotations

import pytest

from fuzz import seeds
from fuzz.engine import replay
from fuzz.target import CORPUS, FOUND, NAMES, kept, load


@pytest.mark.parametrize("name", NAMES)
def test_kept_inputs_hold(name: str) -> None:
    paths = kept(name)
    assert paths, f"no corpus: python -m fuzz.seeds makes it: {CORPUS / name}"
    broken = replay(load(name), paths)
    assert not broken, "\n".join(f"{path}\n{text}" for path, text in broken.items())


def test_every_folder_belongs_to_a_target() -> None:
    folders = {path.name for root in (CORPUS, FOUND) if root.is_dir() for path in root.iterdir()}
    assert folders <= set(NAMES)


def test_the_corpus_is_small() -> None:
    sizes = [path.stat().st_size for name in NAMES for path in kept(name)]
    assert sum(sizes) <= seeds.MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_seeds_are_within_the_bounds_of_their_target(name: str) -> None:
    target = load(name)
    found = dict(target.seeds())
    assert found
    assert max(map(len, found.values())) <= target.longest
    written = {path.name for path in (CORPUS / name).glob(f"{seeds.SEED}*")}
    assert written == {seeds.file_name(label) for label in found}, "python -m fuzz.seeds writes them"
