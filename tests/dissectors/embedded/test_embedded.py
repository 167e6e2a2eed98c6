"""The interface of the package: its imports, and its guarantees for arbitrary bytes."""

from __future__ import annotations

import subprocess
import sys
from random import Random
from time import perf_counter

import pytest

from dissectors import apis, embedded
from dissectors.embedded import Hints
from dissectors.schema import Array, Message, Struct, Type
from tests.dissectors.embedded import test_connect, test_envelope, test_groups, test_sasl, test_telemetry
from tests.dissectors.embedded.declarations import KAFKAS, messages

MUTATIONS = 60

#: contents of fields that are not bytes: the annotator handles them itself
NOT_EMBEDDED = {
    "api_key",
    "config_value",
    "sensitivity",
    "feature_level",
    "topic_id",
    "unaligned_records",
    "",
}

SAMPLES = [
    ("group_metadata", bytes.fromhex(test_groups.STICKY_V1), Hints("consumer", "sticky")),
    ("group_metadata", test_connect.EAGER, Hints("connect", "default")),
    ("group_assignment", test_connect.EAGER_ASSIGNMENT, Hints("connect", "default")),
    ("group_assignment", bytes.fromhex(test_groups.AIOKAFKA_ASSIGNMENT), Hints()),
    ("sasl_token", test_sasl.OAUTH_CLIENT, Hints(mechanism="OAUTHBEARER")),
    ("sasl_token", test_sasl.SCRAM_CLIENT_FINAL, Hints(mechanism="SCRAM-SHA-256")),
    ("telemetry", test_telemetry.GAUGE + test_telemetry.SUM, Hints(compression=0)),
    ("envelope_request", test_envelope.ALTER_CONFIGS, Hints()),
    ("envelope_response", test_envelope.ALTER_CONFIGS_ANSWER, test_envelope.ALTER_HINTS),
    ("principal", test_envelope.PRINCIPAL, Hints()),
    ("ip_address", test_envelope.ADDRESS, Hints()),
]


def test_importing_it_imports_nothing_heavy() -> None:
    code = (
        "import sys, dissectors.embedded; "
        "print([name for name in sys.modules if name.startswith('dissectors.embedded.')])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip() == "['dissectors.embedded.model', 'dissectors.embedded.secrets']"


def contents(type_: Type) -> set[str]:
    found = {type_.content}
    if isinstance(type_, Array):
        found |= contents(type_.element)
    if isinstance(type_, Struct):
        for field in type_.fields:
            found |= contents(field.type)
    return found


def test_every_content_that_a_declaration_names_has_a_decoder() -> None:
    declared: list[Message] = list(messages(*KAFKAS).values())
    for key in range(len(apis.NAMES)):
        known = apis.api(key)
        assert known is not None
        declared += [known.request, known.response]
    named = set().union(*(contents(message.struct) for message in declared))
    assert named - NOT_EMBEDDED == set(embedded.CONTENTS)


def test_a_content_that_nobody_declares() -> None:
    with pytest.raises(KeyError):
        embedded.decode("nonsense", b"")
    assert embedded.trace("ip_address", b"\x7f\0\0\1") is None


@pytest.mark.parametrize(("content", "data", "hints"), SAMPLES, ids=[sample[0] for sample in SAMPLES])
def test_mutations_and_cuts_never_raise(content: str, data: bytes, hints: Hints) -> None:
    assert embedded.decode(content, data, hints).problems == ()
    rng = Random(content)
    started = perf_counter()
    for number in range(MUTATIONS):
        mutated = bytearray(data)
        for _ in range(rng.choice((1, 2, 6))):
            mutated[rng.randrange(len(data))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        for broken in (bytes(mutated), data[: len(data) * number // MUTATIONS], data + bytes(mutated)):
            found = embedded.decode(content, broken, hints)
            for offset, path, reason in found.problems:
                assert -1 <= offset <= len(broken) + 8
                assert isinstance(path, str)
                assert reason
            embedded.trace(content, broken, hints)
    assert perf_counter() - started < 10


@pytest.mark.sample(3)
@pytest.mark.parametrize("content", embedded.CONTENTS)
@pytest.mark.parametrize("fill", [b"\x7f", b"\xff", b"\x00", b"\x01"])
def test_large_fields_of_one_byte_take_no_time(content: str, fill: bytes) -> None:
    started = perf_counter()
    for protocol in ("consumer", "connect", None):
        embedded.decode(content, fill * 300_000, Hints(protocol_type=protocol, inner_key=3, inner_version=9))
    assert perf_counter() - started < 15
