"""Follow a party through a recording."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from captures.analysis.client_trace.connections import find_client
from captures.analysis.client_trace.log import PartyLog, rows_of
from captures.analysis.client_trace.model import Line, Question, QuestionKind, TracedClient
from captures.exchanges import Capture, Exchange, ExchangeReader, open_capture

DATA = Path(__file__).parents[3] / "data"
GROUPS = DATA / "groups"
FINDINGS = DATA / "findings"
NS = 1_000_000_000


def opened(path: Path) -> Capture:
    capture = open_capture(str(path))
    capture.read()
    return capture


def truth_of(name: str) -> dict[str, Any]:
    """Return what was done in a recording, by the clocks of the clients."""
    found: dict[str, Any] = json.loads((GROUPS / "truth" / f"{name}.json").read_text())
    return found


def party(capture: Capture, text: str, by: QuestionKind = QuestionKind.CLIENT) -> TracedClient:
    return find_client(capture, Question(by, text))


def log(
    capture: Capture, found: TracedClient, change: Callable[[Exchange], Exchange] = lambda exchange: exchange
) -> list[Line]:
    reader = ExchangeReader(capture, annotate=False, summary=False)
    told = PartyLog(found, capture, reader.knowledge.topic_name)
    for exchange in reader.several(rows_of(capture, found).tolist()):
        told.add(change(exchange))
    return told.result()


def followed(path: Path, text: str, by: QuestionKind = QuestionKind.CLIENT) -> list[Line]:
    capture = opened(path)
    return log(capture, party(capture, text, by))


def of(lines: list[Line], what: str) -> list[Line]:
    return [line for line in lines if line.what == what]
