"""Painted lines of the list."""

from __future__ import annotations

from datetime import UTC

from rich.style import Style

from kproxy.saved_choices import ProfileColumn
from kproxy.session.published import State, Summary
from kproxy.tui.column_layout import lay_out
from kproxy.tui.columns import Clock
from kproxy.tui.profiles import DEFAULT, Profile
from kproxy.tui.states import LOOKS, ROLES
from kproxy.tui.widgets.exchange_lines import MARGIN, LinePainter, LineStyles
from tests.kproxy.tui.published import BEGIN, MS, SECOND, summary

ROOM = 120
AT = Clock(UTC, BEGIN, BEGIN + SECOND)
ROLE_STYLES = {role: Style(color=f"color({100 + index})") for index, role in enumerate(ROLES)}
STYLES = LineStyles(
    plain=Style(color="white"),
    repeated=Style(dim=True),
    roles=ROLE_STYLES,
    rows={"accent": Style(color="yellow")},
    accent=Style(color="blue"),
    cursor=Style(reverse=True),
    header=Style(bold=True),
    sorted_header=Style(underline=True),
)


def painter(profile: Profile = DEFAULT) -> LinePainter:
    return LinePainter(STYLES, lay_out(profile, ROOM, {"state": 20}, margin=MARGIN), ROOM)


def text_in(style: Style, line: LinePainter, shown: Summary, above: Summary | None = None) -> str:
    strip = line.line(shown, above, AT, selected=False)
    return " ".join(segment.text for segment in strip if segment.style == style)


def test_a_rule_colours_what_has_no_colour_of_its_own() -> None:
    shown = summary(2, color="accent", state=State.ERROR, errors=("NOT_COORDINATOR",))
    assert "Metadata" in text_in(STYLES.rows["accent"], painter(), shown)
    assert "NOT_COORDINATOR" in text_in(ROLE_STYLES["error"], painter(), shown)
    assert "Metadata" in text_in(STYLES.plain, painter(), summary(2))


def test_the_time_since_the_line_above_is_that_of_the_line_above() -> None:
    lines = painter(Profile("deltas", (ProfileColumn("number"), ProfileColumn("delta"))))
    shown = summary(2)
    told = [
        lines.line(shown, above, AT, selected=False).text.split()[1:]
        for above in (summary(1), summary(0), None)
    ]
    assert told == [["0.001"], ["0.002"], ["-"]]


def test_a_line_that_stays_the_same_is_the_same() -> None:
    lines, shown, above = painter(), summary(2), summary(1)
    first = lines.line(shown, above, AT, selected=False)
    assert lines.line(shown, above, AT, selected=False) is first
    assert first.cell_length == ROOM


def test_a_line_is_painted_anew_for_everything_that_changes_it() -> None:
    lines, shown = painter(), summary(2)
    first = lines.line(shown, None, AT, selected=False)
    assert lines.line(shown, None, AT, selected=True) is not first
    assert lines.line(shown, summary(1), AT, selected=False) is not first
    assert lines.line(summary(2), None, AT, selected=False) is not first, (
        "another summary, though it says the same"
    )
    again = lines.line(shown, None, AT, selected=False)
    lines.forget()
    assert lines.line(shown, None, AT, selected=False) is not again


def test_what_is_running_is_painted_anew_as_time_passes() -> None:
    lines, shown = painter(), summary(2, latency=None, running_since=BEGIN)
    first = lines.line(shown, None, AT, selected=False)
    assert "…1.0s" in first.text
    soon = Clock(UTC, BEGIN, AT.now + 10 * MS)
    assert lines.line(shown, None, soon, selected=False) is first, "nobody sees a difference"
    later = Clock(UTC, BEGIN, AT.now + 500 * MS)
    assert "…1.5s" in lines.line(shown, None, later, selected=False).text


def test_states_colour_what_tells_of_them() -> None:
    failed = summary(2, state=State.ERROR, errors=("NOT_COORDINATOR",))
    assert text_in(ROLE_STYLES["error"], painter(), failed).strip() == "✗ NOT_COORDINATOR"
    slow = summary(2, state=State.SLOW, latency=300 * MS)
    assert text_in(ROLE_STYLES[LOOKS[State.SLOW].role], painter(), slow).split() == ["300.0", "◷", "slow"]


def test_only_what_repeats_is_dimmed() -> None:
    above = summary(1, client="someone", broker="b1", api="Metadata v13")
    assert text_in(STYLES.repeated, painter(), summary(2, client="someone else"), above).split() == ["b1"]
    assert text_in(STYLES.repeated, painter(), summary(2, client="someone else"), None) == ""


def test_marks_and_comments_stand_in_front() -> None:
    noted = summary(2, marked=True, comment="look at this")
    assert painter().line(noted, None, AT, selected=True).text.startswith("▸●✎")
    assert text_in(STYLES.accent, painter(), noted).strip() == "●✎"


def test_titles_show_the_order() -> None:
    titles = painter().header("latency", descending=True)
    assert "ms▼" in titles.text
    assert [segment.text.strip() for segment in titles if segment.style == STYLES.sorted_header] == ["ms▼"]
    assert "▲" in painter().header("client_id", descending=False).text
    assert "▲" not in painter().header("", descending=False).text


def test_only_a_text_that_must_not_be_cut_widens_its_column_while_it_is_painted() -> None:
    lines = painter()
    lines.measure([summary(1)], AT)
    lines.outgrown = False
    lines.line(summary(3, client="b" * 12), None, AT, selected=False)
    assert not lines.outgrown
    lines.line(summary(4, latency=123_456_789_000_000), None, AT, selected=False)
    assert lines.outgrown
    assert lines.longest["latency"] == len("123456789.0")
    lines.measure([summary(3, client="b" * 12)], AT)
    assert lines.longest["client"] == 12


def test_the_last_column_reaches_to_the_end_of_the_line() -> None:
    lines = painter(Profile("", (ProfileColumn("number"), ProfileColumn("api"))))
    strip = lines.line(summary(1), None, AT, selected=True)
    assert strip.cell_length == ROOM
    assert {segment.style for segment in strip} == {STYLES.cursor}
    assert lines.unknown(17, selected=False).text.split() == ["17", "…"]
