"""The view of records: the same rows as in ``kproxy records``, and their targets."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from textual.pilot import Pilot
from textual.widgets import Input

from kproxy.cli import main
from kproxy.tui.commands import BY_LINE
from kproxy.tui.dialogs.answer import AnswerDialog
from kproxy.tui.dialogs.ask import Prompt
from kproxy.tui.main import exchange_commands
from kproxy.tui.views import records
from kproxy.tui.views.records import Records
from kproxy.tui.widgets.field_tree import FieldTree
from tests.captures.recorded import FOLDER
from tests.kproxy.tui.kit import main_of, opened, settled, shown_lines
from tests.kproxy.tui.views.hosting import cell, column, said, shown, table

pytestmark = pytest.mark.slow

TRANSACTIONS = FOLDER / "22_k430_java_commit_abort.pcap"
SNAPPY = FOLDER / "32_k0102_java_snappy.pcap"
ZSTD = FOLDER / "20_k430_ck_zstd.pcap"


def printed(path: Path, *options: str) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["records", "--json", *options, str(path)])
    return [json.loads(line) for line in result.stdout.splitlines()]


def records_of(pilot: Pilot[Any]) -> Records:
    view = main_of(pilot).query_one(Records)
    assert isinstance(view, Records)
    return view


async def press(pilot: Pilot[Any], *keys: str) -> None:
    for key in keys:
        await pilot.press(key)
    await settled(pilot)


@pytest.mark.parametrize("path", [TRANSACTIONS, SNAPPY, ZSTD], ids=lambda path: path.name)
async def test_its_rows_are_what_the_command_prints(path: Path) -> None:
    async with shown(Records, path) as pilot:
        found = table(pilot)
        rows = [(cell(found, row, "record"), cell(found, row, "seen")) for row in found.rows]
        assert rows == [
            (f"{each['topic']}-{each['partition']}@{each['offset']}", f"{each['origin']} #{each['exchange']}")
            for each in printed(path)
        ]


async def test_a_filter_chooses_the_exchanges() -> None:
    async with shown(Records, TRANSACTIONS, wanted="number == 14") as pilot:
        assert column(pilot, "record") == [f"tw1-0@{offset}" for offset in range(11, 21)]


async def test_a_filter_by_content_chooses_the_records() -> None:
    async with shown(Records, TRANSACTIONS, wanted="value == v3") as pilot:
        assert column(pilot, "record") == ["tw1-0@3", "tw1-0@14", "tw1-0@25"]


async def test_all_of_the_selected_record_is_below() -> None:
    async with shown(Records, SNAPPY) as pilot:
        assert '"i": 0,' in said(pilot)
        assert "record 1 in its batch" in said(pilot)
        assert "snappy" in said(pilot)


async def test_the_value_has_the_room_that_there_is() -> None:
    async with shown(Records, SNAPPY, size=(80, 24)) as pilot:
        text = pilot.app.query_one(".text")
        assert text.region.bottom == pilot.app.query_one(".detail").content_region.bottom
        assert text.max_scroll_y == 0, "all of it is in sight"


async def test_beyond_the_limit_records_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MOST", 12)
    async with shown(Records, TRANSACTIONS) as pilot:
        assert len(table(pilot).rows) == 13
        assert column(pilot, "value")[-1] == "18 more records: a filter (f) chooses among them"


async def test_enter_leads_to_the_value_in_the_fields_and_escape_back() -> None:
    async with opened(TRANSACTIONS, size=(150, 40)) as pilot:
        await press(pilot, "R", "j", "j", "j", "j", "enter")
        assert main_of(pilot).view.view_name == "exchanges"
        assert main_of(pilot).number == 10
        assert isinstance(pilot.app.focused, FieldTree)
        field = main_of(pilot).exchanges.details.selected_field
        assert field is not None
        assert field.path == "request.topic_data[0].partition_data[0].records[0].records[3].value"
        assert field.value == b"v4"
        await press(pilot, "escape", "escape")
        selected = records_of(pilot).selected
        assert main_of(pilot).view.view_name == "records"
        assert selected is not None
        assert selected.name == "tw1-0@4"


async def test_j_follows_the_record_under_the_cursor_and_of_the_field() -> None:
    async with opened(TRANSACTIONS, size=(150, 40)) as pilot:
        await press(pilot, "R", "j", "J")
        assert isinstance(pilot.app.screen, AnswerDialog)
        assert "journey of tw1-0@1" in "\n".join(shown_lines(pilot))
        await press(pilot, "escape", "j", "enter", "J")
        assert isinstance(pilot.app.screen, AnswerDialog)
        assert "journey of tw1-0@2" in "\n".join(shown_lines(pilot))


async def test_x_copies_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    real = exchange_commands.copy

    async def copy(app: Any, text: str) -> Any:
        copied.append(text)
        return await real(app, text)

    monkeypatch.setattr(exchange_commands, "copy", copy)
    async with opened(SNAPPY, size=(150, 40)) as pilot:
        await press(pilot, "R", "x")
        assert json.loads(copied[0])["i"] == 0
        await press(pilot, *"jjjjjjjjj", "x")  # a record without a value
        assert len(copied) == 1
        assert "there is no value to copy" in "\n".join(shown_lines(pilot))


async def test_values_by_a_schema(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    fields = [{"name": name, "type": "int"} for name in "ab"]
    (tmp_path / "r.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    async with shown(Records, TRANSACTIONS) as pilot:
        view: Any = pilot.app.query_one(Records)
        view.read_by(f"tw1={tmp_path / 'r.avsc'}")
        await view.session.idle()
        await view.refresh_data()
        assert column(pilot, "value")[0] == '{"a":59,"b":24}'
        assert column(pilot, "key")[0] == "k0"


async def test_a_schema_is_asked_for_until_it_can_be_used(tmp_path: Path) -> None:
    fields = [{"name": name, "type": "int"} for name in "ab"]
    (tmp_path / "r.avsc").write_text(json.dumps({"type": "record", "name": "R", "fields": fields}))
    async with opened(TRANSACTIONS) as pilot:
        main_of(pilot).typing.perform(BY_LINE["schema"])
        await settled(pilot)
        prompt = pilot.app.screen
        assert isinstance(prompt, Prompt)
        prompt.query_one(Input).value = f"tw1={tmp_path / 'none.avsc'}"
        await press(pilot, "enter")
        assert any("cannot be read" in line for line in shown_lines(pilot))
        assert isinstance(pilot.app.screen, Prompt)
        pilot.app.screen.query_one(Input).value = f"tw1={tmp_path / 'r.avsc'}"
        await press(pilot, "enter")
        assert '{"a":59,"b":24}' in column(pilot, "value")


async def test_fields_tell_offsets_in_the_log_and_times() -> None:
    async with opened(TRANSACTIONS, size=(200, 50)) as pilot:
        await press(pilot, "R", "j", "j", "j", "j", "enter")
        detail = main_of(pilot).exchanges.details.detail
        assert detail is not None
        base = "request.topic_data[0].partition_data[0].records[0]"
        notes = {path.removeprefix(f"{base}."): node.note for path, node in detail.request.nodes.items()}
        assert notes["base_offset"] == "offset 1 in the log"
        assert notes["records[3].offset_delta"] == "offset 4"
        assert notes["records[3].timestamp_delta"] == "2026-11-21 09:40:40"
        assert detail.request.nodes[base].note.startswith("9 records at offset 1")
