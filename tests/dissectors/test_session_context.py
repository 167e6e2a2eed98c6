"""Context from earlier exchanges for later ones."""

from __future__ import annotations

import pytest

from dissectors import apis
from dissectors.session_context import SessionContext

ORDERS = "nGfIcYojRze9Kr97Z6hsvg"
NONE = "A" * 22


@pytest.mark.parametrize(
    ("key", "response"),
    [
        (3, {"topics": [{"topic_id": ORDERS, "name": "orders"}]}),
        (19, {"topics": [{"topic_id": ORDERS, "name": "orders"}]}),
        (20, {"responses": [{"topic_id": ORDERS, "name": "orders"}]}),
        (75, {"topics": [{"topic_id": ORDERS, "name": "orders"}]}),
        (
            69,
            {
                "groups": [
                    {
                        "members": [
                            {
                                "assignment": {
                                    "topic_partitions": [{"topic_id": ORDERS, "topic_name": "orders"}]
                                }
                            }
                        ]
                    }
                ]
            },
        ),
    ],
)
def test_topic_ids_are_learned_from_responses(key: int, response: dict) -> None:
    knowledge = SessionContext()
    assert knowledge.topic_name(ORDERS) is None
    knowledge.observe(1, key, {}, response)
    assert knowledge.topic_name(ORDERS) == "orders"


def test_the_zero_id_and_null_names_teach_nothing() -> None:
    knowledge = SessionContext()
    knowledge.observe(
        1, 3, {}, {"topics": [{"topic_id": NONE, "name": "x"}, {"topic_id": ORDERS, "name": None}]}
    )
    assert knowledge.topic_name(NONE) is None
    assert knowledge.topic_name(ORDERS) is None


def test_the_metadata_topic_has_a_reserved_id() -> None:
    # org.apache.kafka.common.Uuid.METADATA_TOPIC_ID
    assert SessionContext().topic_name("AAAAAAAAAAAAAAAAAAAAAQ") == "__cluster_metadata"


def test_a_group_keeps_its_protocol_type_where_later_messages_do_not_say_it() -> None:
    knowledge = SessionContext()
    knowledge.observe(1, 11, {"group_id": "g", "protocol_type": "connect"}, {"protocol_name": "sessioned"})
    knowledge.observe(1, 14, {"group_id": "g"}, {})
    assert knowledge.group_protocol("g") == ("connect", "sessioned")
    assert knowledge.group_protocol("other") == (None, None)


def test_the_mechanism_belongs_to_its_connection() -> None:
    knowledge = SessionContext()
    knowledge.observe(1, 17, {"mechanism": "PLAIN"}, None)
    assert knowledge.mechanism(1) == "PLAIN"
    assert knowledge.mechanism(2) is None


def test_partial_bodies_are_survived() -> None:
    knowledge = SessionContext()
    for key in range(len(apis.NAMES)):
        knowledge.observe(1, key, None, None)
        knowledge.observe(1, key, {}, {"topics": None, "responses": None, "groups": None})
