"""Lines that know the exchange they are about."""

from __future__ import annotations

from kproxy.text.line import Line
from kproxy.text.tables import Column, Row, Table


def test_a_line_is_its_text() -> None:
    line = Line("sent  #55", 55)
    assert (line, line.number) == ("sent  #55", 55)
    assert Line("nothing").number is None


def test_what_looks_like_a_number_in_a_text_leads_nowhere() -> None:
    table = Table("Found", [Column("value")], [Row(["order #5"]), Row(["x"], number=7, below=["exchange 9"])])
    leading = {
        str(line).strip(): line.number
        for line in table.lines(None, None, color=False)
        if isinstance(line, Line)
    }
    assert leading == {"order #5": None, "x": 7}
