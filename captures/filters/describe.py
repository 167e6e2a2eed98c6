"""The language explained from the tables that it is compiled from: help texts, and the manual's reference."""

from __future__ import annotations

from captures.filters.context import OPPOSITES, SELECTIONS
from captures.filters.fields import FIELDS, Field
from captures.filters.shortforms import FORMS

RULES = """\
A condition is a field with a comparison; conditions are joined by `and`, `or`, `not` and parentheses
(`&&`, `||`, `!` mean the same).

| written | holds if |
|---|---|
| `latency > 100ms` | `==` `!=` `<` `<=` `>` `>=` compare numbers, durations, sizes and times |
| `api == fetch` | names of APIs, errors and other named values may be written in either case; other texts not |
| `topic ~ "^orders"` | a regular expression matches, ignoring case unless `(?-i:...)`; also `matches` and `!~` |
| `value contains "id"` | the value contains the text |
| `partition in {0, 5..7}` | the value is one of these; `..` makes a range of numbers; `not in` is the opposite |
| `error` | the value is not empty: non-empty text, a set flag, any number |
| `request.rack_id exists` | the field exists, even if it is empty |
| `request.topics[0].topic == x` | any field of any message, by its path; without an index, any element matches |
| `fetch`, `NOT_COORDINATOR` | the name of an API or an error alone: its exchanges |
| `orders`, `m3`, `"my app"` | any other text alone: a regular expression in the API, client, broker, topic or group |

If a field has several values, one match is enough. A condition is false if its field has no value; `a != x` means `not
(a == x)`, so it is true then. Put texts with spaces, commas, parentheses or quotes in `"` or `'`. Durations have a unit
(`ns` `us` `ms` `s` `m` `h` `d`), sizes may have one (`B` `kB` `MB` `GB` `KiB` `MiB` `GiB`). `error` and `~e` leave out
errors that belong to a normal conversation, `error.any` does not; `latency` is the measured time, `excess` leaves out
designed waits.

Regular expressions are those of [RE2](https://github.com/google/re2/wiki/Syntax): time grows only linearly with the
text, so hostile text does no harm. Therefore there are no lookaheads, lookbehinds, backreferences, atomic groups or
possessive repetitions, and at most 1,000 repetitions. A dot is any character, including a line break; `^` and
`$` are the two ends. `\\d`, `\\w`, `\\s` and `\\b` mean ASCII, `\\pL` is any letter. In bytes a dot is any byte, unless
the expression has characters beyond ASCII: then it means text in UTF-8.
"""


SOURCES = """\
The *table* decides at once: a million exchanges take milliseconds. *Messages* means that some fields of each message
are read, in the terminal UI only once. *Bodies* means that messages are decoded if the rest of the filter does not
decide, so combine it with something cheap: `api == Produce and key == k1`.
"""


def fields_table() -> str:
    """Return the named fields as a Markdown table."""
    lines = ["| field | holds | meaning | decided by | example |", "|---|---|---|---|---|"]
    for field in FIELDS:
        cells = (_names(field), field.kind, field.doc, field.column.source, f"`{field.example}`")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _names(field: Field) -> str:
    return ", ".join(f"`{name}`" for name in (field.name, *field.synonyms))


def forms_table() -> str:
    """Return the short forms and selectors as a Markdown table."""
    lines = ["| short | meaning |", "|---|---|"]
    for form in FORMS.values():
        argument = f" {form.argument}" if form.argument else ""
        shown = f" [{form.argument}]" if form.optional else argument
        lines.append(f"| `~{form.sign}{shown}` | {form.doc} |")
    lines += [f"| `@{name}` | {doc} |" for name, doc in SELECTIONS.items()]
    lines += [f"| `@{name}` | all except `@{other}` |" for name, other in OPPOSITES.items()]
    lines.append("| `@17`, `@3,20-30` | exchanges by number |")
    return "\n".join(lines)


def reference() -> str:
    """Return the reference of the filter language in Markdown."""
    paths = "`header.<name>` is the value of the record header of that name."
    return (
        f"{RULES}\n## Fields\n\n{SOURCES}\n{fields_table()}\n\n{paths}\n\n## Short forms\n\n{forms_table()}\n"
    )
