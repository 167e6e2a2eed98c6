"""``kproxy diagnose`` as its users run it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import zstandard
from click.testing import CliRunner, Result

from captures.analysis.findings.all import RULES
from kproxy.cli import main
from kproxy.cli.diagnose import MOST_OF_A_RULE

ROOT = Path(__file__).parents[3]
SAMPLE = ROOT / "captures" / "samples" / "rebalance.pcap"
DATA = ROOT / "tests" / "data"
GROUPS = DATA / "groups"
FULL = GROUPS / "25_k430_group_max_size.pcap.zst"
PAUSED = GROUPS / "21_k430_java_sigstop.pcap.zst"
WRONG = DATA / "captures" / "06_tansu_garbage.pcap"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["diagnose", "--utc", *map(str, arguments)], catch_exceptions=False)


def shape(*arguments: str | Path) -> dict:
    return json.loads(run("--json", *arguments).stdout)


# The truth about the sample is in tests/data/groups/truth/21_k430_java_eager_range.json: m3 was killed, others left.
def test_what_is_said_of_the_sample() -> None:
    text = run("--only", "session_timeouts", SAMPLE).stdout
    assert "\n1 finding: 1 medium.\n\nMEDIUM  (1 finding)\n" in text
    assert "  m3 was removed from group gr2-java_eager_range after" in text
    assert "its process ended without" in " ".join(text.split())
    assert "Could not be judged" not in text


@pytest.mark.slow
def test_the_command_shows_the_exchanges() -> None:
    text = run("--only", "group_full", FULL).stdout
    command = next(line.split(maxsplit=1)[1] for line in text.splitlines() if "kproxy read" in line)
    shown = subprocess.run(
        command.replace("kproxy", f"{sys.executable} -m kproxy", 1),
        shell=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    numbers = [int(line.split()[0]) for line in shown.splitlines() if line.split()[0].isdigit()]
    assert numbers == [33, 34, 35, 45, 70, 71]
    assert "#33 #34 #35 #45 #70 #71" in text


def test_the_command_reads_as_this_one_did(tmp_path: Path) -> None:
    (tmp_path / "keys.log").touch()
    text = run("--only", "group_full", "--keylog", tmp_path / "keys.log", FULL).stdout
    assert f"' --keylog {tmp_path / 'keys.log'} {FULL}\n" in text


def test_nothing_is_wrong() -> None:
    result = run("--only", "group_full", SAMPLE)
    assert "Nothing is wrong, as far as this can be judged." in result.stdout
    assert result.exit_code == 0


def test_less_grave_findings_are_called_so() -> None:
    text = run("--only", "records_doubled", SAMPLE).stdout
    assert "\nNothing is wrong that matters; 1 finding: 1 low.\n" in text


def test_what_could_not_be_judged_is_said_once_for_each_reason() -> None:
    text = run("--only", "session_timeouts", "--only", "slow_polls", "-Y", "api == Produce", SAMPLE).stdout
    (paragraph,) = re.findall(r"Could not be judged, or not as a whole\n((?:  .*\n)+)", text)
    assert " ".join(paragraph.split()).startswith("session_timeouts, slow_polls: ")
    assert text.count("session_timeouts") == 1


# ------------------------------------------------------------ JSON
@pytest.mark.slow
def test_json_has_the_documented_keys() -> None:
    text = (ROOT / "docs" / "json-diagnose.md").read_text()
    head, *sections = text.split("\n## ")
    whole = shape("--only", "session_timeouts", SAMPLE)
    blind = shape("--only", "session_timeouts", "-Y", "api == Produce", SAMPLE)["blind"]
    shapes = {"": [whole], "findings": whole["findings"], "blind": blind}
    documented = {"": head} | {section.partition("`\n")[0].strip("`"): section for section in sections[:2]}
    assert documented.keys() == shapes.keys()
    for name, section in documented.items():
        cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
        keys = {key for cell in cells for key in re.findall("`(.+?)`", cell)}
        assert shapes[name], name
        of_several_clusters = {"cluster_id"} & keys
        assert all(set(each) == keys - of_several_clusters for each in shapes[name]), name


def test_json_says_what_was_read() -> None:
    told = shape("--only", "group_full", FULL)
    assert told["captures"] == [str(FULL)]
    assert (told["exchanges"], told["complete"], told["rules"]) == (74, True, ["group_full"])
    (finding,) = told["findings"]
    assert (finding["rule"], finding["severity"], finding["count"]) == ("group_full", "high", 6)
    assert finding["evidence"] == [33, 34, 35, 45, 70, 71]


def test_json_of_nothing() -> None:
    told = shape("--only", "group_full", "-Y", "api == Produce", PAUSED)
    assert told["findings"] == []
    assert [blind["rule"] for blind in told["blind"]] == ["group_full"]


def test_markdown() -> None:
    text = run("--markdown", "--only", "group_full", FULL).stdout
    assert text.startswith("# Diagnosis of ")
    assert "\n## HIGH  (1 finding)\n\n### " in text
    assert (
        "\n- about: group gms, GROUP_MAX_SIZE_REACHED  \\[group_full\\]\n" in text
    )  # no more escapes than necessary


# ------------------------------------------------------------ selection
@pytest.mark.slow
def test_a_selection_of_exchanges() -> None:
    assert shape("--only", "commit_failures", "-Y", "client_id == m2", PAUSED)["findings"]
    assert not shape("--only", "commit_failures", "-Y", "client_id == m1", PAUSED)["findings"]
    assert not shape("--only", "commit_failures", "--to", "20s", PAUSED)["findings"]


@pytest.mark.slow
def test_the_less_grave_is_left_out() -> None:
    found = shape("--least", "medium", SAMPLE)["findings"]
    assert found
    assert {each["severity"] for each in found} <= {"medium", "high"}


@pytest.mark.slow
def test_all_of_many() -> None:
    names = ("aio_roundrobin", "franz_coop", "java_sticky", "kafkajs", "kp_range", "sarama_range")
    several = ("--only", "session_timeouts", *(GROUPS / f"21_k430_{name}.pcap.zst" for name in names))
    assert len(names) == MOST_OF_A_RULE + 1
    assert "\n  … 1 more of session_timeouts, --all shows them\n" in run(*several).stdout
    text = run("--all", *several).stdout
    assert "--all shows" not in text
    assert text.count("[session_timeouts") == len(names)


def test_thresholds_are_set_and_named() -> None:
    (found,) = shape("--only", "records_doubled", "--threshold", "records_doubled.many=2", SAMPLE)["findings"]
    assert (found["severity"], found["thresholds"]) == ("medium", {"records_doubled.many": "2"})


def test_rules_are_left_out() -> None:
    asked = shape("--skip", "group_full", "--skip", "slow_polls", SAMPLE)["rules"]
    assert set(asked) == {rule.name for rule in RULES} - {"group_full", "slow_polls"}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (
            ("--only", "groupful"),
            "there is no rule 'groupful': did you mean group_full?\n  kproxy diagnose --list",
        ),
        (("--skip", "nonsense"), "there is no rule 'nonsense'\n  kproxy diagnose --list"),
        (("--threshold", "slow_polls.held=1s"), "it has slow_polls.held_up"),
        (("--threshold", "slow_polls.held_up=soon"), "'soon' is no value of slow_polls.held_up"),
        (("--only", "group_full", "--skip", "group_full"), "leave no rule"),
        (("--json", "--markdown"), "use only one of --json and --markdown"),
        (("-Y", "nonsense =="), "invalid filter"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], why: str) -> None:
    result = run(*arguments, SAMPLE)
    assert result.exit_code == 2
    assert why in result.stderr


def test_the_list_of_rules() -> None:
    result = CliRunner().invoke(main, ["diagnose", "--list"])
    assert result.exit_code == 0
    names = [line.split()[0] for line in result.stdout.splitlines() if line and not line.startswith(" ")]
    assert names == [rule.name for rule in RULES]
    thresholds = sum(len(rule.thresholds) for rule in RULES)
    assert len(re.findall(r"^    \w+\.\w+ = ", result.stdout, re.MULTILINE)) == thresholds


# ------------------------------------------------------------ exit codes
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("--only", "group_full", FULL), 0),
        (("--only", "group_full", "--fail-on", "high", FULL), 4),
        (("--only", "group_full", "--fail-on", "info", FULL), 4),
        (("--only", "session_timeouts", "--fail-on", "high", PAUSED), 0),
        (("--only", "session_timeouts", "--fail-on", "medium", "--least", "high", PAUSED), 4),
        (("--only", "group_full", "--fail-on", "low", WRONG), 3),
        (("--only", "group_full", "no-such-file.pcap"), 1),
    ],
)
def test_exit_codes(arguments: tuple[str | Path, ...], code: int) -> None:
    assert run(*arguments).exit_code == code


def test_a_finding_comes_before_what_was_lost() -> None:
    assert run("--only", "group_full", FULL, WRONG).exit_code == 3
    assert run("--only", "group_full", "--fail-on", "high", FULL, WRONG).exit_code == 4


# ------------------------------------------------------------ growing captures
def started(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "kproxy", "diagnose", "--utc", "--follow", *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=ROOT)


@pytest.mark.slow
def test_a_pipe_is_followed() -> None:
    data = zstandard.ZstdDecompressor().stream_reader(FULL.read_bytes()).read()
    with started("--only", "group_full", "-") as process:
        assert process.stdin is not None
        assert process.stderr is not None
        os.write(process.stdin.fileno(), data[: len(data) * 3 // 4])
        told = process.stderr.readline()
        assert "HIGH: Group gms is full: m1 could not join" in told
        os.write(process.stdin.fileno(), data[len(data) * 3 // 4 :])
        process.stdin.close()
        process.stdin = None
        assert process.stdout is not None
        whole = process.stdout.read()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert "refused 6 times" in whole
    assert re.search(r"kproxy read -Y '[^']+'\n", whole)  # a pipe cannot be read again


@pytest.mark.slow
def test_a_folder_is_followed(tmp_path: Path) -> None:
    data = zstandard.ZstdDecompressor().stream_reader(FULL.read_bytes()).read()
    with (tmp_path / "a.pcap").open("wb", buffering=0) as file:
        file.write(data[: len(data) // 2])
        with started("--only", "group_full", "--json", str(tmp_path)) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert "(refused 3 times)" in process.stderr.readline()
            file.write(data[len(data) // 2 :])
            process.send_signal(signal.SIGINT)
            (finding,) = json.loads(process.stdout.read())["findings"]
    assert finding["count"] >= 3  # the last exchanges may not have been read
