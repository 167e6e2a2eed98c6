"""Groups are the same if several followers each follow some of them, with their clients, and the results are merged."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest

from captures.analysis.exchange_groups import COUNTED
from captures.analysis.groups.calls import OF_MEMBERS
from captures.analysis.groups.components import Components, links
from captures.analysis.groups.history import NEEDED, GroupHistories
from captures.arrays import Bools
from captures.exchanges.columns import ExchangeColumns
from dissectors.api_keys import ApiKey
from tests.captures.export.files import DATA
from tests.captures.tables.kit import GROUPS, capture_of, exchanges_of

SEVERAL = sorted(
    [*(DATA.parent / "questions").glob("*.pcap*"), *GROUPS.glob("*connect*"), *DATA.glob("*_errors*")]
)


def columns_of(path: Path) -> ExchangeColumns:
    capture = capture_of(path)
    columns = ExchangeColumns(
        capture, capture.table.order(), names=exchanges_of(path)[1].knowledge.topic_name
    )
    columns.prepare((*COUNTED, "groups"))
    return columns


def dealt(path: Path, count: int) -> Bools:
    columns = columns_of(path)
    return Components(links(columns)).buckets(columns, count)


@pytest.mark.parametrize("count", [1, 7])
@pytest.mark.parametrize("path", SEVERAL, ids=lambda path: path.name.partition(".")[0])
def test_what_several_heard_is_what_one_heard(path: Path, count: int) -> None:
    exchanges, reader = exchanges_of(path)
    names = reader.knowledge.topic_name
    whole, together = (GroupHistories(names, capture_of(path)) for _ in range(2))
    for exchange in exchanges:
        whole.add(exchange)
    for mine in dealt(path, count):
        heard = GroupHistories(names)
        for at in np.flatnonzero(mine).tolist():
            if exchanges[at].api_key in NEEDED:
                heard.add(exchanges[at])
        together.merge(pickle.loads(pickle.dumps(heard)))
    assert together.result() == whole.result()


def test_a_group_is_heard_by_one_with_what_its_clients_fetch() -> None:
    path = next(each for each in SEVERAL if "journeys" in each.name)
    exchanges, found = exchanges_of(path)[0], dealt(path, 7)
    of: dict[str, set[int]] = {}
    for at, exchange in enumerate(exchanges):
        if exchange.api_key in OF_MEMBERS | {ApiKey.FETCH}:
            of.setdefault(exchange.client_id or "", set()).update(np.flatnonzero(found[:, at]).tolist())
    assert all(len(buckets) == 1 for buckets in of.values())
    assert len(set.union(*of.values())) > 2


def test_clients_with_one_group_and_groups_with_one_client_belong_together() -> None:
    pairs = [
        ("client a", "group g"),
        ("client b", "group g"),
        ("client b", "group i"),
        ("client c", "group j"),
    ]
    first = Components(pairs)._first
    assert first.pop("client c") == first.pop("group j") == "client c"
    assert set(first.values()) == {"client a"}


def test_who_asks_for_the_offsets_of_all_groups_links_those_only_that_it_may_fetch_for() -> None:
    asked = [("asks client x", "group g"), ("asks client x", "group i")]
    members = [("client a", "group g"), ("client b", "group i")]
    assert len(set(Components([*asked, *members])._first.values())) == 2
    assert len(set(Components([*asked, *members, ("client x", "client x")])._first.values())) == 1
