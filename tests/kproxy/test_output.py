from __future__ import annotations

import ast
import io
import re
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dissectors.budget import configure
from kproxy.cli import main
from kproxy.output import (
    echo,
    echo_counter,
    echo_error,
    echo_json,
    echo_lines,
    gate_tracebacks,
    gated,
    gated_errors,
    style,
)
from tests.dissectors.test_printable import HOSTILE

ROOT = Path(__file__).parents[2]

# Standard output as bytes; responses of terminals; and the output module itself.
_ALLOWED = {"kproxy/export_files.py", "kproxy/output.py"}
_STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
_ASKED = {"isatty", "fileno", "flush", "close", "encoding"}


def sources() -> list[Path]:
    return [path for part in ("kproxy", "captures", "dissectors") for path in (ROOT / part).rglob("*.py")]


def printing(tree: ast.AST) -> list[str]:
    """Return the calls in a module that print without the output module."""
    found = []
    asked = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr in _ASKED
    }
    bars = {
        id(word.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "progressbar"
        for word in node.keywords
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            found.append(f"{node.lineno}: print")
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            continue
        if node.value.id == "click" and node.attr in ("echo", "secho", "style"):
            found.append(f"{node.lineno}: click.{node.attr}")
        if node.value.id == "sys" and node.attr in _STREAMS and id(node) not in asked | bars:
            found.append(f"{node.lineno}: sys.{node.attr}")
    return found


@pytest.mark.slow
def test_nothing_is_printed_past_the_gate() -> None:
    found = {str(path.relative_to(ROOT)): printing(ast.parse(path.read_text())) for path in sources()}
    assert {name: lines for name, lines in found.items() if lines and name not in _ALLOWED} == {}
    assert found["kproxy/output.py"]  # the test detects such calls


def test_foreign_text_is_cleaned_in_one_place() -> None:
    cleaning = re.compile(r"isprintable\(\) else [\"'](�|\?)")
    found = [str(path.relative_to(ROOT)) for path in sources() if cleaning.search(path.read_text())]
    assert found == []


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_foreign_text_passes(text: str) -> None:
    shown = gated(f"{text} b")
    assert shown.isprintable()
    assert "�" in shown


@pytest.mark.usefixtures("colors")
def test_our_styles_pass() -> None:
    assert gated(style("red", fg="red")) == "\x1b[31mred\x1b[0m"
    assert gated(f"a {style('b', bold=True)} c") == "a \x1b[1mb\x1b[0m c"
    assert gated(style("x", fg="bright_black", dim=True)) == "\x1b[90m\x1b[2mx\x1b[0m"
    assert style("x") == "x"


@pytest.mark.usefixtures("colors")
def test_styles_cannot_be_forged() -> None:
    forged = "\x1b[31mred\x1b[0m \x1b[31m\x1b[1234m"
    assert gated(style(forged, bold=True)) == "\x1b[1m�[31mred�[0m �[31m�[1234m\x1b[0m"


def test_there_are_no_styles_unless_chosen() -> None:
    assert style("red", fg="red", bold=True) == "red"


@pytest.mark.usefixtures("colors")
def test_standard_error_has_no_styles(capsys: pytest.CaptureFixture[str]) -> None:
    echo(style("red", fg="red"), err=True)
    assert capsys.readouterr().err == "red\n"


@pytest.mark.usefixtures("colors")
def test_an_endless_line_is_cut() -> None:
    configure(["line_characters=100"])
    try:
        shown = gated(style("x" * 200, fg="red"))
    finally:
        configure(["line_characters=16384"])
    assert shown == "x" * 99 + "…"


def test_a_printed_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    echo("one\ntwo")
    echo("three\nkproxy: all is well", err=True)
    echo_counter("7\npackets")
    captured = capsys.readouterr()
    assert captured.out == "one�two\n"
    assert captured.err == "three�kproxy: all is well\n\r7�packets"


def test_a_notice_is_shorter(capsys: pytest.CaptureFixture[str]) -> None:
    echo("h" * 30_000, err=True)
    assert len(capsys.readouterr().err) == 2_049


def test_later_lines_of_an_error_are_indented(capsys: pytest.CaptureFixture[str]) -> None:
    echo_error("no such action:\n  eror\n  ^^^^\nkproxy: all is well\x1b[2J")
    assert capsys.readouterr().err == ("kproxy: no such action:\n  eror\n  ^^^^\n  kproxy: all is well�[2J\n")


@pytest.mark.parametrize(
    "error",
    [click.UsageError("a\x1b[2J\nError: b"), click.BadParameter("a\x9b\nb"), click.FileError("a\x1b\nb")],
)
def test_errors_of_click_go_through_the_gate(error: click.ClickException) -> None:
    with pytest.raises(click.ClickException) as raised, gated_errors():
        raise error
    first, *more = raised.value.format_message().split("\n")
    assert first.isprintable()
    assert all(line.startswith("  ") and line.isprintable() for line in more)


def test_names_of_files_cannot_forge_errors() -> None:
    shown = CliRunner().invoke(
        main, ["read", "--hosts", "no\x1b[2J\nkproxy: fine", "x\x1b]0;t\x07\nError: y"]
    )
    assert shown.exit_code == 2
    assert "\x1b" not in shown.stderr
    assert "\nkproxy: fine" not in shown.stderr


def test_tracebacks_go_through_the_gate(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import threading

    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    gate_tracebacks()
    error = ValueError("\x1b[2Jbad")
    sys.excepthook(ValueError, error, None)
    threading.excepthook(threading.ExceptHookArgs((ValueError, error, None, None)))
    assert capsys.readouterr().err == "ValueError: �[2Jbad\n" * 2


class _Terminal(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def test_json_is_escaped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, said in (
        (_Terminal, b'{"a":"\\u001b\\u009b\\u202e"}\n'),
        (io.TextIOWrapper, b'{"a":"\\u001b\xc2\x9b\xe2\x80\xae"}\n'),
    ):
        raw = io.BytesIO()
        monkeypatch.setattr(sys, "stdout", kind(raw, "utf-8"))
        echo_json({"a": "\x1b\x9b\u202e"})
        assert raw.getvalue() == said
        monkeypatch.undo()


@pytest.mark.usefixtures("colors")
def test_lines_printed_together_are_gated_one_by_one(capsys: pytest.CaptureFixture[str]) -> None:
    echo_lines(f"{number}" for number in range(1_200))
    echo_lines(["plain", "a\nb", style("c", bold=True), "x" * 20_000])
    shown = capsys.readouterr().out.split("\n")
    assert shown[:1_200] == [str(number) for number in range(1_200)]
    assert shown[1_200:1_203] == ["plain", "a�b", "\x1b[1mc\x1b[0m"]
    assert len(shown[1_203]) == 16_384
