"""The schema is stable, follows its own rules, and matches the documentation."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from captures.tables.columns import Needs
from captures.tables.schema import (
    OF_THE_WHOLE,
    PER_EXCHANGE,
    TABLES,
    USUAL,
    arrow_type,
    choose_tables,
    ddl,
    needs_of,
    schema,
)

pytestmark = pytest.mark.quick

SNAPSHOT = Path(__file__).with_name("schema.txt")
"""All tables with all columns as they were released.

A column may be added at the end of a table. Whoever changes or removes one has to count up ``VERSION``.
"""


def written() -> str:
    return "".join(
        f"{name}: {ddl(name, [c.name for c in table.columns])}\n" for name, table in TABLES.items()
    )


def test_the_schema_is_what_was_released() -> None:
    assert written() == SNAPSHOT.read_text()


@pytest.mark.parametrize("name", TABLES)
def test_a_table_keeps_the_rules(name: str) -> None:
    table, made = TABLES[name], schema(name)
    names = [column.name for column in table.columns]
    assert names[0] == "run"
    assert len(set(names)) == len(names)
    assert {"time", "time_ns"} <= set(names)
    assert {"connection", "number"} <= set(names) or name not in PER_EXCHANGE
    for column in table.columns:
        assert column.meaning
        assert column.meaning[-1] not in ".;"
        if column.type == "timestamp":  # a moment has its nanoseconds beside it
            assert names.index(f"{column.name}_ns") == names.index(column.name) + 1
        if column.name.endswith(("_ns", "_ms")):
            assert column.type == "bigint"
            assert column.unit.split()[0] in ("ns", "ms")
    for field in made:
        assert not pa.types.is_dictionary(field.type)
        assert not pa.types.is_unsigned_integer(field.type)
        assert field.nullable == next(c for c in table.columns if c.name == field.name).nullable


def test_types() -> None:
    places = "array<struct<topic:string,partition:int>>"
    assert arrow_type(places) == pa.list_(pa.struct([("topic", pa.string()), ("partition", pa.int32())]))
    assert arrow_type(f"map<string,{places}>") == pa.map_(pa.string(), arrow_type(places))
    assert arrow_type("timestamp") == pa.timestamp("us", "UTC")
    for wrong in ("uint", "array<text>", "int>", "map<int>"):
        with pytest.raises(ValueError):
            arrow_type(wrong)


def test_every_table_is_of_one_kind() -> None:
    assert sorted((*PER_EXCHANGE, *OF_THE_WHOLE)) == sorted(TABLES)
    assert set(TABLES) - set(USUAL) == {"records"}


def test_choosing() -> None:
    assert choose_tables() == USUAL
    assert choose_tables(["records", "exchanges"]) == ("exchanges", "records")
    with pytest.raises(ValueError, match="'topics' is no table; there are exchanges, topic_partitions"):
        choose_tables(["topics"])
    with pytest.raises(ValueError, match="no table was chosen"):
        choose_tables([])
    table = TABLES["exchanges"]
    assert [column.name for column in table.choose(["api", "number", "api"])] == ["api", "number"]
    assert "request" not in [column.name for column in table.choose()]
    with pytest.raises(ValueError, match="'key' is not a column of exchanges; there are run, number"):
        table.choose(["key"])


def test_what_columns_need() -> None:
    table = TABLES["exchanges"]
    assert needs_of(table.choose(["number", "time", "client_id", "latency_ns"])) is Needs.HEADER
    assert needs_of(table.choose(["number", "errors"])) is Needs.BODIES
    assert needs_of(table.choose(["number", "errors", "response"])) is Needs.SHOWN


if __name__ == "__main__":
    SNAPSHOT.write_text(written())
