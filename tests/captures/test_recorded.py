"""The project's captures give the same as when they equalled the reference, in blocks of any size."""

from __future__ import annotations

import json

import pytest
import zstandard

from captures.exchanges import open_capture
from tests.captures.exchanges.talk import outcome
from tests.captures.recorded import CAPTURES, EXPECTED, FOLDER, summary
from tests.reference import captures_dir, needs_reference

#: link types, timestamps and losses aside: what is in a capture does not depend on how it is read
BLOCK_SIZES = (3000, 50_000)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CAPTURES)
def test_reads_as_verified(name: str) -> None:
    expected = json.loads(EXPECTED.read_text(encoding="utf-8"))
    found = json.loads(json.dumps(summary(name)))
    for part, value in expected[name].items():
        assert found[part] == value, part
    assert set(found) == set(expected[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", CAPTURES)
def test_blocks_of_any_size_give_the_same(name: str) -> None:
    """Frames cross blocks, and connections switch between the bulk and the thorough path at other places."""
    whole = open_capture(str(FOLDER / name))
    whole.read()
    for block_size in BLOCK_SIZES:
        capture = open_capture(str(FOLDER / name), block_size)
        capture.read()
        assert outcome(capture) == outcome(whole), block_size


def test_every_expectation_has_its_capture() -> None:
    assert list(json.loads(EXPECTED.read_text(encoding="utf-8"))) == list(CAPTURES)
    assert all((FOLDER / name).is_file() for name in CAPTURES)


@needs_reference
@pytest.mark.parametrize("name", CAPTURES)
def test_is_the_capture_that_the_oracle_is_about(name: str) -> None:
    data = (FOLDER / name).read_bytes()
    if name.endswith(".zst"):
        data = zstandard.ZstdDecompressor().decompress(data, max_output_size=1 << 24)
    assert data == (captures_dir() / name.removesuffix(".zst")).read_bytes()
