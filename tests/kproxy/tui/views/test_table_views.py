"""Table views: their content, the targets of their rows, and their use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from operator import is_
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from textual.pilot import Pilot

from captures.analysis.client_identity import client_name
from captures.analysis.conditions import of_client
from captures.filters import compile_filter
from captures.filters.regex import TextRegex
from kproxy.session import Session
from kproxy.tui.views.clients import Clients
from kproxy.tui.views.connections import Connections
from kproxy.tui.views.errors import Errors
from kproxy.tui.views.groups import Groups
from kproxy.tui.views.table_view import TableView
from kproxy.tui.views.topics import Topics
from kproxy.tui.widgets.table_rows import text_of
from tests.captures.analysis.kit import exchange
from tests.captures.recorded import FOLDER
from tests.kproxy.tui.kit import read_session, session_of, settled
from tests.kproxy.tui.views.hosting import PictureApp, cell, column, said, shown, table

VIEWS: list[type[TableView[Any]]] = [Connections, Clients, Topics, Errors, Groups]


# ---------------------------------------------------------------- targets of rows
@asynccontextmanager
async def counted(view: type[TableView[Any]], session: Session) -> AsyncIterator[TableView[Any]]:
    """A hidden view whose fold has counted everything."""
    made = view(session)
    made.on_shown()
    await session.idle()
    yield made
    made.on_hidden()


async def found_by(session: Session, text: str) -> int:
    wanted = compile_filter(text)
    return await session.run(lambda access: len(wanted.select(access.plain)))


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "../../../captures/samples/rebalance.pcap",
        "06_noida_acks0_java.pcap",
        "21_k430_kip848_java.pcap.zst",
        "30_k0822_java_lz4.pcap",
        "35_k282_sasl_plain.pcap.zst",
    ],
)
async def test_a_row_leads_to_what_it_counts(name: str) -> None:
    async with read_session(FOLDER / name) as session:
        for view in VIEWS:
            async with counted(view, session) as made:
                rows = await made._folding.read(made.rows)
            at = [column.title for column in view.COLUMNS].index("count")
            for row in [each for top in rows for each in (top, *top.children)]:
                assert isinstance(row.leads_to, str)
                told = int(text_of(row.cells[at]).replace(",", "") or 0)
                assert await found_by(session, row.leads_to) == told, row.leads_to


@pytest.mark.parametrize("view", VIEWS)
async def test_details_lead_somewhere_too(view: type[TableView[Any]]) -> None:
    async with read_session() as session, counted(view, session) as made:
        rows = await made._folding.read(made.rows)
        for row in rows[:6]:
            detail = await made._folding.read(
                lambda fold, access, key=row.key: made.detail(fold, access, key)
            )
            assert detail is not None
            below = [each for table in detail.tables for each in table]
            assert len({each.key for each in below}) == len(below)
            assert any(each.leads_to is not None for each in below)
            for each in below:
                if isinstance(each.leads_to, str):
                    assert await found_by(session, each.leads_to), each.leads_to
                elif each.leads_to is not None:
                    await session.exchange(each.leads_to)
        gone = ("", "gone") if view is Groups else "gone"
        assert await made._folding.read(lambda fold, access: made.detail(fold, access, gone)) is None


@given(name=st.text(min_size=1))
@example(name="go@vm (github.com/x)")
@example(name='"; \\ \n\x00')
@example(name="fe80::1%eth0")
def test_a_client_is_found_by_its_id(name: str) -> None:
    wanted = compile_filter(of_client(name))
    assert wanted.match(exchange(client_id=name))
    assert not wanted.match(exchange(client_id=f"{name}2"))
    assert not wanted.match(exchange(client_id=None))


@pytest.mark.parametrize("host", ["10.0.0.9", "[2001:db8::1]"])
def test_a_client_without_an_id_is_found_by_its_address(host: str) -> None:
    alone = exchange(client_id=None, client=f"{host}:4000")
    wanted = compile_filter(of_client(client_name(alone)))
    assert wanted.match(alone)
    assert not wanted.match(exchange(client_id="app", client=f"{host}:4000"))
    assert not wanted.match(exchange(client_id=None, client="10.0.0.1:4000"))


async def test_only_connections_that_have_changed_are_made_anew() -> None:
    async with read_session() as session, counted(Connections, session) as made:
        before = await made._folding.read(made.rows)
        assert all(map(is_, before, await made._folding.read(made.rows)))
        await made._folding.read(lambda fold, access: fold.add(access.exchange(58)))
        after = {row.key: row for row in await made._folding.read(made.rows)}
        assert [row.key for row in before if after[row.key] is not row] == [6]


@pytest.mark.slow
async def test_enter_narrows_and_goes() -> None:
    async with shown(Connections) as pilot:
        await pilot.press("enter", "tab", "tab")
        assert pilot.app.focused is table(pilot, 1)
        await pilot.press("enter", "down", "enter")  # the first moment is about TCP and leads nowhere
        assert pilot.app.met == ["connection == 6", 16]


# ---------------------------------------------------------------- content
@pytest.mark.slow
async def test_connections() -> None:
    async with shown(Connections) as pilot:
        assert len(table(pilot).rows) == 16
        assert column(pilot, "client ID")[:4] == ["m1", "m1", "pump", "m2"]
        assert column(pilot, "count")[0] == "85"
        assert column(pilot, "ended")[0] == "client FIN"
        assert "apache-kafka-java 4.3.0" in said(pilot)
        assert column(pilot, "what happened", 1)[2:4] == [
            "first request: JoinGroup v9",
            "! Heartbeat: REBALANCE_IN_PROGRESS",
        ]
        assert column(pilot, "exchange", 1)[2:4] == ["#18", "#58"]


@pytest.mark.slow
async def test_clients_with_software_and_versions() -> None:
    async with shown(Clients, FOLDER / "35_k282_sasl_plain.pcap.zst") as pilot:
        assert any("PLAIN" in text for text in column(pilot, "principal"))
        spoken = zip(column(pilot, "API", 1), column(pilot, "versions", 1), strict=True)
        assert ("ApiVersions", "v3") in spoken


@pytest.mark.slow
async def test_old_clients_are_flagged() -> None:
    async with shown(Clients, FOLDER / "30_k0822_java_lz4.pcap") as pilot:
        assert any("Produce v0" in text for text in column(pilot, "too old"))
        assert "KIP-896" in said(pilot)
        assert "refused by Kafka 4 (KIP-896)" in column(pilot, "note", 1)


@pytest.mark.slow
async def test_topics_with_partitions_rates_and_lag() -> None:
    async with shown(Topics) as pilot:
        found = table(pilot)
        (row,) = found.rows
        assert cell(found, row, "topic") == "r2-java_eager_range"
        assert cell(found, row, "producers") == "pump"
        assert cell(found, row, "per s") == "158 B"
        # nobody commits pump's last two records, with acks=all
        assert cell(found, row, "lag") == "2"
        assert [cell(found, child, "topic") for child in row.children][:2] == [
            "r2-java_eager_range-0",
            "r2-java_eager_range-1",
        ]
        assert cell(found, row.children[0], "end") == "11"
        assert cell(found, row.children[0], "leader") == "1"
        assert "1 (127.0.0.1:10101)" in said(pilot)
        who = list(zip(column(pilot, "who", 1), column(pilot, "does", 1), strict=True))
        assert who[:3] == [
            ("group gr2-java_eager_range", "commits"),
            ("pump", "produces"),
            ("m1", "fetches"),
        ]
        await pilot.press("u", "down")
        await settled(pilot)
        assert str(pilot.app.query_one(".detail").border_title) == "topic r2-java_eager_range, partition 0"
        assert column(pilot, "offset", 1)[0] == "11"


@pytest.mark.slow
async def test_errors_with_meaning_and_sequel() -> None:
    async with shown(Errors) as pilot:
        assert column(pilot, "error") == ["REBALANCE_IN_PROGRESS", "MEMBER_ID_REQUIRED (expected)"]
        assert column(pilot, "first") == ["#58", "#18"]
        assert "send JoinGroup" in said(pilot)
        assert column(pilot, "what the client did next", 1) == [
            "JoinGroup → OffsetForLeaderEpoch → Heartbeat again: ok"
        ]
        assert column(pilot, "who got it", 2) == ["m1", "m2", "m3", "m4"]
        assert column(pilot, "evidence", 3) == ["#58", "#385"]
        assert "→ REBALANCE_IN_PROGRESS" in column(pilot, "request → response", 3)[1]
        await pilot.press("down")
        await settled(pilot)
        assert "Part of a normal conversation" in said(pilot)
        assert not table(pilot, 1).display


# ---------------------------------------------------------------- use
@pytest.mark.slow
async def test_a_filter_holds_for_every_view() -> None:
    async with shown(Connections, wanted="client_id == m2") as pilot:
        assert column(pilot, "client ID") == ["m2"] * 3
    async with shown(Errors, wanted="client_id == m2") as pilot:
        assert column(pilot, "count") == ["1", "1"]
        assert "covers all exchanges, whatever the filter" in said(pilot)
    async with shown(Topics, wanted="client_id == mk and api == Metadata") as pilot:
        assert not any(cell(table(pilot), row, "produced") for row in table(pilot).rows)


@pytest.mark.slow
async def test_the_cursor_stays_when_there_is_more() -> None:
    async with shown(Connections) as pilot:
        await pilot.press("down", "down")
        before = table(pilot).selected
        await pilot.app.session.set_filter(compile_filter("api == Heartbeat or connection == 3"))
        await pilot.app.session.idle()
        await pilot.app.view.refresh_data()
        assert before is not None
        assert table(pilot).selected.key == before.key  # type: ignore[union-attr]


@pytest.mark.slow
async def test_a_search_goes_where_the_focus_is() -> None:
    async with shown(Errors) as pilot:
        view = pilot.app.view
        assert view.search(TextRegex("member_id"), forward=True)
        assert table(pilot).selected.key == ("JoinGroup", 79, True)  # type: ignore[union-attr]
        assert not view.search(TextRegex("nowhere", any_case=False), forward=True)
        table(pilot, 2).focus()
        await pilot.pause()
        assert view.search(TextRegex("m3", any_case=False), forward=True)
        assert table(pilot, 2).selected.key == "m3"  # type: ignore[union-attr]


@pytest.mark.slow
async def test_nothing_is_said_of_nothing() -> None:
    async with shown(Errors, wanted="api == DescribeAcls") as pilot:
        assert table(pilot).rows == []
        assert said(pilot) == ""
        said_of_none = table(pilot).render_line(1).text.strip()
        assert said_of_none == "No errors among what matches the filter api == DescribeAcls (c clears it)."


@pytest.mark.slow
async def test_what_the_client_did_next_is_told_of_all_exchanges_whatever_the_filter() -> None:
    async with shown(Errors) as pilot:
        of_all = {row.key: row for row in table(pilot).rows}
    async with shown(Errors, wanted="api == Heartbeat and error == REBALANCE_IN_PROGRESS") as pilot:
        (row,) = table(pilot).rows
        assert row.text() == of_all[row.key].text()
        assert "Heartbeat again: same error" not in row.text()


@pytest.mark.slow
async def test_software_is_told_of_all_exchanges_and_counts_of_those_shown() -> None:
    async with shown(Clients, wanted="api == Fetch and client_id == m1") as pilot:
        assert column(pilot, "client") == ["m1"]
        assert column(pilot, "software") == ["apache-kafka-java 4.3.0"]
        app: Any = pilot.app
        assert column(pilot, "count") == [f"{app.session.status.shown:,}"]


@pytest.mark.slow
async def test_groups_are_those_of_all_exchanges() -> None:
    async with shown(Groups) as pilot:
        of_all = [row.text() for row in table(pilot).rows]
    async with shown(Groups, wanted="api == Fetch") as pilot:
        assert [row.text() for row in table(pilot).rows] == of_all != []


@pytest.mark.slow
async def test_a_wide_terminal_has_details_beside_the_table() -> None:
    async with shown(Connections, size=(200, 40)) as pilot:
        detail = pilot.app.query_one(".detail")
        assert detail.region.x > 100
        await pilot.resize_terminal(100, 24)
        await settled(pilot)
        assert detail.region.x == 0
        assert detail.region.y > 4


@pytest.mark.slow
@pytest.mark.parametrize("view", [Connections, Topics, Errors])
def test_views_look_as_they_should(view: type[TableView[Any]], snap_compare: Callable[..., bool]) -> None:
    async def before(pilot: Pilot[None]) -> None:
        await settled(pilot)

    assert snap_compare(PictureApp(session_of(), view), terminal_size=(100, 26), run_before=before)
