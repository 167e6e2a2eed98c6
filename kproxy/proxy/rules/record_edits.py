"""Records fields as editable values: batches and their records, as ``kproxy read --json`` shows them.

Rebuilt batches get correct lengths and checksums, and keep their codec. Batches that were not edited keep their bytes.
A batch that could not be read back as written is refused.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dissectors.budget import Budget, LimitReached, limit, message_budget
from dissectors.codec import CODEC_LABELS, Codec
from dissectors.record_values import RecordNotes, RecordValues
from dissectors.records import Record, record_set
from dissectors.records.build import build_batch
from kproxy.proxy.rules.errors import EditError

_DERIVED = frozenset({"crc_valid", "size", "count"})
"""Displayed fields of a batch that are derived from its records."""
_LEGACY_LACKS = frozenset(
    {"partition_leader_epoch", "producer_id", "producer_epoch", "base_sequence", "transactional", "control"}
)
_UNREADABLE_KEY = "\N{REPLACEMENT CHARACTER}"

base64_bytes: Callable[[str], bytes] = partial(b64decode, validate=True)
"""Decodes bytes as JSON shows them."""
_OF_RULES = {"message_bytes": "rule_bytes", "message_records": "rule_records"}
"""Limits of messages -> the limits that apply to rules and holds."""


def rule_budget() -> Budget:
    """Return the budget of a rule for reading the records of one frame."""
    budget = message_budget()
    for name, rule in _OF_RULES.items():  # the reader of records counts against the limits of messages
        budget.spend(name, max(budget.left(name) - limit(rule), 0))
    return budget


def limit_of_rules(reached: LimitReached, what: str) -> LimitReached:
    """Return `reached` with the name that the limit has for rules."""
    return LimitReached(_OF_RULES.get(reached.limit, reached.limit), what)


def batches_of(data: bytes, budget: Budget | None = None) -> list[dict[str, Any]]:
    """Return the batches of a records field.

    :param budget: limits their cost; None for the budget of a displayed message
    :raises EditError: if not all of them can be read
    :raises LimitReached: if they exceed the budget
    """
    notes = RecordNotes({}, [])
    shown = RecordValues(show_secrets=True).show(data, "", None, notes, budget=budget)
    if notes.problems:
        raise EditError(
            f"these records cannot be edited, since they could not be read: {notes.problems[0].reason}"
        )
    if record_set(data).leading:
        raise EditError("these records cannot be edited, since they begin inside a batch")
    return [{name: value for name, value in batch.items() if name not in _DERIVED} for batch in shown]


def records_field(batches: Sequence[Any], before: bytes | None, as_bytes: Callable[[str], bytes]) -> bytes:
    """Return the bytes of a records field.

    :param batches: as :func:`batches_of` returns them, or with text in place of bytes
    :param before: the previous field; batches that are the same keep their bytes
    :param as_bytes: converts text in place of bytes
    :raises EditError: if they cannot be built such that they are read back as written
    """
    pieces, known, tail = [], [], b""
    if before is not None:
        found = record_set(before)
        known = [
            (value, before[batch.start : batch.end])
            for value, batch in zip(batches_of(before), found.batches, strict=True)
        ]
        # a partial batch: old brokers cut responses at a maximum size
        tail = before[found.batches[-1].end if found.batches else 0 :] if found.trailing is not None else b""
    for index, given in enumerate(batches):
        batch = _whole(given, f"records[{index}]", as_bytes)
        same = next((data for value, data in known[index : index + 1] if value == batch), None)
        pieces.append(_built(batch, f"records[{index}]") if same is None else same)
    return b"".join(pieces) + tail


def _whole(given: Any, where: str, as_bytes: Callable[[str], bytes]) -> dict[str, Any]:
    """Return a batch with text in place of bytes converted."""

    def payload(value: Any) -> bytes | None:
        return as_bytes(value) if isinstance(value, str) else value

    if not isinstance(given, Mapping) or not isinstance(given.get("records"), list | tuple):
        raise EditError(f"{where} is a batch with a list of records, and {str(given)[:40]!r} is not")
    records = []
    for record in given["records"]:
        try:
            headers = [
                {"key": each["key"], "value": payload(each["value"])} for each in record["headers"] or ()
            ]
            records.append({**record, "key": payload(record["key"]), "value": payload(record["value"])})
            records[-1]["headers"] = headers
        except (KeyError, TypeError, ValueError) as error:
            raise EditError(
                f"{where}: a record has offset, timestamp, key, value and headers, in JSON as base64: {error}"
            ) from None
    return {**{name: value for name, value in given.items() if name not in _DERIVED}, "records": records}


def _built(batch: dict[str, Any], where: str) -> bytes:
    try:
        rows = [
            Record(
                each["offset"],
                each["timestamp"],
                each["key"],
                each["value"],
                tuple((header["key"], header["value"]) for header in each["headers"]),
            )
            for each in batch["records"]
        ]
        arguments = {name: value for name, value in batch.items() if name != "records"}
        arguments["codec"] = Codec(CODEC_LABELS.index(batch["codec"]))
        if batch["magic"] != 2:
            arguments = {name: value for name, value in arguments.items() if name not in _LEGACY_LACKS}
        if arguments.get("timestamp_type", "") is None:
            del arguments["timestamp_type"]  # magic 0 has none
        data = build_batch(rows, **arguments)
        parsed = batches_of(data)
    except EditError:
        raise
    except Exception as error:  # from struct, a codec, or values of any type
        raise EditError(f"{where} cannot be built: {error}") from error
    if any(_UNREADABLE_KEY in name for row in rows for name, _ in row.headers):
        raise EditError(f"{where} has a header whose name is not UTF-8, which would be lost")
    if parsed != [batch]:
        changed = next((name for one in parsed for name in one if one[name] != batch.get(name)), "it")
        raise EditError(f"{where} cannot be built as written: {changed} would be another")
    return data
