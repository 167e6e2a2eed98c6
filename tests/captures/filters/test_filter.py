"""The selections of filters on recorded exchanges: every operator on every type, by columns and by bodies alike."""

from __future__ import annotations

import pickle
from datetime import UTC

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from captures.exchanges import ExchangeTable, Flag
from captures.filters import Context, TableColumns, compile_filter, table_columns, unknown_cluster
from captures.filters.field_columns import DecidedBy
from captures.filters.fields import FIELDS, Kind
from captures.meaning import topics_in
from dissectors.apis import NAMES
from tests.captures.analysis import kit

TOPIC, GROUP = "r2-java_eager_range", "gr2-java_eager_range"
MS = 1_000_000

# filter, and the equivalent Python predicate on an exchange
SAME = [
    ("", lambda x: True),
    ("api == Fetch", lambda x: x.api == "Fetch"),
    ("api == fetch", lambda x: x.api == "Fetch"),
    ("api == 1", lambda x: x.api == "Fetch"),
    ("api == GroupCoordinator", lambda x: x.api == "FindCoordinator"),
    ("api != Fetch", lambda x: x.api != "Fetch"),
    ("api ~ ^offset", lambda x: x.api.startswith("Offset")),
    ("api contains Group", lambda x: "Group" in x.api),
    ("api in {Fetch, produce}", lambda x: x.api in ("Fetch", "Produce")),
    ("api not in {Fetch, produce}", lambda x: x.api not in ("Fetch", "Produce")),
    ("api.key < 3", lambda x: x.api_key < 3),
    ("version >= 9", lambda x: x.version >= 9),
    ("version in {1..4, 18}", lambda x: x.version in (1, 2, 3, 4, 18)),
    ("version == 9.5", lambda x: False),
    ("version > 9.5", lambda x: x.version >= 10),
    ("version < 99999999999999999999", lambda x: True),
    ("version > 0xffffffffffff", lambda x: False),
    ("number <= 10", lambda x: x.number <= 10),
    ("number in {5..7}", lambda x: 5 <= x.number <= 7),
    ("@5-7,9", lambda x: x.number in (5, 6, 7, 9)),
    ("~n 9", lambda x: x.number == 9),
    ("connection == 3", lambda x: x.connection == 3),
    ("correlation_id <= 5", lambda x: x.correlation_id <= 5),
    ("latency > 100ms", lambda x: x.latency is not None and x.latency > 100 * MS),
    ("latency <= 1.5ms", lambda x: x.latency is not None and x.latency <= 1_500_000),
    ("latency in {1ms..2ms, 3s..4s}", lambda x: 1 <= x.latency / MS <= 2 or 3000 <= x.latency / MS <= 4000),
    ("excess > 2ms", lambda x: x.latency - x.wait > 2 * MS),
    ("excess < 500us", lambda x: x.latency - x.wait < MS // 2),
    ("wait == 0", lambda x: not x.wait),
    ("wait >= 400ms", lambda x: x.wait >= 400 * MS),
    ("waited", lambda x: x.wait > 0),
    ("not waited", lambda x: not x.wait),
    ("waited == false", lambda x: not x.wait),
    ("request.size > 100", lambda x: x.request_size > 100),
    ("response.size >= 1kB", lambda x: x.response_size >= 1000),
    ("response.size >= 1KiB", lambda x: x.response_size >= 1024),
    ("size < 150", lambda x: x.request_size + x.response_size < 150),
    ("time > 5s", lambda x: x.time > 1795254658_908_000_000 + 5_000 * MS),
    ("time in {2s..4s}", None),
    ("time >= 2026-11-21T09:51:00Z", lambda x: x.time >= 1795254660_000_000_000),
    ("client_id == m1", lambda x: x.client_id == "m1"),
    ("client_id == M1", lambda x: False),
    ("client_id ~ M1", lambda x: x.client_id == "m1"),
    ("client_id ~ '(?-i:M1)'", lambda x: False),
    ("client_id in {m1, m2}", lambda x: x.client_id in ("m1", "m2")),
    ("client_id contains um", lambda x: x.client_id == "pump"),
    ("client == 127.0.0.1", lambda x: True),
    ("client == m3", lambda x: x.client_id == "m3"),
    ("client in {m1, m3}", lambda x: x.client_id in ("m1", "m3")),
    ("client != m3", lambda x: x.client_id != "m3"),
    ("client ~ ^m", lambda x: (x.client_id or "").startswith("m")),
    ("fetch", lambda x: x.api == "Fetch"),
    ("pump", lambda x: x.client_id == "pump"),
    ("client == 127.0.0.1:41090", lambda x: x.client.endswith(":41090")),
    ("client == :41090", lambda x: x.client.endswith(":41090")),
    ("client == 127.0.0.0/8", lambda x: True),
    ("client == 10.0.0.0/8", lambda x: False),
    ("client.port == 41090", lambda x: x.client.endswith(":41090")),
    ("client.port > 41090", lambda x: int(x.client.split(":")[1]) > 41090),
    ("client.host == 127.0.0.1", lambda x: True),
    ("broker == 127.0.0.1:10101", lambda x: True),
    ("broker ~ :101", lambda x: True),
    ("broker != 127.0.0.1:10101", lambda x: False),
    ("error", lambda x: len(x.errors) > len(x.expected)),
    ("~e", lambda x: len(x.errors) > len(x.expected)),
    ("error.any", lambda x: bool(x.errors)),
    ("error.any and not error", lambda x: bool(x.expected)),
    ("expected", lambda x: bool(x.expected)),
    ("error == rebalance_in_progress", lambda x: any(e.code == 27 for e in x.errors)),
    ("error == 27", lambda x: any(e.code == 27 for e in x.errors)),
    ("error.any == MEMBER_ID_REQUIRED", lambda x: any(e.code == 79 for e in x.errors)),
    ("error == MEMBER_ID_REQUIRED", lambda x: False),
    ("error.any ~ REQUIRED$", lambda x: any(e.code == 79 for e in x.errors)),
    ("error.any in {27, MEMBER_ID_REQUIRED}", lambda x: any(e.code in (27, 79) for e in x.errors)),
    ("unanswered", lambda x: Flag.UNANSWERED in x.flag),
    ("flags == unanswered", lambda x: Flag.UNANSWERED in x.flag),
    ("flags ~ expected", lambda x: bool(x.expected)),
    ("response", lambda x: x.response is not None),
    ("not request", lambda x: x.request is None),
    (f"topic == {TOPIC} and api == Metadata", lambda x: x.api == "Metadata" and x.client_id != "mk"),
    ("partition == 3 and api == Produce", lambda x: x.api == "Produce" and _index(x) == 3),
    ("partition in {3..4} and api == Produce", lambda x: x.api == "Produce" and _index(x) in (3, 4)),
    (f"tp == {TOPIC}-3 and ~a Produce", lambda x: x.api == "Produce" and _index(x) == 3),
    ("member ~ ^m1- and api == Heartbeat", lambda x: x.api == "Heartbeat" and x.client_id == "m1"),
    (f"group == {GROUP} and api == Heartbeat", lambda x: x.api == "Heartbeat"),
    ("group.inferred", lambda x: x.api == "Fetch"),
    ("acks == ALL", lambda x: x.api == "Produce"),
    ("acks == 1", lambda x: False),
    ("codec == none and api == Produce", lambda x: x.api == "Produce"),
    ('key ~ "^k[0-9]" and ~a Produce', lambda x: x.api == "Produce"),
    ("key == k0 and ~a Produce", lambda x: x.api == "Produce" and _record(x)["key"] == b"k0"),
    ("key == 0x6b30 and ~a Produce", lambda x: x.api == "Produce" and _record(x)["key"] == b"k0"),
    (
        "value contains '\"n\":1' and ~a Produce",
        lambda x: x.api == "Produce" and b'"n":1' in _record(x)["value"],
    ),
    ("header", lambda x: False),
    ("header.trace == x", lambda x: False),
    ("request.acks == all", lambda x: x.api == "Produce"),
    ("request.acks == -1", lambda x: x.api == "Produce"),
    ("request.max_wait_ms == 500ms", lambda x: x.api == "Fetch"),
    ("request.max_wait_ms < 500ms", lambda x: False),
    ("request.topic_data.partition_data.index == 3", lambda x: x.api == "Produce" and _index(x) == 3),
    ("request.topic_data[0].partition_data[0].index == 3", lambda x: x.api == "Produce" and _index(x) == 3),
    ("request.topic_data[1].partition_data.index == 3", lambda x: False),
    (
        "request.topic_data.partition_data.records.records.key == k0",
        lambda x: x.api == "Produce" and _record(x)["key"] == b"k0",
    ),
    ("request.topic_data.partition_data.records.codec == none", lambda x: x.api == "Produce"),
    (
        "response.error_code == MEMBER_ID_REQUIRED",
        lambda x: x.api == "JoinGroup" and x.response.value["error_code"] == 79,
    ),
    ("response.error_code ~ MEMBER", lambda x: x.api == "JoinGroup" and x.response.value["error_code"] == 79),
    ("response.error_code != 0", lambda x: not x.response or x.response.value.get("error_code", 1) != 0),
    ("request.group_id == " + GROUP, lambda x: x.request.value.get("group_id") == GROUP),
    ("request.group_id contains JAVA", lambda x: False),
    (
        "request.include_topic_authorized_operations == true",
        lambda x: x.request.value.get("include_topic_authorized_operations") is True,
    ),
    ("request.reason", lambda x: bool(x.request.value.get("reason"))),
    ("request.reason exists", lambda x: x.request.value.get("reason") is not None),
    ("request.transactional_id exists", lambda x: False),
    ("response.api_keys.api_key == Fetch", lambda x: x.api == "ApiVersions"),
    ("marked", lambda x: x.number in (3, 9)),
    ("@marked", lambda x: x.number in (3, 9)),
    ("@unmarked", lambda x: x.number not in (3, 9)),
    ("comment ~ LOOK", lambda x: x.number == 17),
    ("not comment", lambda x: x.number != 17),
]


def _index(x):
    return x.request.value["topic_data"][0]["partition_data"][0]["index"]


def _record(x):
    return x.request.value["topic_data"][0]["partition_data"][0]["records"][0]["records"][0]


def _marked(context: Context) -> Context:
    return Context(context.names, context.groups, context.start, {"marked": {3, 9}}, {17: "look here"})


@pytest.mark.turns(1)
@pytest.mark.sample(18)
@pytest.mark.parametrize(("text", "same"), SAME, ids=[text for text, _ in SAME])
def test_filters(text, same, rebalance):
    wanted = compile_filter(text)
    context = _marked(rebalance.context)
    found = [x.number for x in rebalance.exchanges if wanted.match(x, context)]
    if same is not None:
        assert found == [x.number for x in rebalance.exchanges if same(x)]
    assert (wanted.select(rebalance.reader(), context) + 1).tolist() == found
    assert compile_filter(wanted.expanded).select(rebalance.reader(), context).tolist() == [
        n - 1 for n in found
    ]


def test_the_table_of_filters_leaves_no_field_out():
    named = " ".join(text for text, _ in SAME)
    elsewhere = {
        "broker.queue",  # captures/request_log
        "broker.local",
        "broker.remote",
        "broker.throttle",
        "broker.response_queue",
        "broker.send",
        "broker.id",  # test_interventions
        "cluster",
        "kproxy",
        "kproxy.time",
        "no_response",
        "not_recorded",
        "orphan",
        "sasl",
        "damaged",
        "request.damaged",
        "response.damaged",
        "conflicting",
        "resynchronised",
        "request_logged",  # captures/request_log
        "response_logged",
        "guess",
        "problem",
        "transactional_id",
        "producer_id",
        "throttle",
        "batches",
        "records.size",
        "header.value",
        "error.message",
        "broker.host",
        "broker.port",
        "topic_partition",
        "changed",
        "fault",
        "held",
        "answered_by_kproxy",
        "not_forwarded",
    }
    assert {field.name for field in FIELDS if field.name not in named} <= elsewhere


def test_examples_of_the_registry_compile():
    for field in FIELDS:
        wanted = compile_filter(field.example)
        assert field.name in wanted.text or any(name in wanted.text for name in field.synonyms), field.name
        assert wanted.needs_bodies is (field.column.source is not DecidedBy.TABLE)


# ---------------------------------------------------------------- other recordings
@pytest.mark.parametrize(
    ("capture", "text", "count"),
    [
        # counted in what `kproxy read --json` says of the same captures
        ("06_noida_acks0_java.pcap", "acks == NONE", "acks"),
        ("22_k430_java_commit_abort.pcap", "transactional_id == txj-tw1", "transactional"),
        ("22_k430_java_commit_abort.pcap", "producer_id >= 0 and api == Produce", "producer"),
        ("24_k430_franz_scramsha256.pcap", "guess", "guess"),
        ("20_k430_ck_zstd.pcap", "codec == zstd", "zstd"),
        ("09_ipv6.pcap", "client.host == ::1", "all"),
        ("09_ipv6.pcap", "client == ::/0 and client ~ ^.::1.:", "all"),
        ("09_snaplen128.pcap", "damaged", "damaged"),
        ("09_snaplen128.pcap", "request.damaged or response.damaged", "damaged"),
        ("35_k282_sasl_plain.pcap.zst", "sasl or api == SaslToken", "sasl"),
    ],
)
def test_other_recordings(capture, text, count, recording):
    counted = {
        "acks": lambda x: x.api == "Produce" and x.request.value["acks"] == 0,
        "transactional": lambda x: "'txj-tw1'" in f"{x.request.value}{x.response and x.response.value}",
        "producer": lambda x: x.api == "Produce" and "'producer_id': -1" not in str(x.request.value),
        "guess": lambda x: any(flag.endswith("guessed") for flag in x.flags),
        "zstd": lambda x: "'codec': 'zstd'" in f"{x.request.value}{x.response and x.response.value}",
        "all": lambda x: True,
        "damaged": lambda x: any("damaged" in flag for flag in x.flags),
        "sasl": lambda x: "sasl_token" in x.flags,
    }[count]
    found = recording(capture)
    wanted = compile_filter(text)
    matching = [x.number for x in found.exchanges if wanted.match(x, found.context)]
    assert matching == [x.number for x in found.exchanges if counted(x)]
    assert matching or count == "sasl"
    assert (wanted.select(found.reader(), found.context) + 1).tolist() == matching


def test_flags_of_guess_and_conflict():
    """Flags that no recording has."""
    table = ExchangeTable()
    flags = [0, Flag.CONFLICTING, Flag.RESYNCHRONISED, Flag.CONFLICTING | Flag.RESYNCHRONISED]
    table.append(4, flags=flags, request_size=10, request_first=5)
    for text, expected in (
        ("conflicting", [1, 3]),
        ("resynchronised", [2, 3]),
        ("not conflicting", [0, 2]),
    ):
        matches, undecided = compile_filter(text).mask(TableColumns(table, lambda _: ("", "")))
        assert not undecided.any()
        assert np.flatnonzero(matches).tolist() == expected


def test_topic_names_of_topic_ids_come_from_the_context(rebalance):
    fetch = next(x for x in rebalance.exchanges if x.api == "Fetch")
    assert not compile_filter(f"topic == {TOPIC}").match(fetch)
    assert compile_filter(f"topic == {TOPIC}").match(fetch, rebalance.context)


# ---------------------------------------------------------------- columns and bodies agree
CAPTURES = (
    "rebalance.pcap",
    "09_snaplen128.pcap",
    "22_k430_java_commit_abort.pcap",
    "06_tansu_garbage.pcap",
    "24_k430_franz_scramsha256.pcap",
    "01_mock_java_throttle_bug.pcap",
    "36_k251_sweep.pcap.zst",
)
_ORDER = ["==", "!=", "<", "<=", ">", ">="]
_SOME = {
    Kind.NUMBER: (_ORDER, ["-1", "0", "1", "3", "5", "12", "30", "41090", "10101", "4000"]),
    Kind.DURATION: (_ORDER, ["0", "300us", "1ms", "4999us", "5ms", "100ms", "500ms", "3s"]),
    Kind.SIZE: (_ORDER, ["0", "50", "100", "133", "1kB", "1MiB"]),
    Kind.TIME: (_ORDER, ["0s", "1s", "5s", "20s", "2026-11-21T09:51:00Z", "1970-01-01"]),
    Kind.TEXT: (
        ["==", "!=", "~", "!~", "contains", "not contains"],
        ["m1", "a", '""', ".", "^r2", "none", TOPIC, GROUP, "waited"],
    ),
    Kind.API: (
        ["==", "!="],
        ["Fetch", "Produce", "Metadata", "SaslToken", "unknown", "ApiVersions", str(len(NAMES))],
    ),
    Kind.ERROR: (["==", "!=", "~"], ["27", "79", "0", "35"]),
    Kind.ADDRESS: (["==", "!=", "~"], ["127.0.0.1", "127.0.0.1:10101", ":9092", "10.0.0.0/8"]),
    Kind.HOST: (["==", "!=", "~"], ["127.0.0.1", "::1", "127.0.0.0/8"]),
    Kind.BYTES: (["==", "!=", "~", "contains"], ["k0", "n", '""', "0x00"]),
    Kind.BOOL: (["=="], ["true", "false"]),
}
PATHS = [
    ("request.topics.partitions.partition", ["==", "!=", "<", ">="], ["0", "3"]),
    ("response.error_code", ["==", "!=", "~"], ["27", "0"]),
    ("response.throttle_time_ms", ["==", ">"], ["0", "1ms"]),
    ("request.group_id", ["==", "~", "contains"], ["g", GROUP]),
    ("response.topics.name", ["==", "~"], ["a", TOPIC]),
    ("request.topic_data.partition_data.records.records.value", ["~", "contains"], ["1", "n"]),
    ("response.responses.partitions.records.count", [">"], ["0", "1"]),
]


@st.composite
def atoms(draw):
    if draw(st.integers(0, 4)) == 0:
        path, operators, values = draw(st.sampled_from(PATHS))
        return f"{path} {draw(st.sampled_from(operators))} {draw(st.sampled_from(values))}"
    field = draw(st.sampled_from(FIELDS))
    operators, values = _SOME[field.kind]
    match draw(st.integers(0, 4)):
        case 0:
            return field.name
        case 1:
            return f"{field.name} exists"
        case 2:
            listed = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
            return f"{field.name} {draw(st.sampled_from(['in', 'not in']))} {{{', '.join(listed)}}}"
        case _:
            return f"{field.name} {draw(st.sampled_from(operators))} {draw(st.sampled_from(values))}"


FILTERS = st.recursive(
    atoms(),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not ({text})"),
        st.tuples(inner, st.sampled_from(["and", "or"]), inner).map(
            lambda parts: "({}) {} ({})".format(*parts)
        ),
    ),
    max_leaves=4,
)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=FILTERS, name=st.sampled_from(CAPTURES))
def test_columns_and_bodies_agree(text, name, recording):
    found = recording(name)
    context = _marked(found.context)
    wanted = compile_filter(text)
    matches, undecided = wanted.mask(found.columns, context)
    assert not (matches & undecided).any()
    if not wanted.needs_bodies:
        assert not undecided.any()
    by_messages = wanted.mask(found.with_messages, context)
    assert not (by_messages.undecided & ~undecided).any()
    for exchange, bare in zip(found.exchanges, found.bare, strict=True):
        fits = wanted.match(exchange, context)
        assert fits is wanted.match(exchange, context)
        if not undecided[exchange.row]:
            assert fits == matches[exchange.row], (exchange.number, wanted.text)
        if not by_messages.undecided[exchange.row]:
            assert fits == by_messages.matches[exchange.row], (exchange.number, wanted.text)
        if "problem" not in text:  # errors that annotation finds inside records are problems too
            assert fits == wanted.match(bare, context), exchange.number


def test_a_part_of_the_table_gives_a_part_of_the_mask(rebalance):
    capture, wanted = (
        rebalance.capture,
        compile_filter('latency > 1ms and client_id ~ "m" or number in {3..90}'),
    )
    whole = wanted.mask(rebalance.columns).matches
    numbers = np.empty(len(capture.table), np.int64)
    numbers[capture.table.order()] = np.arange(1, len(numbers) + 1)
    for rows in (slice(100, 250), np.array([7, 3, 300])):
        for given_numbers in (None, numbers[rows]):
            part = TableColumns(capture.table, capture.endpoints, rows=rows, numbers=given_numbers)
            assert wanted.mask(part).matches.tolist() == whole[rows].tolist()


def test_what_bodies_cannot_change_is_decided_by_columns(rebalance):
    keys = rebalance.capture.table.column("api_key")
    latency = rebalance.columns.numbers(table_columns.latency).values
    for text, possible in (
        ("request.topics.partitions.partition == 3", np.isin(keys, [1, 2, 3, 8, 9, 23])),
        ("topic == x", ~np.isin(keys, [10, 12, 13, 18, 22])),
        ("excess > 100ms", latency > 100 * MS),
        ("waited", latency >= 5 * MS),
    ):
        undecided = compile_filter(text).mask(rebalance.columns).undecided
        assert undecided.any()
        assert not (undecided & ~possible).any(), text


def test_an_empty_table_has_nothing_to_filter():
    empty = TableColumns(ExchangeTable(), lambda _: ("", ""))
    for text in (
        "time > 5s",
        "api == Fetch",
        "client.port == 1",
        "excess > 1s",
        "@marked",
        "not ~e",
        "number == 1",
    ):
        matches, undecided = compile_filter(text).mask(empty, Context(selections={"marked": {1}}))
        assert len(matches) == len(undecided) == 0


def test_an_unknown_api_has_its_number_for_a_name():
    unknown = len(NAMES)
    table = ExchangeTable()
    table.set(table.append(3), api_key=[unknown, 1, -1], request_size=10, request_first=5)
    columns = TableColumns(table, lambda _: ("h:1", "h:2"))
    assert compile_filter(f"api == {unknown}").mask(columns).matches.tolist() == [True, False, False]
    assert compile_filter(f"api == Api#{unknown}").mask(columns).matches.tolist() == [True, False, False]
    assert compile_filter("api == unknown").mask(columns).matches.tolist() == [False, False, True]
    assert compile_filter("request.max_wait_ms > 1").mask(columns).undecided.tolist() == [False, True, False]


def test_a_filter_can_be_sent_to_another_process(rebalance):
    sent = pickle.loads(pickle.dumps(compile_filter("~t r2 and time > 09:51:00", UTC)))
    assert sent.select(rebalance.reader()).tolist() == [
        x.number - 1
        for x in rebalance.exchanges
        if sent.match(x, rebalance.context) and x.time > 1795254660_000_000_000
    ]


def test_relative_times_need_a_beginning(rebalance):
    wanted = compile_filter("time > 5s")
    with pytest.raises(ValueError, match="needs the start"):
        wanted.match(rebalance.exchanges[0])


def test_every_topic_of_a_fetch_is_found(rebalance):
    wanted = compile_filter("topic == nobody or partition == 99")
    for x in rebalance.exchanges:
        if x.api == "Fetch":
            assert topics_in(1, x.request.version, x.request.value, rebalance.context.names).keys() <= {TOPIC}
            assert not wanted.match(x, rebalance.context)


@pytest.mark.parametrize(
    ("text", "names", "said"),
    [
        ("cluster == west", ("east", "west"), None),
        ("cluster in {east, west} or not api == Fetch", ("east", "west"), None),
        ("cluster != typo", ("east", "west"), "there is no cluster typo"),
        ("cluster ~ ^we", ("east",), None),
        ("client_id == typo", ("east",), None),
        ("api == Fetch and not (cluster == wset)", ("east", "west"), "there is no cluster wset"),
        ("cluster in {east, north}", ("east", ""), "there is no cluster north"),
        ("cluster == east", ("",), "there is no cluster east"),
    ],
)
def test_names_of_clusters_that_there_are_not(text: str, names: tuple[str, ...], said: str | None) -> None:
    error = unknown_cluster(compile_filter(text), names)
    assert said == (error and error.message)
    if error is not None:
        assert error.text[error.position :].startswith(error.message.rpartition(" ")[2])


def test_whatever_names_a_producer_or_topic_is_found():
    asked = kit.exchange(66, 2, request={"producer_id_filters": (4711,)}, response={})
    nodes = [{"name": "SINK-1", "sink_topic": "orders"}]
    described = kit.exchange(93, 0, request={"topology_description": {"subtopologies": [{"nodes": nodes}]}})
    assert compile_filter("producer_id == 4711").match(asked)
    assert not compile_filter("producer_id == 4712").match(asked)
    assert compile_filter("topic == orders").match(described)
    assert not compile_filter("topic == SINK-1").match(described)
