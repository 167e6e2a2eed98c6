"""The Grafana dashboard and the alerting rules query only documented metrics and labels (docs/metrics.md)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = DOCS / "examples"
TABLE = re.compile(r"^\| `(kproxy_\w+)` \| (\w+)[^|]*\| ([^|]*)\|", re.MULTILINE)
SCRAPED = {"job", "instance"}
SERIES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count")}


def labels_by_series() -> dict[str, set[str]]:
    labels = {}
    for name, kind, names in TABLE.findall((DOCS / "metrics.md").read_text()):
        for suffix in SERIES.get(kind, ("",)):
            bucket = {"le"} if suffix == "_bucket" else set()
            labels[name + suffix] = {*re.findall(r"`(\w+)`", names), *bucket, *SCRAPED}
    return labels


def dashboard() -> Iterator[tuple[str, str]]:
    """Yield the expressions of the dashboard, each with its legend."""
    for panel in json.loads((EXAMPLES / "grafana-dashboard.json").read_text())["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"], target["legendFormat"]


def alerts() -> Iterator[tuple[str, str]]:
    """Yield the expressions of the alerting rules, each with its annotations."""
    for group in yaml.safe_load((EXAMPLES / "prometheus-alerts.yml").read_text())["groups"]:
        for rule in group["rules"]:
            yield rule["expr"], " ".join(rule["annotations"].values())


LABELS = labels_by_series()


@pytest.mark.parametrize(("expression", "text"), [*dashboard(), *alerts()])
def test_metrics_and_labels_exist(expression: str, text: str) -> None:
    series = set(re.findall(r"kproxy_\w+", expression))
    assert series
    assert series <= LABELS.keys()
    selected = {
        label
        for labels in re.findall(r"\bby \(([^)]*)\)", expression)
        for label in re.findall(r"\w+", labels)
    }
    matched = set(re.findall(r"(\w+)=~?\"", expression))
    shown = {*re.findall(r"\{\{(\w+)\}\}", text), *re.findall(r"\$labels\.(\w+)", text)}
    for name in series:
        assert selected <= LABELS[name]
    assert matched <= set.union(*(LABELS[name] for name in series))
    assert shown <= (selected or SCRAPED)
