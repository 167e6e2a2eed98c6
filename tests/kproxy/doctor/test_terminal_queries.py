"""A terminal answers queries, or does not; its state is restored afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
import termios
from select import select

import pytest

from kproxy.doctor.terminal_queries import Answers, parse_reply
from tests.waiting import PATIENCE

# a process in its own session; the pseudo-terminal becomes its terminal when it is opened
_ASKS = """
import os, sys
terminal = os.open(sys.argv[1], os.O_RDWR)
from kproxy.doctor import terminal_queries
terminal_queries._SECONDS = float(sys.argv[2])
answers = terminal_queries.ask(terminal)
print(answers.width, answers.mouse)
"""
# responses of xterm: xterm 378 and ctlseqs
_XTERM = b"\x1b[1;1R\x1b[1;2R\x1b[?1006;2$y\x1b[?64;1;2;6;9;15;16;17;18;21;22;28c"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("answer", "seconds", "expected"),
    [
        pytest.param(_XTERM, PATIENCE, "1 True", id="xterm"),
        pytest.param(b"\x1b[1;1R\x1b[1;4R\x1b[?1;2c", PATIENCE, "3 None", id="not UTF-8, no DECRQM"),
        pytest.param(b"", 0.1, "None None", id="says nothing"),
    ],
)
def test_ask(answer: bytes, seconds: float, expected: str) -> None:
    ours, theirs = os.openpty()
    try:
        before = termios.tcgetattr(theirs)
        child = subprocess.Popen(
            [sys.executable, "-c", _ASKS, os.ttyname(theirs), str(seconds)],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        asked = b""
        while not asked.endswith(b"\x1b[c"):
            assert select([ours], [], [], PATIENCE)[0], "the terminal is asked nothing"
            asked += os.read(ours, 1024)
        os.write(ours, answer)
        said, _ = child.communicate(timeout=PATIENCE)
        assert said.decode().strip() == expected
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("reply", "answers"),
    [
        (b"\x1b[?1006;1$y\x1b[?6c", Answers(mouse=True)),
        (b"\x1b[?1006;0$y\x1b[?6c", Answers(mouse=False)),
        (b"\x1b[?1006;4$y\x1b[?6c", Answers(mouse=False)),
        (b"typed\x1b[12;1Rahead\x1b[12;2R\x1b[?6c", Answers(width=1)),
        (b"\x1b[12;1R", Answers()),
    ],
)
def test_replies_are_understood(reply: bytes, answers: Answers) -> None:
    assert parse_reply(reply) == answers
