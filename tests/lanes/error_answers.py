"""Error responses of kproxy compared with those of Kafka's own code: ``python -m tests.lanes.error_answers``.

For every API and version of the release, a request is passed to ``AbstractRequest.getErrorResponse`` and to
:func:`kproxy.proxy.rules.answers.error_response`. Kafka has to read kproxy's response to the last byte and find the
error in it. Where the two differ, kproxy's has the error in more places (for the topics and partitions of the request,
where Kafka leaves the arrays empty); differences are counted and listed, with ``-v`` in full.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from dissectors import apis, wire
from dissectors.frames import decode_response
from dissectors.headers import RequestHeader, framed, request_header_version
from kproxy.proxy.rules.answers import error_response
from tests.lanes.broker import KAFKA
from tests.lanes.tools import CannotRun, cache, class_path, need, run

CODES = (3, 6, 27, 35, 70, 129)
_SOURCE = Path(__file__).parent / "clients" / "ErrorAnswers.java"


def simple(con: wire.WireType) -> Any:
    """Return a value that Kafka's request classes accept, with an element in every array."""
    match con:
        case wire.NullableStruct():
            return None
        case wire.FixedWidth():
            return {"?": False, "d": 1.0}.get(con.code, 3)
        case wire.Uuid():
            return wire.uuid_text(bytes(range(1, 17)))
        case wire.String():
            return "orders"
        case wire.Records():
            return b""
        case wire.Bytes():
            return b"ab"
        case wire.Array():
            return [simple(con.element)]
        case wire.Struct():
            return {member.name: simple(member.con) for member in con.members}
    raise AssertionError(con)


def asked(known: apis.Api, version: int) -> bytes:
    """Return a request frame without its size."""
    head = {
        "request_api_key": known.key,
        "request_api_version": version,
        "correlation_id": 77,
        "client_id": "lane",
    }
    header = RequestHeader[request_header_version(known.request, version)].build(head)
    body: bytes = known.request[version].build(simple(known.request[version].struct))
    return header + body


def told(value: Any, code: int) -> int:
    """Return how often a body contains an error code."""
    if isinstance(value, dict):
        inner = sum(told(item, code) for item in value.values())
        return inner + sum(name.endswith("error_code") and item == code for name, item in value.items())
    return sum(told(item, code) for item in value) if isinstance(value, list) else 0


def main() -> int:
    """Compare the responses; return the exit code."""
    try:
        need("java", "javac")
        jars = class_path([f"org.apache.kafka:kafka-clients:{KAFKA}", "org.slf4j:slf4j-simple:1.7.36"])
        classes = cache() / "error_answers"
        run(["javac", "-d", classes, "-cp", jars, _SOURCE])
        cases, lines = [], []
        for code in CODES:
            for key in range(len(apis.NAMES)):
                known = apis.api(key)
                assert known is not None
                for version in known.request.versions:
                    request = asked(known, version)
                    answer = error_response(framed(request), code)
                    assert answer is not None
                    cases.append((known, version, code, answer[4:]))
                    lines.append(f"{key} {version} {code} {request.hex()} {answer[4:].hex()}")
        said = run(["java", "-cp", f"{jars}:{classes}", "ErrorAnswers"], stdin="\n".join(lines) + "\n")
    except CannotRun as reason:
        click.echo(f"cannot run: {reason}")
        return 2
    return _compared(cases, [line for line in said.splitlines() if line.count(" ") == 1])


def _compared(cases: list[tuple[apis.Api, int, int, bytes]], said: list[str]) -> int:
    same = unknown = 0
    more: dict[str, list[str]] = {}
    wrong: list[str] = []
    for (known, version, code, answer), line in zip(cases, said, strict=True):
        made, read = line.split(" ")
        label = f"{known.name} v{version} error {code}"
        if made == "-":
            unknown += 1
            continue
        found, left = map(int, read.split("/"))
        ours = decode_response(answer, known.key, version)
        # an unsupported ApiVersions version is answered in v0, whatever the request (KIP-511)
        if not found or (left and ours.version == version):
            wrong.append(f"{label}: Kafka finds the error {found} times, {left} bytes are left over")
        theirs = known.response[version].parse(bytes.fromhex(made[1:]))
        if _plain(theirs) == _plain(ours.value):
            same += 1
        else:
            where = f"{label}: told {told(ours.value, code)} times, by Kafka {told(theirs, code)} times"
            more.setdefault(known.name, []).append(f"{where}\n    Kafka  {theirs}\n    kproxy {ours.value}")
    click.echo(
        f"Kafka {KAFKA}: {len(cases) - unknown} answers, {same} the same, {unknown} of versions it does not know"
    )
    for name, each in more.items():
        click.echo(
            f"{name}: {len(each)} otherwise" + ("" if "-v" not in sys.argv else "\n  " + "\n  ".join(each))
        )
    for text in wrong:
        click.echo(f"WRONG {text}")
    return 1 if wrong else 0


def _plain(value: Any) -> Any:
    """Return a body without its texts, which differ from Kafka's."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if not name.endswith("error_message")}
    return [_plain(item) for item in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())
