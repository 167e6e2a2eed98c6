"""Every message of the reference captures, as in ``kproxy read --json``, against its decoding by kafka-clients.

Known differences are listed here with the reason; no others are allowed.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from fnmatch import fnmatch
from typing import NamedTuple

import pytest

from captures.exchanges import ExchangeTable, Flag, open_capture
from tests.captures.oracle import Ours, Pair, differences, lines_of, pairs, record_parts
from tests.reference import REFERENCE, captures_dir, needs_reference

pytestmark = needs_reference

PRODUCE, FETCH, LIST_OFFSETS, METADATA, DESCRIBE_GROUPS, API_VERSIONS, CREATE_ACLS, SCRAM = (
    0,
    1,
    2,
    3,
    14,
    18,
    30,
    50,
)

TRAILING = "{} bytes after the end of the message"


class Unreadable(NamedTuple):
    """Messages that kafka-clients cannot decode (``error`` lines), and what we make of them.

    :ivar ours: regular expression that our problems and guess, joined, have to match in full
    """

    files: str
    keys: frozenset[int]
    direction: str
    ours: str
    why: str


UNREADABLE = [
    Unreadable(
        "01_*_kp22_*", frozenset({PRODUCE, FETCH, LIST_OFFSETS}), "re*", "", "kafka-clients 4 dropped these versions"
    ),
    Unreadable(
        "2?_k430_franz_*", frozenset({API_VERSIONS}), "req", "", "v5, with cluster ID and node ID, is newer than 4.3"
    ),
    Unreadable(
        "0[1-7]_noida_*",
        frozenset({API_VERSIONS}),
        "resp",
        "version 4 is not supported, answered in version 0",
        "it has error 35: the fallback to v0 (KIP-511), which the reference decoder did not follow in these files",
    ),
    Unreadable(
        "01_nafka_kafkajs_none.pcap",
        frozenset({API_VERSIONS}),
        "resp",
        "answered in the format of version 3, not 2",
        "nafka answers v2 in the format of v3",
    ),
    Unreadable(
        "0[25]_*",
        frozenset({DESCRIBE_GROUPS, CREATE_ACLS, SCRAM}),
        "resp",
        "null where (array|bytes) must not be null",
        "the mock and tansu write null where the schema has none; the fields before it are shown",
    ),
    Unreadable(
        "3[0-5]_*_errors.pcap",
        frozenset({99}),
        "req",
        "unknown API: only the header is decoded",
        "an API that does not exist, sent on purpose",
    ),
]  # fmt: skip

#: bodies that kafka-clients reads with bytes left over, in a version that is older than the message
NEWER_THAN_THEIRS = {("ApiVersions", 5): {"request.cluster_id: only ours", "request.node_id: only ours"}}


class Content(NamedTuple):
    """Record sets and inner protocols that do not hold what they should."""

    files: str
    apis: frozenset[str]
    reason: str
    why: str


ODD_CONTENT = [
    Content(
        "3[46]_*_sweep.pcap",
        frozenset({"JoinGroup", "SyncGroup", "SaslAuthenticate"}),
        r"the bytes end inside the length of array \(ConsumerProtocol.* v29559\)|no message of PLAIN \(PLAIN token\)",
        "the sweep fills bytes fields mechanically, with the text 'sweep'",
    ),
    Content(
        "3[2-5]_*_errors.pcap",
        frozenset({"SyncGroup"}),
        r"the bytes end inside the length of array \(ConsumerProtocolAssignment v0\)",
        "a raw client sends two zero bytes for an assignment",
    ),
    Content(
        "25_k430_raw_acks0.pcap",
        frozenset({"Produce"}),
        r"the batch's checksum does not match its bytes \(byte 0 of the records\)"
        r"|11 bytes after the last record \(byte 61 of the records\)"
        r"|8 bytes left inside the message \(byte 38 of the records\)",
        "a batch of zeros, and a message that is longer than its fields, sent on purpose",
    ),
]

#: captures in which one side has messages that the other has not
NOT_PAIRED = {
    "06_noida_garbage.pcap": "API key 999 alone on a connection: bytes of another protocol to us",
    "06_tansu_garbage.pcap": "API key 999 alone on a connection: bytes of another protocol to us",
    "25_k430_raw_garbage.pcap": "a request behind a frame of size 0, where the reference stops reading",
    "06_client_sigkill_midstream.pcap": "the reference reads no connection without SYN in the oldest captures",
    "09_snaplen128.pcap": "the reference reads no connection with holes",
    "24_k430_tls_to_plaintext.pcap": "TLS against a plaintext port: no Kafka in it",
}


def names(folder: str) -> list[str]:
    if REFERENCE is None:
        return []
    found = sorted(
        path.name.removesuffix(".jsonl.gz") for path in (captures_dir() / folder).glob("*.jsonl.gz")
    )
    # the long ones first, so that no worker is left with one at the end
    return sorted(found, key=lambda name: -(captures_dir() / name).stat().st_size)


@pytest.mark.sample(24)
@pytest.mark.parametrize("name", [name for name in names("oracle") if name not in NOT_PAIRED])
def test_every_message_is_what_kafka_clients_decodes(name: str) -> None:
    faults: list[str] = []
    for pair in pairs(name):
        faults += (f"line {pair.line}: {fault}" for fault in _faults(name, pair))
    assert not faults


def _faults(name: str, pair: Pair) -> list[str]:
    ours, theirs = pair.ours, pair.theirs
    if "token" in theirs:
        return _token_faults(ours, theirs["hex"])
    faults = [
        f"unexpected content: {reason}" for reason in ours.content_problems if not _is_odd(name, ours, reason)
    ]
    if "error" in theirs:
        return faults + _unreadable(name, pair)
    body = ours.body
    assert body is not None
    found = set(differences(ours, theirs["body"]))
    problems, left = ours.frame_problems, theirs["left"]
    if found and NEWER_THAN_THEIRS.get((theirs["api"], theirs["v"])) == found:
        return faults + problems
    faults += sorted(found)
    if problems != ([TRAILING.format(left)] if left else []):
        faults.append(f"{left} bytes left, but we say {problems}")
    version = theirs.get("decodedAs", theirs["v"])
    if body.version != version or bool(body.guess) != (version != body.asked):
        faults.append(f"read as version {body.version} ({body.guess or 'no guess'}), not {version}")
    return faults


def _token_faults(ours: Ours, said: str) -> list[str]:
    tokens = ours.exchange.tokens
    token = tokens[0] if ours.side == "request" else tokens[1]
    return [] if token is not None and token.hex() == said else [f"token {token!r}, not {said}"]


def _unreadable(name: str, pair: Pair) -> list[str]:
    ours, theirs = pair.ours, pair.theirs
    body = ours.body
    assert body is not None
    said = "; ".join([*ours.frame_problems, *([body.guess] if body.guess else [])])
    for known in UNREADABLE:
        if (
            fnmatch(name, known.files)
            and theirs["api"] in known.keys
            and fnmatch(theirs["dir"], known.direction)
        ):
            return (
                []
                if re.fullmatch(known.ours, said)
                else [f"unreadable for {known.why}, but ours is {said!r}"]
            )
    return [f"unreadable there: {theirs['error']}"]


def _is_odd(name: str, ours: Ours, reason: str) -> bool:
    return any(
        fnmatch(name, odd.files) and ours.exchange.api in odd.apis and re.fullmatch(odd.reason, reason)
        for odd in ODD_CONTENT
    )


def test_captures_that_cannot_be_paired() -> None:
    """Of the captures left out above, what each side has is exactly this."""
    found = {}
    for name in NOT_PAIRED:
        capture = open_capture(str(captures_dir() / name))
        capture.read()
        theirs = Counter((line["api"], line["v"], line["dir"]) for line in lines_of("oracle", name))
        found[name] = (_whole_frames(capture.table), theirs)
    garbage: Counter[tuple[object, int, str]] = Counter({(999, 0, "req"): 1})
    assert found["06_noida_garbage.pcap"] == ((0, 0), garbage)
    assert found["06_tansu_garbage.pcap"] == ((0, 0), garbage)
    both = {(METADATA, 9, "req"): 1, ("ApiVersions", 0, "req"): 1, ("ApiVersions", 0, "resp"): 1}
    assert found["25_k430_raw_garbage.pcap"] == ((3, 1), Counter(both))
    assert found["06_client_sigkill_midstream.pcap"] == ((1873, 1873), Counter())
    assert found["09_snaplen128.pcap"][1] == Counter()
    assert found["24_k430_tls_to_plaintext.pcap"] == ((0, 0), Counter())


@pytest.mark.sample(12)
@pytest.mark.parametrize("name", names("records"))
def test_every_record_is_what_kafka_clients_reads(name: str) -> None:
    by_line: dict[int, Ours] = {}
    by_place: dict[tuple[str, str, int], Ours] = {}
    unseen = set()
    for pair in pairs(name):
        theirs = pair.theirs
        if (theirs["api"], theirs["dir"]) not in (("Produce", "req"), ("Fetch", "resp")):
            continue
        by_line[pair.line] = pair.ours
        if "n" in theirs:
            by_place[theirs["conn"], theirs["dir"], theirs["n"]] = pair.ours
        if record_parts(pair.ours):
            unseen.add(id(pair.ours))
    for line in lines_of("records", name):
        ours = by_line[line["line"]] if "line" in line else by_place[line["conn"], line["dir"], line["n"]]
        assert record_parts(ours) == line["parts"]
        unseen.discard(id(ours))
    assert not unseen, "messages with records that kafka-clients saw none in"


# ------------------------------------------------------------ counts
#: captures whose numbers of whole requests and responses are not those of the index
OTHER_COUNTS = {
    "06_noida_garbage.pcap": ((0, 0), NOT_PAIRED["06_noida_garbage.pcap"]),
    "06_tansu_garbage.pcap": ((0, 0), NOT_PAIRED["06_tansu_garbage.pcap"]),
    "25_k430_raw_garbage.pcap": ((3, 1), NOT_PAIRED["25_k430_raw_garbage.pcap"]),
}


def index_rows() -> list[dict[str, str]]:
    if REFERENCE is None:
        return []
    with (captures_dir() / "INDEX.tsv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


@pytest.mark.parametrize("group", range(8))
def test_as_many_messages_as_an_independent_reassembly_found(group: int) -> None:
    wrong = {}
    for row in [row for row in index_rows() if row["framed_requests"]][group::8]:
        capture = open_capture(str(captures_dir() / row["file"]))
        capture.read()
        found = _whole_frames(capture.table)
        expected = int(row["framed_requests"]), int(row["framed_responses"])
        if found != OTHER_COUNTS.get(row["file"], (expected, ""))[0]:
            wrong[row["file"]] = found, expected
    assert not wrong


def _whole_frames(table: ExchangeTable) -> tuple[int, int]:
    """Count the requests and responses of which no byte is missing; tokens and orphans are none."""
    flags = table.column("flags")
    others = Flag.SASL_TOKEN | Flag.ORPHAN
    requests = (table.column("request_size") > 0) & (flags & (Flag.REQUEST_DAMAGED | others) == 0)
    responses = (table.column("response_size") > 0) & (flags & (Flag.RESPONSE_DAMAGED | others) == 0)
    return int(requests.sum()), int(responses.sum())


def test_every_message_that_kafka_clients_cannot_decode_is_explained_once() -> None:
    met = Counter(
        index
        for name in names("oracle")
        if name not in NOT_PAIRED
        for line in lines_of("oracle", name)
        if "error" in line
        for index, known in enumerate(UNREADABLE)
        if fnmatch(name, known.files) and line["api"] in known.keys and fnmatch(line["dir"], known.direction)
    )
    assert sum(met.values()) == 249
    assert sorted(met) == list(range(len(UNREADABLE)))
