"""Records: kafka-console-consumer and kafka-console-producer."""

from __future__ import annotations

from collections.abc import Iterator

from dissectors.api_keys import ApiKey
from kproxy.copy_as.kcat import subscribed
from kproxy.copy_as.record_lines import Partition, RecordRun, producing
from kproxy.copy_as.request import Makers, RequestToCopy, exactly, tool, unnamed, with_value
from kproxy.copy_as.shell import Command

_NULL = "<null>"
_IN_HEADERS = frozenset(",:\t")


def _fetch(request: RequestToCopy) -> Iterator[Command]:
    words = tool(request, "kafka-console-consumer")
    if request.value.get("isolation_level") == 1:
        words += ["--isolation-level", "read_committed"]
    for name, topic, _ in request.topics():
        if name is None:
            yield Command((), notes=[unnamed(topic)])
            continue
        for partition in topic["partitions"]:
            place = [
                "--partition",
                str(partition["partition"]),
                "--offset",
                str(max(partition["fetch_offset"], 0)),
            ]
            yield Command([*words, *with_value("--topic", name), *place])


def _produce(request: RequestToCopy) -> Iterator[Command]:
    notes = ["partitions are chosen by the key; timestamps, producer ID and sequence numbers are new"]
    yield from producing(request, notes, _producer)


def _producer(
    request: RequestToCopy, partition: Partition, run: RecordRun, notes: list[str]
) -> Command | None:
    delimiters = run.delimiters(("\n",))
    header_texts = [text for header in run.headers for text in header]
    if delimiters is None or any(not _IN_HEADERS.isdisjoint(text) or "\n" in text for text in header_texts):
        notes.append(
            f"left out: {len(run.records):,} records of several lines, or with delimiters in headers"
        )
        return None
    between, behind_keys = delimiters
    properties = []
    if run.keyed:
        properties += ["parse.key=true", f"key.separator={behind_keys}"]
    if run.null:
        properties.append(f"null.marker={_NULL}")
    if run.headers:
        properties.append("parse.headers=true")
    words = tool(request, "kafka-console-producer", *with_value("--topic", partition.topic))
    words += with_value("--request-required-acks", request.value["acks"])
    if partition.codec != "none":
        words += ["--compression-codec", partition.codec]
    words += [word for each in properties for word in ("--property", each)]
    headers = ",".join(f"{header.name}:{header.value}" for header in run.headers)
    lines = [
        f"{headers}\t" * bool(run.headers)
        + f"{key}{behind_keys}" * run.keyed
        + (_NULL if run.null else value)
        for key, value in run.records
    ]
    return Command(words, input="".join(f"{line}{between}" for line in lines), notes=list(notes))


def _join_group(request: RequestToCopy) -> Iterator[Command]:
    topics = subscribed(request)
    if topics:
        words = tool(request, "kafka-console-consumer", *with_value("--group", request.value["group_id"]))
        which = (
            with_value("--topic", topics[0])
            if len(topics) == 1
            else ["--include", "|".join(map(exactly, topics))]
        )
        yield Command(
            [*words, *which], notes=["joins the group as another member: its partitions are assigned anew"]
        )


MAKERS: Makers = {ApiKey.PRODUCE: _produce, ApiKey.FETCH: _fetch, ApiKey.JOIN_GROUP: _join_group}
