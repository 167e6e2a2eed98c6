"""Visitors generated from plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dissectors.api_keys import ApiKey
from dissectors.apis import api
from dissectors.domains import Domain
from dissectors.visitor import NonZero, VisitPlan, compiled, replaced


@dataclass
class Around:
    decoded: dict[str, Any] = field(default_factory=dict)


def plan(*steps: tuple[str, Any], many: bool = False, tags: Any = None) -> VisitPlan:
    return VisitPlan(steps, tags, many)


def walked(made: VisitPlan, value: dict[str, Any]) -> dict[str, Any]:
    around = Around()
    compiled(made, "response")(value, around)
    return around.decoded


def noted(value: Any, path: str, holders: Any, scope: Around) -> Any:
    scope.decoded[path] = value
    return value


LEVELS = plan(
    (
        "topics",
        plan(
            (
                "rows",
                plan(("code", NonZero(noted)), ("leader", Domain("leader", {-1: "NONE"}, "")), many=True),
            ),
            many=True,
        ),
    ),
    ("code", NonZero(noted)),
)


def test_paths_have_the_index_of_every_array_around() -> None:
    rows = [{"code": 0, "leader": 1}, {"code": 3, "leader": -1}]
    found = walked(LEVELS, {"code": 6, "topics": [{"rows": []}, {"rows": rows}]})
    assert found == {
        "response.code": 6,
        "response.topics[1].rows[1].code": 3,
        "response.topics[1].rows[1].leader": "NONE",
    }


def test_more_elements_than_paths_are_kept_for() -> None:
    value = {"topics": [{"rows": [{"leader": -1}] * 5000}]}
    assert list(walked(LEVELS, value)) == [f"response.topics[0].rows[{n}].leader" for n in range(5000)]


def test_partial_bodies_are_walked_as_far_as_they_go() -> None:
    assert walked(LEVELS, {}) == {}
    assert walked(LEVELS, {"code": 6, "topics": None}) == {"response.code": 6}
    assert walked(LEVELS, {"topics": [{}, {"rows": [{}]}]}) == {}
    assert walked(LEVELS, {"topics": [None, {"rows": [None, {"code": 3}]}]}) == {
        "response.topics[1].rows[1].code": 3
    }


def test_errors_and_names_come_before_what_is_inside() -> None:
    made = plan(
        ("rows", plan(("code", NonZero(noted)), many=True)), ("leader", Domain("leader", {-1: "NONE"}, ""))
    )
    assert list(walked(made, {"rows": [{"code": 3}], "leader": -1})) == [
        "response.leader",
        "response.rows[0].code",
    ]


def test_an_action_replaces_the_value_and_is_told_where_it_stands() -> None:
    seen = []

    def action(value: Any, path: str, holders: tuple[dict[str, Any], ...], scope: Around) -> Any:
        seen.append((value, path, [holder["id"] for holder in holders]))
        return "replaced"

    value: dict[str, Any] = {
        "id": 0,
        "data": b"0",
        "items": [{"id": 1, "data": b"1"}, {"id": 2, "data": None}, {"id": 3, "data": b""}],
        "one": {"id": 4, "data": b"4"},
    }
    inner = ("data", action)
    walked(plan(("items", plan(inner, many=True)), ("one", plan(inner)), ("none", plan(inner)), inner), value)
    assert seen == [
        (b"1", "response.items[0].data", [0, 1]),
        (b"", "response.items[2].data", [0, 3]),
        (b"4", "response.one.data", [0, 4]),
        (b"0", "response.data", [0]),
    ]
    assert [item["data"] for item in value["items"]] == ["replaced", None, "replaced"]
    assert value["data"] == value["one"]["data"] == "replaced"


def test_unknown_tags_are_handed_over_where_there_are_some() -> None:
    found = []

    def take(path: str, holders: tuple[dict[str, Any], ...], scope: Around) -> None:
        found.append((path, holders[-1].pop("_tags")))

    value: dict[str, Any] = {"_tags": {7: b"a"}, "items": [{"_tags": {8: b"b"}}, {}]}
    walked(plan(("items", plan(many=True, tags=take)), tags=take), value)
    assert found == [("response.items[0]", {8: b"b"}), ("response", {7: b"a"})]
    assert value == {"items": [{}, {}]}


def test_a_copy_has_other_values_and_the_original_its_own() -> None:
    known = api(ApiKey.OFFSET_COMMIT)
    assert known is not None
    partition = {"partition_index": 3, "committed_offset": 5, "committed_metadata": None}
    topics = [{"name": "orders", "partitions": [partition], "_tags": {9: b"kept"}}]
    value = {"group_id": "g", "topics": topics}

    def moved(member: Any, item: Any, holders: tuple[dict[str, Any], ...]) -> Any:
        assert item is not None
        return (
            (*(holder.get("name") for holder in holders), item) if member.name == "committed_offset" else item
        )

    made = replaced(known.request[8].struct, value, moved)
    row = {**partition, "committed_offset": (None, "orders", None, 5)}
    assert made == {"group_id": "g", "topics": [{**topics[0], "partitions": [row]}]}
    assert partition["committed_offset"] == 5
