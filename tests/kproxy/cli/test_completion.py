"""The completion scripts in use: each shell is asked for its completions of a partial line.

bash and zsh complete only in their line editors, so the tests call the scripts' functions as these would, with builtins
replaced by functions that print their arguments. fish has ``complete -C`` for that.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kproxy.cli import main

BASH = """
compopt() {{ echo "files: $1 $2"; }}
eval "$(kproxy completion bash)"
COMP_WORDS=({words})
COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
_kproxy_completion kproxy
printf '%s\\n' "${{COMPREPLY[@]}}"
"""

ZSH = """
compdef() {{ : }}
compadd() {{ print -rl -- $completions }}
_describe() {{ print -rl -- $completions_with_descriptions }}
_path_files() {{ print "files: $1" }}
eval "$(kproxy completion zsh)"
words=({words})
CURRENT=${{#words}}
_kproxy_completion
"""

FISH = """
kproxy completion fish | source
complete -C {line}
"""

TYPED = {
    "commands": ("kproxy doc", ["doctor"]),
    "options": ("kproxy read --exch", ["--exchange"]),
    "commands of a group": ("kproxy ctl rule a", ["add"]),
    "fields of filters": ("kproxy read -Y unansw", ["unanswered"]),
    "filters with spaces": ('kproxy read -Y "error and client_i', ["error and client_id"]),
}


@pytest.fixture
def offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Return a function for the completions that a shell offers for a line, without descriptions."""
    command = tmp_path / "bin" / "kproxy"
    command.parent.mkdir()
    root = Path(__file__).parents[3]
    command.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(root))}\n"
        f'exec {shlex.quote(sys.executable)} -m kproxy "$@"\n'
    )
    command.chmod(0o755)
    (tmp_path / "kafka.pcap").touch()
    environment = {**os.environ, "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}"}
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}

    def offer(shell: str, line: str) -> list[str]:
        if shutil.which(shell) is None:
            pytest.skip(f"{shell} is not installed")
        # the word being completed may lack its closing quote, and editors pass it with the opening one
        before, quote, rest = line.partition('"')
        words = [*before.split(" ")[:-1], f"{quote}{rest}"] if quote else line.split(" ")
        quoted = " ".join(map(shlex.quote, words))
        arguments = {
            "bash": ["bash", "--norc", "--noprofile", "-c", BASH.format(words=quoted)],
            "zsh": ["zsh", "-f", "-c", ZSH.format(words=quoted)],
            "fish": ["fish", "--no-config", "-c", FISH.format(line=shlex.quote(line))],
        }[shell]
        done = subprocess.run(
            arguments, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.stderr == ""
        separator = "\t" if shell == "fish" else ":"
        return [
            each if each.startswith("files") else each.split(separator)[0]
            for each in done.stdout.splitlines()
            if each
        ]

    return offer


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("what", TYPED)
def test_what_is_offered(offered, shell: str, what: str) -> None:
    line, expected = TYPED[what]
    assert offered(shell, line) == expected


@pytest.mark.parametrize(
    ("shell", "files"), [("bash", "files: -o default"), ("zsh", "files: -f"), ("fish", "kafka.pcap")]
)
def test_files_are_the_shells_own(offered, shell: str, files: str) -> None:
    assert offered(shell, "kproxy read kaf") == [files]


def test_a_shell_that_is_not_known() -> None:
    result = CliRunner().invoke(main, ["completion", "tcsh"])
    assert result.exit_code == 2
    assert "bash" in result.output
