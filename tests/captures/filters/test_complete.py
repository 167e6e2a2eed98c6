"""Completion while typing, and the reference made of the registry."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from captures.filters import compile_filter, complete, reference
from captures.filters.fields import BY_NAME, FIELDS
from captures.filters.shortforms import FORMS

pytestmark = pytest.mark.quick


def texts(text, **known):
    return [one.text for one in complete(text, **known)]


@pytest.mark.parametrize(
    ("text", "offered", "first"),
    [
        ("", ["api", "latency", "not", "request."], None),
        ("lat", ["latency"], "latency"),
        ("api == ", ["Fetch", "Produce"], None),
        ("api == fe", ["Fetch", "ShareFetch"], "Fetch"),
        ("api in {Fetch, pro", ["Produce"], "Produce"),
        ("latency ", ["<", ">", "=="], None),
        ("topic ", ["~", "contains", "and"], None),
        ("error == REBAL", ["REBALANCE_IN_PROGRESS"], "REBALANCE_IN_PROGRESS"),
        ("acks == ", ["ALL", "LEADER"], None),
        ("latency > ", ["100ms"], None),
        ("api == Fetch ", ["and", "or"], None),
        ("api == Fetch and ", ["latency", "request."], None),
        ("api == Fetch and (", ["latency"], None),
        ("api == Fetch and (error or to", ["topic"], "topic"),
        ("not ", ["error"], None),
        ("api == Fetch and request.", ["request.topics", "request.max_wait_ms"], None),
        ("api == Fetch and request.topics.partitions.fe", ["request.topics.partitions.fetch_offset"], None),
        ("request.topics[0].parti", ["request.topics[0].partitions"], None),
        ("api == Fetch and request.isolation_level == read_c", ["READ_COMMITTED"], "READ_COMMITTED"),
        ("request.include_topic_authorized_operations == ", ["true", "false"], None),
        ("~", ["~t", "~e"], None),
        ("@", ["@marked", "@unmarked", "@all"], None),
        ("~a ", ["Fetch"], None),
        ("unanswered == ", ["true", "false"], None),
    ],
)
def test_candidates(text, offered, first):
    found = texts(text)
    assert set(offered) <= set(found)
    if first is not None:
        assert found[0] == first


def test_paths_are_those_of_the_api_that_is_named():
    assert "request.max_wait_ms" not in texts("api == Heartbeat and request.")
    assert "request.generation_id" in texts("api == Heartbeat and request.")
    assert {"request.generation_id", "request.max_wait_ms"} <= set(texts("request."))


def test_values_of_the_capture_are_offered():
    assert texts("topic == ord", known={"topic": ["orders", "audit"]}) == ["orders"]
    assert texts("~t ", known={"topic": ["with space"]}) == ['"with space"']


def test_a_candidate_says_what_it_replaces_and_what_it_is():
    (one,) = [one for one in complete("api == Fetch and late", 21) if one.text == "latency"]
    assert (one.start, one.kind) == (17, "field")
    assert "end of the request" in one.doc
    (path,) = [one for one in complete("api == Fetch and request.max_w") if one.kind == "path"]
    assert path.text == "request.max_wait_ms"
    assert "ms" in path.doc


def test_only_what_is_before_the_cursor_counts():
    assert "latency" in [one.text for one in complete("lat and error", 3)]


def test_every_field_of_a_message_that_is_offered_is_one():
    for key in ("Fetch", "JoinGroup", "Metadata", "Produce"):
        for candidate in complete(f"api == {key} and response."):
            if candidate.kind == "path":
                assert compile_filter(f"{candidate.text} exists").needs_bodies


@settings(deadline=None)  # the first path imports all declarations
@given(st.text(alphabet="apitopc ==~@(){}.,!\"'requst[0]<>&|", max_size=30), st.integers(-1, 31))
def test_completion_never_fails(text, cursor):
    for candidate in complete(text, cursor):
        assert 0 <= candidate.start <= len(text)
        assert candidate.text


def test_the_reference_names_everything():
    page = reference()
    for name in BY_NAME:
        assert f"`{name}`" in page
    for field in FIELDS:
        assert field.doc in page
    for sign in FORMS:
        assert f"`~{sign}" in page
