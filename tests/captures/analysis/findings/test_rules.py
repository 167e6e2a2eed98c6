"""Invariants of every rule: names, words, thresholds, and robustness."""

from __future__ import annotations

import re
from importlib import import_module
from pkgutil import iter_modules
from random import Random
from typing import Any

import pytest

from captures.analysis.findings import rules
from captures.analysis.findings.all import RULES
from captures.analysis.findings.diagnosis import Diagnosis
from captures.analysis.findings.finding import MOST_EVIDENCE
from captures.analysis.findings.rule import Rule
from captures.exchanges import Exchange, ExchangeReader, Flag, open_capture
from captures.filters import compile_filter
from captures.filters.filter import LiveFilter
from dissectors.apis import NAMES, api_name
from tests.captures.analysis.findings.group_kit import made
from tests.captures.analysis.kit import exchange, unanswered
from tests.conftest import DATA as CAPTURES

DATA = CAPTURES.parent

_NAME = re.compile(r"[a-z][a-z0-9_]*")


def test_names_are_unique_and_every_rule_is_listed() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
    modules = [import_module(f"{rules.__name__}.{found.name}") for found in iter_modules(rules.__path__)]
    named = [each for module in modules for each in vars(module).values() if hasattr(each, "name")]
    assert {each for each in named if isinstance(each, type) and issubclass(each, Rule)} == set(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_rules_say_what_they_find(rule: type[Rule]) -> None:
    assert _NAME.fullmatch(rule.name)
    assert rule.title[0].isupper()
    assert not rule.title.endswith(".")
    assert rule.about.endswith(".")
    assert len(rule.about) > 80
    assert all(api_name(key) in NAMES for key in rule.apis or ())
    for threshold in rule.thresholds:
        assert _NAME.fullmatch(threshold.name)
        assert threshold.about
        assert not threshold.about.endswith(".")


def broken(key: int, version: int) -> list[Exchange]:
    """Exchanges without the fields that rules look for."""
    return [
        exchange(key, version),
        exchange(key, version, request={}, response={}),
        exchange(key, version, request={}, response={}, latency=None),
        exchange(
            key,
            version,
            request={"group_id": "g", "topics": [None], "members": [None]},
            response={"topics": [None]},
        ),
        exchange(
            key,
            version,
            request={"group_id": None, "topics": None, "topic_data": [None], "protocols": [{}]},
            response={
                "responses": [None, {"partition_responses": [None]}],
                "brokers": [None],
                "topics": [{}],
            },
        ),
        unanswered(
            key, version, request={"group_id": "g", "member_id": None, "topics": [{"partitions": [None]}]}
        ),
    ]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_broken_messages_do_not_harm(rule: type[Rule]) -> None:
    """Truncated or missing fields are ignored; a second call gives the same result."""
    keys = range(len(NAMES)) if rule.apis is None else sorted(rule.apis)
    orphan = exchange(None, None, request=None, latency=None, flag=Flag.ORPHAN, request_size=0)
    exchanges = [each for key in keys for each in broken(key, 0)]
    if rule.apis is None:
        exchanges.append(orphan)
    asked = made(rule, exchanges=exchanges)
    assert list(asked.findings()) == list(asked.findings())
    assert isinstance(asked.blind(), str)


EVERY = sorted(
    str(path.relative_to(DATA))
    for folder in ("captures", "groups", "findings")
    for path in (DATA / folder).glob("*.pcap*")
)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", EVERY)
def test_findings_can_be_looked_at(name: str) -> None:
    """Their filters select the evidence, their text consists of sentences, and their subjects are unique."""
    capture = open_capture(str(DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    exchanges = list(reader)
    for each in exchanges:
        diagnosis.add(each)
    found = diagnosis.findings()
    for finding in found:
        assert finding.sentence.endswith("."), finding
        assert finding.advice.endswith("."), finding
        assert finding.count > 0, finding
        assert 0 < finding.first <= finding.last, finding
        assert len(finding.evidence) <= min(MOST_EVIDENCE, len(reader)), finding
        if finding.evidence:
            wanted = LiveFilter(compile_filter(finding.filter), reader)
            shown = {each.number for each in exchanges if wanted.fits(each)}
            assert set(finding.evidence) <= shown, finding
        else:
            assert finding.filter or finding.connections or finding.subject == "capture", finding
    assert len({finding.key for finding in found}) == len(found)


RECORDINGS = (
    "groups/21_k430_java_sigstop.pcap.zst",
    "groups/21_k430_kip848_static_java.pcap.zst",
    "groups/21_k430_streams_kip1071.pcap.zst",
    "captures/22_k430_java_commit_abort.pcap",
    "captures/26_k430_add_controller_controller.pcap.zst",
    "captures/31_k0901_cluster2.pcap",
    "captures/36_k251_sweep.pcap.zst",
)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("seed", range(3))
def test_bodies_that_end_early_do_not_harm(name: str, seed: int) -> None:
    """Real messages with a part that was not captured or could not be decoded."""
    capture = open_capture(str(DATA / name))
    capture.read()
    reader = ExchangeReader(capture, annotate=False, summary=False)
    diagnosis = Diagnosis(capture, reader.knowledge.topic_name)
    random = Random(seed)
    for each in reader:
        for body in (each.request, each.response):
            if body is not None and body.value is not None and random.random() < 0.5:
                body.value = cut(body.value, random)
        diagnosis.add(each)
        if not each.number % 100:
            diagnosis.findings(now=each.time, pending=[each])
    assert diagnosis.findings() == diagnosis.findings()


def cut(value: Any, random: Random) -> Any:
    """Return the decoded part of a message that ends in the middle."""
    if isinstance(value, dict) and value:
        names = list(value)[: random.randint(0, len(value))]
        return {name: value[name] for name in names[:-1]} | {
            name: cut(value[name], random) for name in names[-1:]
        }
    if isinstance(value, list) and value:
        kept = value[: random.randint(0, len(value))]
        return [
            *kept[:-1],
            *(cut(each, random) for each in kept[-1:]),
            *([None] if random.random() < 0.3 else []),
        ]
    return value
