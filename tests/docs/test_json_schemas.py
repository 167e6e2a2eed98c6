"""The JSON Schemas describe the output of commands, key by key."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from docs.tools import json_schemas
from docs.tools.json_schemas import PRINTED, schema, tables
from docs.tools.markdown import Page
from kproxy import cli
from kproxy.cli import main, program_context
from tests.kproxy.cli.test_replay import running
from tests.kproxy.fake_broker import FakeBroker
from tests.kproxy.replay.recording import Recording

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
DATA = ROOT / "tests" / "data"
CAPTURES, FINDINGS, GROUPS, QUESTIONS = (
    DATA / name for name in ("captures", "findings", "groups", "questions")
)
QUOTA = FINDINGS / "25_k430_quota_java.pcap.zst"
OLD = GROUPS / "31_k0901_rebalance_range.pcap.zst"
SHARE = GROUPS / "21_k430_share_group.pcap.zst"
STREAMS = GROUPS / "21_k430_streams_kip1071.pcap.zst"
STATIC = GROUPS / "21_k430_kip848_ck_static.pcap.zst"
FENCED = FINDINGS / "22_k411_tx_java_fence.pcap.zst"
ERRORS = FINDINGS / "30_k0822_errors.pcap.zst"
EOS = FINDINGS / "27_k391_tx_java_eos.pcap.zst"
SCRAM = FINDINGS / "07_noida_scram256_fail.pcap.zst"
RETRIES = QUESTIONS / "45_k430_retries.pcap.zst"
GARBAGE = FINDINGS / "25_k430_raw_garbage.pcap.zst"

COMMANDS: dict[str, list[list[object]]] = {
    "exchange": [
        ["read", "--json", "--payload", "preview", path] for path in (QUOTA, FENCED, ERRORS, SCRAM, GARBAGE)
    ]
    + [["export", "-o", "-", "--format", "json", "-c", "20", SAMPLE]],
    "stats": [
        *(["stats", "--json", path] for path in (ERRORS, SCRAM, SHARE)),
        ["stats", "--json", "--quick", "--by", "api", SAMPLE],
        ["stats", "--json", "--by", "throttle", QUOTA],
        ["stats", "--json", "--by", "latency", OLD],
    ],
    "groups": [["groups", "--json", path] for path in (OLD, STREAMS, STATIC)]
    + [["groups", "--json", GROUPS / f"41_k430_{name}.pcap.zst"] for name in ("stuck", "host_gone")],
    "diagnose": [["diagnose", "--json", path] for path in (SAMPLE, QUOTA, ERRORS, SCRAM, FENCED)],
    "api-versions": [["api-versions", "--json", path] for path in (SAMPLE, OLD, SCRAM, ERRORS)],
    "clients": [["clients", "--json", SAMPLE]]
    + [["clients", "--json", "--settings", path] for path in (OLD, SCRAM)],
    "compat": [
        ["compat", "--json", "--broker-version", "4.3", OLD],
        ["compat", "--json", "--broker-version", "0.9.0", SAMPLE],
        ["compat", "--json", "--client-version", "4.3", OLD],
        ["compat", "--json", "--all", "--client-version", "1.1", SAMPLE],
    ],
    "diff": [
        ["diff", "--json", ERRORS, OLD],
    ],
    "follow": [["follow", "--json", "*", path] for path in (FENCED, SCRAM, ERRORS)],
    "journey": [
        ["journey", "--json", "o-tx3-0@12", EOS],
        ["journey", "--json", "--topic", "o-tx3-in", EOS],
        ["journey", "--json", "--topic", "r2-share_group", SHARE],
        ["journey", "--json", "t-retries-2@10", RETRIES],
        ["journey", "--json", "--contains", "value of kp-plain-0010", RETRIES],
        ["journey", "--json", "--contains", "m", SHARE],
    ],
    "records": [["records", "--json", path] for path in (OLD, EOS, SHARE)],
    "lag": [["lag", "--json", path] for path in (SAMPLE, SHARE, OLD, EOS)],
    "doctor": [["doctor", "--json"]],
    "config": [["config", "--json", "--all"]],
}
"""Commands that print JSON about recordings, by the name of their schema."""

Json = dict[str, Any]


@cache
def printed(name: str) -> list[Json]:
    """Return the complete output of the commands of a schema."""
    found = []
    for command in COMMANDS[name]:
        result = CliRunner().invoke(main, [str(word) for word in command])
        assert result.exit_code in (0, 3), (command, result.output)
        objects = [json.loads(line) for line in result.stdout.splitlines()]
        assert objects, command
        found += objects
    return found


@cache
def closed(name: str) -> Json:
    """Return a schema that rejects unknown keys: readers ignore these, but kproxy prints none."""

    def close(found: Any) -> Any:
        if isinstance(found, list):
            return [close(each) for each in found]
        if not isinstance(found, dict):
            return found
        made = {key: close(value) for key, value in found.items()}
        # of an object with keys, not of a property named "properties"
        if isinstance(found.get("properties"), dict) and "required" in found:
            made["additionalProperties"] = False
        return made

    made: Json = close(schema(name))
    return made


@cache
def validator(name: str) -> Draft202012Validator:
    return Draft202012Validator(closed(name))


def problems(name: str, found: Json) -> list[str]:
    """Return the errors of an object with their places."""
    return [f"{each.json_path}: {each.message[:300]}" for each in validator(name).iter_errors(found)]


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PRINTED)
def test_it_is_a_valid_schema(name: str) -> None:
    Draft202012Validator.check_schema(schema(name))


def described(found: Json, place: str = "") -> Iterator[tuple[str, str]]:
    for key, each in found.get("properties", {}).items():
        yield f"{place}.{key}", each["description"]
    for key, each in found.items():
        for inner in each if isinstance(each, list) else [each]:
            if isinstance(inner, dict):
                yield from described(inner, f"{place}.{key}")


@pytest.mark.parametrize("name", PRINTED)
def test_every_key_has_words(name: str) -> None:
    found = list(described(schema(name)))
    assert found
    assert [place for place, words in found if len(words) < 3] == []


def pairs(shape: Json, value: Any, parts: Json) -> Iterator[tuple[Json, Any]]:
    """Yield the values in an object, each with the schema of its place."""
    if "$ref" in shape:
        shape = parts[shape["$ref"].rpartition("/")[2]]
    yield shape, value
    if "anyOf" in shape:
        fits = [
            each for each in shape["anyOf"] if Draft202012Validator({**each, "$defs": parts}).is_valid(value)
        ]
        yield from pairs(fits[0], value, parts)
    elif isinstance(value, dict):
        for key, each in value.items():
            inner = shape.get("properties", {}).get(key, shape.get("additionalProperties", True))
            yield from pairs({} if inner is True else inner, each, parts)
    elif isinstance(value, list) and "items" in shape:
        for each in value:
            yield from pairs(shape["items"], each, parts)


def times_told_as_text(name: str) -> list[str]:
    """Return the descriptions of keys whose values are all times although their schema does not say so."""
    strings: dict[int, tuple[str, list[str]]] = {}
    whole = schema(name)  # schemas are identified by id(), valid while the object exists
    for found in printed(name)[:100]:
        for shape, value in pairs(whole, found, whole.get("$defs", {})):
            if isinstance(value, str) and "description" in shape and "pattern" not in str(shape):
                strings.setdefault(id(shape), (shape["description"], []))[1].append(value)
    is_time = re.compile(json_schemas.TIME)
    return [words for words, values in strings.values() if all(map(is_time.match, values))]


def alterations(name: str, found: Json) -> Iterator[str]:
    """Alter an object at each place in turn; yield the places where the schema accepts the alteration.

    In an array, the first element is altered.
    """
    whole = closed(name)
    parts = whole.get("$defs", {})
    seen: set[int] = set()
    for shape, value in pairs(whole, found, parts):
        if not isinstance(value, dict) or "properties" not in shape or id(shape) in seen:
            continue
        seen.add(id(shape))
        there = Draft202012Validator({**shape, "$defs": parts})
        assert there.is_valid(value)
        for key in value:
            if key in shape["required"] and there.is_valid(
                {each: value[each] for each in value if each != key}
            ):
                yield f"{key} left out"
            inner = shape["properties"][key]
            kinds = [each.get("type") for each in (inner, *inner.get("anyOf", ()))]
            wrong = "x" if "number" in kinds else 0.5
            if inner.keys() - {"description"} and there.is_valid({**value, key: wrong}):
                yield f"{key} of another type"


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
def test_it_is_what_is_printed(name: str) -> None:
    """All output for recordings is valid, and with an alteration at any place it is invalid.

    This is one test instead of three, because every test process has to read the recordings again.
    """
    found = printed(name)
    for each in found:
        assert problems(name, each) == []
    assert times_told_as_text(name) == []
    for each in sorted(found, key=lambda each: len(json.dumps(each)))[-2:]:
        assert list(alterations(name, each)) == []


@pytest.mark.slow
def test_it_is_open_to_keys_that_come_later() -> None:
    found = printed("lag")[0]
    assert Draft202012Validator(schema("lag")).is_valid({**found, "later": 1})
    assert not validator("lag").is_valid({**found, "later": 1})


def test_what_replay_prints_is_valid(tmp_path: Path) -> None:
    broker = FakeBroker(cluster_id="recorded")
    broker.topic("orders", partitions=2)
    recording = Recording()
    asked = {"topics": [{"name": "orders"}]}
    told = broker.metadata(asked, 9)
    told["topics"][0]["name"] = "other"
    recording.connection("lister").exchange(10, 3, 9, asked, told)
    path = str(recording.write(tmp_path / "recorded.pcap"))
    with running(broker) as address:
        result = CliRunner().invoke(main, ["replay", path, "-b", address, "--yes", "--json"])
    assert result.exit_code == 3, result.output
    found = [json.loads(line) for line in result.stdout.splitlines()]
    assert [each["type"] for each in found] == ["plan", "exchange", "summary"]
    assert found[1]["differences"]
    for each in found:
        assert problems("replay", each) == []
        assert list(alterations("replay", each)) == []


@pytest.mark.slow
def test_what_tables_prints_is_valid(tmp_path: Path) -> None:
    command = ["tables", "--engine", "single", "--json", "-o", str(tmp_path / "tables"), str(SAMPLE)]
    result = CliRunner().invoke(main, command)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert problems("tables", found) == []
    assert list(alterations("tables", found)) == []


def test_all_that_print_json_have_a_schema() -> None:
    """Every command with ``--json`` has a schema, except for the responses of ``ctl``; no other commands have one."""
    commands = {name: main.get_command(program_context(), name) for name in cli.COMMANDS if name != "ctl"}
    having = {
        name
        for name, command in commands.items()
        if command and any("--json" in option.opts for option in command.params)
    }
    by = {name for each in PRINTED.values() for name in each.by}
    assert by - {"export"} == having  # it has --format


def test_a_page_without_words_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_schemas, "tables", lambda page: [table[1:] for table in tables(page)])
    with pytest.raises(
        json_schemas.UndocumentedError, match=r"docs/json-groups.md does not say what group means"
    ):
        schema("groups")


def test_a_page_that_tells_another_type_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = [
        tuple(replace(row, types=("string",) * len(row.types)) for row in table)
        for table in tables("json-groups.md")
    ]
    monkeypatch.setattr(
        json_schemas, "tables", lambda page: wrong if page == "json-groups.md" else tables(page)
    )
    with pytest.raises(json_schemas.UndocumentedError, match=r"says \['string'\] of generation:"):
        schema("groups")


def test_the_page_lists_them() -> None:
    page = (ROOT / "docs" / json_schemas.PAGE).read_text()
    for name in PRINTED:
        assert f"]({json_schemas.path(name)})" in page


@pytest.mark.slow
def test_the_program_on_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = [
        each
        for each in Page((ROOT / "docs" / json_schemas.PAGE).read_text()).blocks()
        if each.language == "python"
    ]
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    names: Json = {}
    exec(block.text, names)
    assert '"number":' in names["line"]  # the last exchange was read
