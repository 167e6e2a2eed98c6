"""Interventions of the proxy as lines of packet comments."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from captures.interventions import (
    MOST_BYTES,
    UNTOUCHED,
    Change,
    Intervention,
    Interventions,
    TcpSample,
    as_comment,
    comment_content,
)
from captures.json_objects import to_json


@pytest.mark.parametrize(
    "told",
    [
        Intervention(changed=(Change("brokers[0].host", "a", "b"), Change("x", None, [1, {"y": 2}]))),
        Intervention(rule="error => delay 1s", action="delayed by 1 s"),
        Intervention(held_ns=5, released_by="timeout"),
        Intervention(answered=True),
        Intervention(not_forwarded=True, unlisted=3),
        TcpSample(
            side="client", rtt_us=1, rtt_var_us=2, retransmits=3, unacked=4, lost=5, snd_wnd=0, rcv_space=7
        ),
        TcpSample(side="broker", state="established"),
    ],
)
def test_a_line_tells_what_it_was_made_of(told: Intervention | TcpSample) -> None:
    line = as_comment(told)
    assert "\n" not in line
    assert comment_content(line) == told


def test_the_shape_of_the_lines_stays() -> None:
    """Recordings are kept for years."""
    assert as_comment(Intervention(changed=(Change("a", 1, 2),))) == (
        'kproxy: {"changed":[{"path":"a","sent":1,"got":2}]}'
    )
    assert as_comment(TcpSample(side="client", rtt_us=7)) == 'kproxy: {"tcp":{"side":"client","rtt_us":7}}'


@pytest.mark.parametrize(
    "line",
    [
        "look here",
        "kproxy: tee dropped 12 bytes",
        "kproxy: {",
        "kproxy: {}",
        'kproxy: {"later": 1}',
        'kproxy: {"held_ns": "x"}',
        'kproxy: {"tcp": {"side": "nobody"}}',
        'kproxy: {"changed": 7}',
        'kproxy: {"changed":' + "[" * 100_000,
        ' kproxy: {"answered": true}',
    ],
)
def test_what_is_somebody_elses_text(line: str) -> None:
    assert comment_content(line) is None


def test_a_later_version_may_tell_more() -> None:
    assert comment_content('kproxy: {"answered": true, "later": 1}') == Intervention(answered=True)


def test_very_many_changes_fit_into_a_comment() -> None:
    changes = tuple(
        Change(f"brokers[{at}].host", f"broker{at}.example.org", "127.0.0.1") for at in range(5_000)
    )
    line = as_comment(Intervention(changed=changes))
    assert len(line) <= MOST_BYTES + 100
    told = comment_content(line)
    assert isinstance(told, Intervention)
    assert told.changed == changes[: len(told.changed)]
    assert len(told.changed) + told.unlisted == 5_000
    assert told.changed


DONE = Interventions(
    (Intervention(rule="r", action="delayed by 1 s"), Intervention(held_ns=7, released_by="edited")),
    (Intervention(changed=(Change("auth_bytes", "secret", "other"), Change("host", "a", "b"))),),
)


def test_what_was_done_to_an_exchange() -> None:
    assert DONE.changed
    assert DONE.faults == ("delayed by 1 s", "r")
    assert DONE.held_ns == 7
    assert DONE.flags == ["changed", "fault", "held", "intervened"]
    assert Interventions((), (Intervention(answered=True),)).flags == ["answered_by_kproxy", "intervened"]
    assert Interventions((Intervention(not_forwarded=True),)).flags == ["not_forwarded", "intervened"]
    assert not UNTOUCHED
    assert UNTOUCHED.flags == []
    assert UNTOUCHED.held_ns is None
    assert UNTOUCHED.shown() is None


@pytest.mark.parametrize(
    ("masked", "path"),
    [("response.auth_bytes", "auth_bytes"), ("response.auth_bytes.x", "auth_bytes")],
)
def test_values_of_secrets_are_hidden(masked: str, path: str) -> None:
    shape: Any = to_json(DONE.shown([masked]))
    assert shape["response"]["changed"] == [
        {"path": path, "sent": None, "got": None},
        {"path": "host", "sent": "a", "got": "b"},
    ]
    assert "secret" in json.dumps(to_json(DONE.shown(["request.auth_bytes", "response.auth_bytes2"])))


def test_what_may_be_given_away() -> None:
    changes = (
        Change("brokers[3].host", "a", "b"),
        Change("brokers[3].port", 1, 2),
        Change("api_keys[0].max_version", 9, 8),
        Change("topics[0].records", "x", "y"),
    )
    kept = [each.sent for each in Intervention(changed=changes).without_values().changed]
    assert kept == ["a", 1, 9, None]


def test_the_data_plane_can_import_it() -> None:
    code = "import sys, captures.interventions\nprint([each for each in ('numpy', 'construct') if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
