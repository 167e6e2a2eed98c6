"""Visitors generated from plans."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dissectors.visitor import NestedStruct, VisitPlan, compiled


@dataclass
class Around:
    decoded: dict[str, Any] = field(default_factory=dict)
    topic: str | None = None


def plan(
    *steps: tuple[str, Any],
    errors: tuple[str, ...] = (),
    named: dict[str, dict[int, str]] | None = None,
    flexible: bool = False,
) -> VisitPlan:
    return VisitPlan(errors, tuple((named or {}).items()), steps, flexible)


def walked(made: VisitPlan, value: dict[str, Any]) -> dict[str, Any]:
    around = Around()
    compiled(made, "response")(value, around)
    return around.decoded


LEVELS = plan(
    (
        "topics",
        NestedStruct(
            plan(("rows", NestedStruct(plan(errors=("code",), named={"leader": {-1: "NONE"}}), many=True))),
            many=True,
        ),
    ),
    errors=("code",),
)


def test_paths_have_the_index_of_every_array_around() -> None:
    rows = [{"code": 0, "leader": 1}, {"code": 3, "leader": -1}]
    found = walked(LEVELS, {"code": 6, "topics": [{"rows": []}, {"rows": rows}]})
    assert found == {
        "response.code": "NOT_LEADER_OR_FOLLOWER",
        "response.topics[1].rows[1].code": "UNKNOWN_TOPIC_OR_PARTITION",
        "response.topics[1].rows[1].leader": "NONE",
    }


def test_more_elements_than_paths_are_kept_for() -> None:
    value = {"topics": [{"rows": [{"leader": -1}] * 5000}]}
    assert list(walked(LEVELS, value)) == [f"response.topics[0].rows[{n}].leader" for n in range(5000)]


def test_partial_bodies_are_walked_as_far_as_they_go() -> None:
    assert walked(LEVELS, {}) == {}
    assert walked(LEVELS, {"code": 6, "topics": None}) == {"response.code": "NOT_LEADER_OR_FOLLOWER"}
    assert walked(LEVELS, {"topics": [{}, {"rows": [{}]}]}) == {}


def test_an_action_replaces_the_value_and_is_told_where_it_stands() -> None:
    seen = []

    def action(value: Any, path: str, holder: dict[str, Any], scope: Around) -> Any:
        seen.append((value, path, holder["id"], scope.topic))
        return "replaced"

    inner = plan(("data", action))
    topical = NestedStruct(inner, many=True, topic_of=lambda item: item.get("topic"))
    value: dict[str, Any] = {
        "id": 0,
        "data": b"0",
        "items": [
            {"id": 1, "data": b"1", "topic": "orders"},
            {"id": 2, "data": None},
            {"id": 3, "data": b"3"},
        ],
        "one": {"id": 4, "data": b"4"},
    }
    walked(plan(("items", topical), ("one", NestedStruct(inner, many=False)), ("data", action)), value)
    assert seen == [
        (b"1", "response.items[0].data", 1, "orders"),
        (b"3", "response.items[2].data", 3, None),
        (b"4", "response.one.data", 4, None),
        (b"0", "response.data", 0, None),
    ]
    assert [item["data"] for item in value["items"]] == ["replaced", None, "replaced"]
    assert value["data"] == value["one"]["data"] == "replaced"


def test_unknown_tags_leave_the_struct() -> None:
    inner = plan(flexible=True)
    value: dict[str, Any] = {"_tags": {7: b"a"}, "items": [{"_tags": {8: b"b"}}]}
    found = walked(plan(("items", NestedStruct(inner, many=True)), flexible=True), value)
    assert found == {"response.items[0]._tags": {"8": b"b"}, "response._tags": {"7": b"a"}}
    assert value == {"items": [{}]}
