"""Two values compared by path."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from kproxy.replay.differences import Difference, differences

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["name", "index", "error_code", "value"]), inner, max_size=4)
    ),
    max_leaves=12,
)


def found(recorded: Any, new: Any) -> list[tuple[str, Any, Any]]:
    return [(each.path, each.recorded, each.new) for each in differences(recorded, new)]


@settings(deadline=None)
@given(VALUES)
def test_a_value_does_not_differ_from_itself(value: Any) -> None:
    assert found(value, value) == []


@settings(deadline=None)
@given(VALUES, VALUES)
def test_it_makes_no_difference_which_is_first(one: Any, other: Any) -> None:
    there = {path: (recorded, new) for path, recorded, new in found(one, other)}
    back = {path: (new, recorded) for path, recorded, new in found(other, one)}
    assert there == back


LEAVES = st.integers() | st.text(max_size=4)


@settings(deadline=None)
@given(st.lists(LEAVES, max_size=5), st.lists(LEAVES, max_size=5))
def test_lists_without_names_differ_where_they_differ(one: list[Any], other: list[Any]) -> None:
    missing: list[Any] = [UNSET] * 5
    expected = [
        (f"[{index}]", *pair)
        for index, pair in enumerate(zip(one + missing, other + missing, strict=False))
        if pair[0] != pair[1]
    ]
    assert found(one, other) == expected


def test_structs_are_told_apart_by_what_names_them() -> None:
    recorded = [{"name": "a", "error_code": 0}, {"name": "b", "error_code": 0}]
    new = [{"name": "b", "error_code": 3}, {"name": "a", "error_code": 0}, {"name": "c", "error_code": 0}]
    assert found({"topics": recorded}, {"topics": new}) == [
        ("topics[b].error_code", 0, 3),
        ("topics[c]", UNSET, {"name": "c", "error_code": 0}),
    ]


def test_names_count_only_where_all_have_them() -> None:
    recorded = [{"name": "a", "value": 1}, {"name": None, "value": 2}]
    assert found(recorded, [{"name": "a", "value": 1}, {"name": None, "value": 3}]) == [("[1].value", 2, 3)]


def test_what_has_the_name_of_another_is_not_lost() -> None:
    recorded = [{"key": "k", "value": 1}, {"key": "k", "value": 2}]
    assert found(recorded, recorded[:1]) == [("[k#2]", {"key": "k", "value": 2}, UNSET)]


def test_the_field_has_no_elements_in_it() -> None:
    (difference,) = differences({"a": [{"index": 3, "b": 1}]}, {"a": [{"index": 3, "b": 2}]})
    assert difference == Difference("a[3].b", "a.b", 1, 2)


def test_lists_and_tuples_are_alike() -> None:
    assert found({"isr": (1, 2)}, {"isr": [1, 2]}) == []
    assert found({"isr": (1, 2)}, {"isr": [1]}) == [("isr[1]", 2, UNSET)]


def test_the_fields_that_name_can_be_chosen() -> None:
    recorded, new = [{"member_id": "m1", "group_id": "g"}], [{"member_id": "m2", "group_id": "g"}]
    assert [each.path for each in differences(recorded, new, ["group_id"])] == ["[g].member_id"]


def test_keys_of_records_name_them_as_text_and_no_producer_names_nothing() -> None:
    def batch(value: bytes) -> dict[str, Any]:
        return {"producer_id": -1, "records": [{"key": b"k\x1b20", "value": value}]}

    assert found([batch(b"a")], [batch(b"b")]) == [("[0].records[k\ufffd20].value", b"a", b"b")]
