"""Versions seen live: the file's layouts exist, and each missing one has a reason."""

from __future__ import annotations

from docs.tools import versions_seen
from docs.tools.versions_seen import as_text, brokers_of, declared, layouts, load, page, unseen, unspoken
from tests.definitions import facts


def test_versions_are_written_as_they_are_read() -> None:
    assert as_text([5, 2, 1, 0]) == "0-2 5"
    ranges = {"Fetch": "0-2 5", "Produce": "3"}
    assert list(layouts(ranges)) == [("Fetch", 0), ("Fetch", 1), ("Fetch", 2), ("Fetch", 5), ("Produce", 3)]


def test_everything_that_was_seen_is_declared() -> None:
    everything = set(declared())
    requests = facts.kept().of_kind("request")
    assert len(everything) == sum(len(request.layouts) for request in requests)
    assert set(brokers_of(load())) <= everything


def test_what_was_not_seen_has_a_reason_and_nothing_else_has() -> None:
    assert set(unspoken()) == set(unseen(load()))


def test_a_version_that_was_not_seen_is_told() -> None:
    text = page({"4.0.2": {"clients": {"Fetch": "4-16"}, "sweep": {"Fetch": "4-17"}}})
    assert f" 28 of {2 * len(declared())} layouts" in text  # the sweep counts, too
    assert "| Fetch v18 | not yet asked for by the lane |" in text
    assert "Only in the sweep: Fetch 17." in text
    assert versions_seen.number("0.10.2.2") < versions_seen.number("0.11.0.3")
