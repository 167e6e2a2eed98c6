"""Every command in the documentation: kproxy accepts it, and it has the documented effect.

Commands that need no network, brokers, root or terminal run on kproxy's sample, under the file names of the pages. The
others are listed here with reasons, and are still parsed by kproxy: nonexistent commands, options or values are errors.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
import yaml

from dissectors.apis import api
from docs.build import DOCS
from docs.tools.markdown import Block
from tests.docs.shell import PAGES, Done, all_code, arguments, lay_out, lines, page, run, taken

NOT_RUN = {
    r"^sudo (?!podman)": "takes root",
    r"^ssh |^rsync ": "takes another host",
    r"^dumpcap |^tcpdump ": "takes the privilege to capture, and goes on until Ctrl-C",
    r"^kubectl ": "takes a cluster",
    r"^kafka-configs": "takes brokers or clients",
    r"^(sudo )?(docker|podman) ": "takes a container engine: tests/packaging/test_container.py",
    r"^kproxy proxy\b": "takes brokers, and goes on until Ctrl-C",
    r"^kproxy serve\b": "goes on until Ctrl-C: tests/kproxy/cli/test_serve.py",
    r"^kproxy export .*--otlp": "takes a collector: tests/kproxy/cli/test_otlp.py",
    r"^kproxy mcp\b": "goes on until its assistant ends: tests/kproxy/cli/test_mcp.py",
    r"^kproxy (attach|ctl)\b": "takes a running proxy",
    r"^kproxy (replay|request-log)\b": "takes brokers or clients",
    r"^kproxy tables .*--(master|remote) ": "takes a cluster",
    r"^kproxy report .*--open": "shows a browser",
    r"^kproxy \w+ .?(s3|hdfs|https)://": "takes a network",
    r"^kproxy \w+ tcp(-listen)?://": "takes a sender: tests/captures/packets/test_pcap_over_ip.py",
    r"^kproxy .*(--follow|-F)\b": "goes on until Ctrl-C",
    r"^python3 -m venv ": "takes a package index; the gate runs these lines",
    r"^(pipx|uv|(\.venv/bin/)?pip) |^python -m build|^~/kproxy/bin/pip ": "takes a package index",
    r"^~/kproxy/bin/kproxy sniff": "takes the privilege to capture",
    r"^EXTRAS=|^/opt/kproxy|^apt-get |^useradd ": "the container recipe: tests/packaging/test_container.py",
    r"^python -m fuzz ": "goes on for its time, with atheris; tests/fuzz runs its targets without",
    r"^man |^export MANPATH": "takes a manual that is installed: tests/docs/test_man.py",
    r"^eval ": "is for the shell that one sits at",
    r"^spark-submit |^PYSPARK_PYTHON=|^environment/bin/": "takes a cluster",
    r"^mvn |^java |^export JAVA_TOOL_OPTIONS|^node |^NODE_OPTIONS|^ldd |^cc |^SSLKEYLOGFILE": (
        "other programs and brokers; tests/lanes/tls.py and tls_attach.py run them"
    ),
    r"^(nft|iptables|ip) ": "takes root",
    "--value-schema|--registry": "the records of the sample have no schema",
}
"""Lines that do not run, with reasons."""

OTHERS = {"cp", "duckdb", "echo", "editcap", "jq", "tshark", "zcat"}
"""Programs other than kproxy in lines that run. If one is not installed, the test reports it."""

FOLDERS = {
    "/var/tmp/ring": "ring",
    "/captures/2026-11-*": "ring/kafka_*",
    "/captures": "ring",
    "/data/kafka": "tables",
}
"""Folders on the pages, with the test's replacements."""

STANDS_FOR = {
    **FOLDERS,
    "big.pcap -o tables": "kafka.pcap -o some",
    "big.pcap -o named": "kafka.pcap -o named",
    "/var/lib/kafka/orders-0": str(DOCS.parent / "tests" / "data" / "log_segments" / "orders-0"),
    "/var/lib/kafka/orders-3": str(DOCS.parent / "tests" / "data" / "log_segments" / "orders-0"),
    "orders-3@120": "r2-java_eager_range-3@1",
    "orders-app-4f1c...": "m1-b4cacd93-cf32-4f5f-9e0f-8a3974052045",
    "--topic orders": "--topic r2-java_eager_range",
    "--group orders": "--group gr2-java_eager_range",
    "--key customer-17": "--key k9",
    "order 4711": "40",
    "follow 'orders-*'": "follow 'm*'",
    "--client 'orders-*'": "--client 'm*'",
    "orders-app": "m3",
    "app-1": "m3",
    "10.0.0.7": "127.0.0.1",
    "09:00..09:10": "09:51:00..09:51:15",
    "09:14..09:20": "09:51:15..09:51:30",
    "--from 09:10 --to 09:20": "--from 09:51:20 --to 09:51:30",
    "--from 03:10:00 --to 03:20:00": "--from 09:51:20 --to 09:51:30",
    "group == billing": "group == gr2-java_eager_range",
    "topic == orders": "topic == r2-java_eager_range",
    "error and ~t orders": "error and ~g range",
    "-g billing -g 'orders-*'": "-g 'gr*'",
    "~/.config/fish/completions/": "",
    "'@slow and api == Fetch'": "'latency > 0 and api == Fetch'",
    'client ~ "^orders-"': 'client ~ "^orders-|broker"',
}
"""Example names on the pages, with the sample's names."""

README = "../README.md"


def reason(line: str) -> str:
    """Return the reason why a line does not run; empty if it does."""
    return next((why for pattern, why in NOT_RUN.items() if re.search(pattern, line)), "")


@pytest.fixture(scope="session")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("samples")
    lay_out(made)
    return made


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        patch.setenv("TZ", "UTC")  # examples contain times of day
        time.tzset()
        yield tmp_path
    time.tzset()


def _has_commands(name: str) -> bool:
    """Return whether a page has kproxy commands; most pages are not parsed for that, which would take one second."""
    return "kproxy" in (DOCS / name).read_text() and any(any(arguments(line)) for line in all_code(name))


@pytest.mark.sample(3)
@pytest.mark.turns(1)
@pytest.mark.parametrize("name", [name for name in PAGES if _has_commands(name)])
def test_commands_are_taken(name: str, folder: Path) -> None:
    for file in (
        "client.properties",
        "c.properties",
        "chain.pem",
        "key.pem",
    ):  # click checks whether they exist
        (folder / file).touch()
    (folder / "tables").mkdir()
    for line in all_code(name):
        for command in arguments(replaced(line, FOLDERS)):
            try:
                taken(command)
            except click.UsageError as error:
                pytest.fail(f"kproxy {shlex.join(command)}: {error.format_message()}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.turns(1)] if name == README else [])
        for name in PAGES
        if any(not reason(line.text) for line in lines(name))
    ],
)
def test_commands_do_what_they_are_shown_for(name: str, samples: Path, folder: Path) -> None:
    shutil.copytree(samples, folder, dirs_exist_ok=True)
    missing = set()
    for line in lines(name):
        if reason(line.text):
            continue
        before = set(folder.rglob("*"))
        done = run(replaced(line.text, STANDS_FOR))
        if missing and "No such file or directory" in done.errors:
            continue  # a program that is not installed would have created it
        expected = {0, 4} if "--fail-on" in line.text else {0}
        assert done.code in expected, (line.text, done)
        made = set(folder.rglob("*")) - before
        silent = line.text.startswith("cp ") or "select(" in line.text  # jq may select nothing
        assert done.output or done.missing or made or silent, f"{line.text} does nothing"
        if line.output:
            shown_in(line.output, done)
        missing |= {done.missing} - {""}
    if missing:
        pytest.skip(f"all was run but what needs {', '.join(sorted(missing))}, not installed here")


def replaced(line: str, words: Mapping[str, str]) -> str:
    """Return a line with some words replaced."""
    return re.sub("|".join(map(re.escape, words)), lambda found: words[found[0]], line)


def shown_in(output: str, done: Done) -> None:
    """Compare the output on a page with the real one: ``...`` stands for omissions, and lines may break elsewhere."""
    printed, place = " ".join(f"{done.output} {done.errors}".split()), 0
    for part in re.split(r"^\.\.\.$|\.\.\.$", output, flags=re.MULTILINE):
        text = " ".join(part.split())
        found = printed.find(text, place)
        assert found >= 0, f"not printed, or not there: {text}"
        place = found + len(text)


def test_every_line_is_run_or_said_not_to_be() -> None:
    unknown = [
        (name, line.text)
        for name in PAGES
        for line in lines(name)
        if not reason(line.text) and line.text.split()[0] not in {"kproxy", *OTHERS}
    ]
    assert unknown == []


@pytest.mark.parametrize("pattern", NOT_RUN)
def test_what_is_not_run_is_there(pattern: str) -> None:
    assert any(re.search(pattern, line.text) for name in PAGES for line in lines(name))


def test_commands_are_found() -> None:
    found = [shlex.join(command) for name in PAGES for line in all_code(name) for command in arguments(line)]
    assert len(found) > 150
    assert "groups --follow -" in found
    assert "ctl status" in found
    assert len([line for name in PAGES for line in lines(name) if not reason(line.text)]) > 80
    assert any(line.output for line in lines("tutorial.md"))


def test_what_kproxy_does_not_take_is_noticed() -> None:
    with pytest.raises(click.UsageError):
        taken(["groups", "--grup", "orders", "kafka.pcap"])
    with pytest.raises(click.UsageError):
        taken(["grups", "kafka.pcap"])
    with pytest.raises(AssertionError, match="not printed"):
        shown_in("3 findings\n...\n4 findings\n", Done(0, "3 findings: one, 5 findings", ""))


PYTHON = [(name, block) for name in PAGES for block in page(name).blocks() if block.language == "python"]
ALONE = {README, "columns.md", "export.md"}
"""Pages whose Python code needs only a capture; on others it talks to a proxy, or is a part of a client."""


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "block"), PYTHON, ids=[f"{name}:{block.line}" for name, block in PYTHON])
def test_python_runs(name: str, block: Block, samples: Path, folder: Path) -> None:
    code = compile(block.text, f"{name}:{block.line}", "exec")
    if name not in ALONE:
        return
    shutil.copytree(samples, folder, dirs_exist_ok=True)
    if name == "export.md":
        pytest.importorskip("pyarrow")
        for line in lines(name):  # an earlier command has written its input
            if ".parquet" in line.text:
                assert run(line.text).code == 0
    fetched = api(1)
    assert fetched is not None
    exec(code, {"data": fetched.response[18].build({})})


YAML = [(name, block) for name in PAGES for block in page(name).blocks() if block.language == "yaml"]


@pytest.mark.parametrize(("name", "block"), YAML, ids=[f"{name}:{block.line}" for name, block in YAML])
def test_manifests_are_valid(name: str, block: Block) -> None:
    """Manifests have Kubernetes' required fields, and kproxy accepts their commands; parts of manifests are YAML."""
    manifest = yaml.safe_load(block.text)
    if "kind" not in block.text:
        assert isinstance(manifest, dict)
        return
    assert {"apiVersion", "kind", "metadata", "spec"} <= manifest.keys()
    spec = manifest["spec"] if manifest["kind"] == "Pod" else manifest["spec"]["template"]["spec"]
    volumes = {volume["name"] for volume in spec.get("volumes", ())}
    ran = 0
    for container in spec["containers"]:
        assert {mount["name"] for mount in container.get("volumeMounts", ())} <= volumes
        program, *arguments_of = [*container.get("command", ["image's own"]), *container.get("args", ())]
        if program == "kproxy":
            taken([str(argument) for argument in arguments_of])
            ran += 1
    assert ran
