"""Options from the environment and the configuration file, saved filters, and ``kproxy config``."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from captures.filters import FilterError
from captures.filters.grammar import MAX_LENGTH, with_saved
from kproxy import cli
from kproxy.cli import main
from kproxy.cli.command import Option, options_of
from kproxy.cli.config import _contexts
from kproxy.proxy.rules.parser import with_saved_filters
from kproxy.saved_choices import SavedChoices, change_choices, choices_path
from tests.waiting import PATIENCE

SAMPLE = str(Path(__file__).parents[3] / "captures" / "samples" / "rebalance.pcap")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("KPROXY_")]:
        monkeypatch.delenv(name)
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str) -> None:
    Path("kproxy.toml").write_text(text)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


# ------------------------------------------------------------ precedence
@pytest.mark.slow
def test_command_line_environment_profile_file_default(monkeypatch: pytest.MonkeyPatch) -> None:
    write("[read]\ncount = 4\njson = true\n[profile.few.read]\ncount = 3\n")

    def count(*before: str, after: tuple[str, ...] = ()) -> int:
        result = run(*before, "read", SAMPLE, *after)
        assert result.exit_code == 0, result.stderr
        return len(result.stdout.splitlines())

    assert count() == 4
    assert count("--profile", "few") == count(after=("--profile", "few")) == 3
    monkeypatch.setenv("KPROXY_PROFILE", "few")
    assert count() == 3
    monkeypatch.setenv("KPROXY_READ_COUNT", "2")
    assert count() == 2
    assert count(after=("-c", "1")) == 1
    monkeypatch.delenv("KPROXY_READ_COUNT")
    monkeypatch.delenv("KPROXY_PROFILE")
    assert count("--config", "/dev/null", after=("--json",)) > 100


def test_a_flag_of_the_file_can_be_taken_back() -> None:
    write("[read]\njson = true\ncount = 1\n")
    assert run("read", SAMPLE).stdout.startswith("{")
    assert not run("read", "--no-json", SAMPLE).stdout.startswith("{")


def test_a_required_option_may_stand_in_the_file() -> None:
    write('[export]\noutput = "out.jsonl"\ncount = 2\n')
    assert run("export", SAMPLE).exit_code == 0
    assert len(Path("out.jsonl").read_text().splitlines()) == 2


@pytest.mark.slow
def test_common_options_are_for_all_commands_that_have_them() -> None:
    write("[common]\njson = true\ncount = 1\n[stats]\njson = false\n")
    assert len(run("read", SAMPLE).stdout.splitlines()) == 1
    assert run("lag", SAMPLE).stdout.startswith("{")
    assert not run("stats", SAMPLE).stdout.startswith("{")


@pytest.mark.slow
def test_several_values(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[stats]\nby = ["api", "error"]\njson = true\n')
    assert {"apis", "errors"} <= json.loads(run("stats", SAMPLE).stdout).keys()
    write('[stats]\nby = "topic"\njson = true\n')
    assert "topics" in json.loads(run("stats", SAMPLE).stdout)
    monkeypatch.setenv("KPROXY_STATS_BY", "client\nconnection")
    assert {"clients", "connections"} <= json.loads(run("stats", SAMPLE).stdout).keys()


def test_options_before_the_command_and_of_inner_commands() -> None:
    write('limit = ["message_records=x"]\n[ctl.rule.add]\nforc = true\n')
    assert "message_records: 'x'" in run("read", SAMPLE).stderr
    write("[ctl.rule.add]\nforc = true\n")
    assert (
        "ctl.rule.add.forc: there is no option of kproxy ctl rule add"
        in run("ctl", "rule", "add", "x").stderr
    )


# ------------------------------------------------------------ errors
@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "[read]\ncuont = 1",
            "line 2: read.cuont: there is no option of kproxy read of that name (did",
        ),
        (
            "[raed]\ncount = 1",
            "line 1: raed: there is no option or command of kproxy of that name (did",
        ),
        ("[read]\nshow_secrets = true", "(did you mean show-secrets?)"),
        ("[read]\ncount = '1'", "line 2: read.count: expected a whole number, got '1'"),
        ("[read]\ncount = 0", "line 2: read.count: 0 is not in the range"),
        ("[read]\nutc = 1", "line 2: read.utc: expected true or false, got 1"),
        ("[read]\nspool = true", "line 2: read.spool: expected a text in quotes, got True"),
        ("[read]\nspool = '1MB'", "line 2: read.spool: 1MB is too small"),
        ("[read]\nfrom = 09:14:03", "line 2: read.from: expected a text in quotes"),
        ("[read]\nhosts = [1, {}]", "line 2: read.hosts: expected a text in quotes, or a list"),
        ("read = 3", "line 1: read: this must be a table: [read]"),
        ("[read]\nconfig = 'x'", "read.config: there is no option"),
        ("common = 3", "line 1: common: this must be a table"),
        ("x = [", "this is not TOML"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(text: str, problem: str) -> None:
    write(text)
    result = run("read", SAMPLE)
    assert (result.exit_code, result.stdout) == (2, "")
    assert problem in result.stderr
    assert "kproxy.toml" in result.stderr
    assert run("read", "--help").exit_code == 0
    assert run("--version").exit_code == 0


def test_a_mistake_in_the_table_of_another_command_is_told_by_config() -> None:
    write("[read]\ncount = 1\n[proxy]\nlisten = 'a:x'\n[common]\nnowhere = 1\n")
    assert run("read", SAMPLE).exit_code == 0
    result = run("config")
    assert result.exit_code == 1
    assert "line 4: proxy.listen: 'a:x' is not an address" in result.stderr
    assert "line 6: common.nowhere: there is no option of that name" in result.stderr


def test_a_wrong_variable_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KPROXY_READ_COUNT", "many")
    assert run("read", SAMPLE).exit_code == 2


# ------------------------------------------------------------ kproxy config
def settings(*arguments: str) -> dict[tuple[str, str], dict[str, Any]]:
    result = run("config", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return {(each["command"], each["key"]): each for each in json.loads(result.stdout)["settings"]}


def test_what_holds_and_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    write('[common]\nutc = true\n[tables]\nremote = "sc://h;token=t0p"\n[filters]\nslow = "latency > 1s"\n')
    change_choices(choices_path(), lambda _: SavedChoices(filters={"slow": "error", "mine": "error"}))
    monkeypatch.setenv("KPROXY_PROXY_LISTEN", ":9192")
    found = settings()
    assert [(key, each["source"]) for key, each in found.items()] == [
        (("common", "utc"), "file"),
        (("proxy", "listen"), "environment"),
        (("tables", "remote"), "file"),
        (("filters", "slow"), "file"),
        (("filters", "mine"), "UI"),
    ]
    assert found["common", "utc"]["place"] == "kproxy.toml, line 2: common.utc"
    assert (found["proxy", "listen"]["value"], found["proxy", "listen"]["place"]) == (
        ":9192",
        "KPROXY_PROXY_LISTEN",
    )
    assert "t0p" not in str(found)
    assert "t0p" not in run("config").stdout
    assert "latency > 1s" in run("config").stdout
    assert set(settings("proxy")) == {("proxy", "listen")}
    everything = settings("--all", "proxy")
    assert len(everything) > 40
    assert everything["proxy", "mode"]["value"] == "rewrite"
    assert everything["proxy", "mode"]["source"] == "default"


def test_nothing_set() -> None:
    assert "the defaults hold" in run("config").stdout
    assert json.loads(run("config", "--json").stdout) == {"file": None, "profile": None, "settings": []}


def test_every_option_stands_in_the_example() -> None:
    text = run("config", "--example").stdout
    assert tomllib.loads(text)["ctl"]["drain"] == {}
    said = tomllib.loads(
        "\n".join(line.removeprefix("# ") if " = " in line else line for line in text.splitlines())
    )
    for ctx in _contexts():
        keys = {each.key for each in options_of(ctx.command) if each.configurable}
        table = said
        for name in ctx.command_path.split()[1:] if keys else ():
            table = table[name]
        assert keys <= table.keys()


# ------------------------------------------------------------ saved filters
@pytest.mark.slow
def test_a_saved_filter_stands_for_itself_everywhere() -> None:
    write("[read]\njson = true\n[filters]\njoins = 'api == JoinGroup'\nfast = '@joins and latency < 1s'\n")
    change_choices(choices_path(), lambda _: SavedChoices(filters={"kept": "api == Fetch"}))

    def read(text: str) -> list[int]:
        result = run("read", "-Y", text, SAMPLE)
        assert result.exit_code == 0, result.stderr
        return [json.loads(line)["number"] for line in result.stdout.splitlines()]

    assert read("@joins") == read("api == JoinGroup") != []
    assert read("@fast") == read("api == JoinGroup and latency < 1s")
    assert read("not @joins and @kept") == read("api == Fetch")
    counted = [run("stats", "--json", "-Y", text, SAMPLE).stdout for text in ("@joins", "api == JoinGroup")]
    assert counted[0] == counted[1]
    assert run("read", "-Y", "@nowhere", SAMPLE).exit_code == 2
    write("[filters]\na = 3\n")
    assert "line 2: filters.a: a filter is a text in quotes" in run("read", "-Y", "@a", SAMPLE).stderr


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("@a", "x == 1 or y == 2"),
        ("not @a", "not (x == 1 or y == 2)"),
        ("@b", "(x == 1 or y == 2) and z"),
        ("~e @a", "~e (x == 1 or y == 2)"),
        ("topic == me@a", "topic == me@a"),
        ('value contains "@a"', 'value contains "@a"'),
        ("@marked and @17", "@marked and @17"),
        ("response: @a", "response: x == 1 or y == 2"),
        ("@a => delay 1s", "x == 1 or y == 2 => delay 1s"),
        ("request: @a and q => drop, p=0.1", "request: (x == 1 or y == 2) and q => drop, p=0.1"),
        ("@a ==", "@a =="),
    ],
)
def test_names_of_filters_are_replaced_where_a_condition_begins(text: str, meant: str) -> None:
    saved = {"a": "x == 1 or y == 2", "b": "@a and z", "marked": "x", "17": "x"}
    assert with_saved_filters(text, saved) == meant


def test_filters_that_contain_themselves_or_grow_without_end() -> None:
    with pytest.raises(FilterError, match="@a contains itself"):
        with_saved("@a", {"a": "not @b", "b": "@a"})
    doubling = {f"a{n}": f"@a{n + 1} or @a{n + 1}" for n in range(60)} | {"a60": "x == 1"}
    with pytest.raises(FilterError, match=f"at most {MAX_LENGTH}"):
        with_saved("@a0", doubling)


# ------------------------------------------------------------ spellings
def all_options() -> list[tuple[click.Context, Option]]:
    return [(ctx, option) for ctx in _contexts() for option in options_of(ctx.command)]


def test_a_letter_means_one_thing() -> None:
    means: dict[str, set[str]] = {}
    for _, option in all_options():
        for letter in (each for each in option.opts if not each.startswith("--")):
            means.setdefault(letter, set()).add(option.key)
    assert {letter: names for letter, names in means.items() if len(names) > 1} == {}


def test_an_option_takes_the_same_everywhere() -> None:
    """Exceptions: one connection is followed, several may be exported; tables may be written to places that only a
    cluster can access; captures identify brokers by address, clusters by ID."""
    takes: dict[str, set[str]] = {}
    for _, option in all_options():
        takes.setdefault(option.key, set()).add("flag" if option.is_flag else type(option.type).__name__)
    several = {key: kinds for key, kinds in takes.items() if len(kinds) > 1}
    assert several == {
        "broker": {"_Number", "StringParamType"},
        "connection": {"_Number", "IntParamType"},
        "output": {"Path", "StringParamType"},
    }


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (("clients", "--config", "-c", "m1", SAMPLE), "--config is called --settings now"),
        (("clients", "-cm1", SAMPLE), "-c is called --client now"),
        (("diagnose", "--set", "records_doubled.many=2", SAMPLE), "--set is called --threshold now"),
        (("journey", "-c", "k", "-p", "0", "-t", "x", SAMPLE), "-p is called --partition now"),
    ],
)
def test_former_spellings_go_on_with_a_note(arguments: tuple[str, ...], note: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert f"kproxy: {note}" in result.stderr


def test_variables_are_told_apart() -> None:
    """No two options share a variable, and none uses a variable with another meaning."""
    variables = [option.variable(ctx) for ctx, option in all_options() if option.configurable]
    assert len(variables) == len(set(variables))
    assert not {"KPROXY_LIMITS", "KPROXY_CONFIG", "KPROXY_PROFILE", "KPROXY_SPARK_LOG"} & set(variables)
    assert set(cli.COMMANDS) >= {"config", "proxy"}


# ------------------------------------------------------------ a real proxy
@pytest.mark.slow
def test_a_proxy_starts_from_the_file(folder: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    write(
        f"""
[proxy]
listen = "127.0.0.1:1"
stub = true
quiet = true
fault = ["@joins => delay 1ms"]
[filters]
joins = "api == JoinGroup"
[profile.test.proxy]
listen = "127.0.0.1:{port}"
drain = "0s"
"""
    )
    environment = {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "XDG_STATE_HOME": str(folder / "s"),
    }
    command = [sys.executable, "-m", "kproxy", "--profile", "test", "proxy"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        assert process.stderr is not None
        said = []
        try:
            for line in process.stderr:
                said.append(line)
                if f"127.0.0.1:{port}" in line:
                    break
            rules = subprocess.run(
                [sys.executable, "-m", "kproxy", "ctl", "rules"],
                env=environment,
                capture_output=True,
                text=True,
            )
            assert "api == JoinGroup => delay 1ms" in rules.stdout, (rules, said)
        finally:
            process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE) == 0
