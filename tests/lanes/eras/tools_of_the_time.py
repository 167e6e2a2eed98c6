"""Kafka's own command line tools in each release, the clients of its time, and the errands they run.

A tool has had up to three names and places, and its options have changed; :data:`ERRANDS` states the first release
(inclusive) and the last (exclusive) of each variant. :func:`told` makes the output of a tool comparable: an errand runs
twice, directly and through kproxy, with different topics and groups.
"""

from __future__ import annotations

import functools
import re
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tests.lanes.broker import kafka_class_path, number, tools_of
from tests.lanes.eras.releases import NODE_ID, RunningBroker
from tests.lanes.eras.tool_jvm import ToolJvm
from tests.lanes.tools import Wrong

RECORDS = 20
_ALWAYS = (99,)

Version = tuple[int, ...]


@dataclass(frozen=True)
class Errand:
    """A run of a tool.

    :ivar tool: simple name of its class
    :ivar options: options with placeholders for topic, group, file and so on, see :class:`Scene`
    :ivar since: first release that has this variant
    :ivar until: first release that no longer has it
    :ivar stdin: standard input of the tool
    :ivar file: content of ``{file}``
    :ivar expected: regular expression that its output must match, so that a refusal does not pass
    :ivar compared: False if its output is not deterministic
    :ivar numbers: whether the numbers in its output are the same each time; False if they are IDs or offsets
    """

    tool: str
    options: str
    since: Version = (0, 8)
    until: Version = _ALWAYS
    stdin: str = ""
    file: str = ""
    expected: str = ""
    numbers: bool = True
    compared: bool = True


_LINES = "".join(f"key {n}:line {n}\n" for n in range(RECORDS))
#: to a separate topic: these records may be lost
_UNACKNOWLEDGED = "{brokers} --topic {topic}-unacknowledged --request-required-acks 0"
_KEYED = "{acks} --property parse.key=true --property key.separator=:"
#: all records of the release's console producers: which records come first is not deterministic
_ALL = "--from-beginning --max-messages {count} --timeout-ms 30000"
_PROPERTIES = "--producer-props bootstrap.servers={address}"
_EARLIEST = "share.auto.offset.reset=earliest"
_SCRAM = "SCRAM-SHA-256=[iterations=4096,password=p]"
_SPEED = "--topic {topic}-speed --num-records 50 --record-size 40 --throughput -1"
_SETTINGS = "group.id={group}\nclient.id=console"
_REASSIGNED = '{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "replicas": [{node}]}}]}}'
_DELETED = '{{"version": 1, "partitions": [{{"topic": "{topic}", "partition": 0, "offset": 1}}]}}'

ERRANDS = [
    # -- topics: from 2.2 on the tool connects to brokers, before that to ZooKeeper
    Errand(
        "TopicCommand",
        "--zookeeper {zookeeper} --create --topic {topic} --partitions 2 --replication-factor 1",
        until=(2, 2),
    ),
    Errand(
        "TopicCommand",
        "{bootstrap} --create --topic {topic} --partitions 2 --replication-factor 1",
        since=(2, 2),
    ),
    Errand("TopicCommand", "{bootstrap} --alter --topic {topic} --partitions 3", since=(2, 2)),
    Errand(
        "TopicCommand", "{bootstrap} --describe --topic {topic}", since=(2, 2), expected="PartitionCount: *3"
    ),
    # -- records
    Errand("ConsoleProducer", f"{{brokers}} --topic {{topic}} --sync {_KEYED}", until=(0, 9), stdin=_LINES),
    Errand(
        "ConsoleProducer",
        f"{{brokers}} --topic {{topic}} --new-producer --compression-codec gzip {_KEYED}",
        until=(0, 9),
        stdin=_LINES,
    ),
    Errand(
        "ConsoleProducer",
        f"{{brokers}} --topic {{topic}} --old-producer --compression-codec snappy {_KEYED}",
        since=(0, 9),
        until=(2, 0),
        stdin=_LINES,
    ),
    Errand("ConsoleProducer", f"{{brokers}} --topic {{topic}} {_KEYED}", since=(0, 9), stdin=_LINES),
    Errand(
        "ConsoleProducer",
        f"{{brokers}} --topic {{topic}} --compression-codec lz4 {_KEYED}",
        since=(0, 9),
        stdin=_LINES,
    ),
    Errand(
        "ConsoleProducer",
        f"{{brokers}} --topic {{topic}} --compression-codec zstd {_KEYED}",
        since=(2, 1),
        stdin=_LINES,
    ),
    Errand(
        "ConsoleProducer",
        f"{_UNACKNOWLEDGED} {_KEYED}",
        since=(2, 0),
        stdin=_LINES,
    ),
    Errand(
        "VerifiableProducer",
        f"{{brokers}} --topic {{topic}}-verified --max-messages {RECORDS}",
        since=(0, 9),
        expected='"sent": ?20',
        numbers=False,
    ),
    Errand(
        "ProducerPerformance",
        f"{_SPEED} {_PROPERTIES} compression.type=gzip",
        since=(0, 10, 0),
        expected="50 records sent",
        numbers=False,
    ),
    Errand(
        "ProducerPerformance",
        f"{_SPEED} --transactional-id {{group}} --transaction-duration-ms 5 {_PROPERTIES}",
        since=(1, 1),
        expected="50 records sent",
        numbers=False,
    ),
    Errand(
        "SimpleConsumerShell",
        "--broker-list {address} --topic {topic} --partition 0 --offset -2 --max-messages 10 --no-wait-at-logend",
        until=(2, 0),
    ),
    Errand(
        "ConsoleConsumer",
        f"--new-consumer {{bootstrap}} --topic {{topic}} {_ALL} --consumer.config {{file}}",
        since=(0, 9),
        until=(0, 11),
        file=_SETTINGS,
        expected="line 1",
    ),
    Errand(
        "ConsoleConsumer",
        f"{{bootstrap}} --topic {{topic}} {_ALL} --isolation-level read_committed --consumer.config {{file}}",
        since=(0, 11),
        until=(4, 0),
        file=_SETTINGS,
        expected="line 1",
    ),
    Errand(
        "ConsoleConsumer",
        f"{{bootstrap}} --topic {{topic}} {_ALL} --isolation-level read_committed --group {{group}}",
        since=(4, 0),
        expected="line 1",
    ),
    Errand(
        "ConsoleConsumer",
        f"{{bootstrap}} --topic {{topic}} {_ALL} --group {{group}}-k848 --consumer-property group.protocol=consumer",
        since=(3, 9),
        expected="line 1",
    ),
    Errand(
        "GetOffsetShell",
        "--broker-list {address} --topic {topic} --time -1",
        until=(3, 0),
        expected="{topic}:0",
    ),
    Errand("GetOffsetShell", "{bootstrap} --topic {topic} --time -1", since=(3, 0), expected="{topic}:0"),
    Errand(
        "GetOffsetShell",
        "{bootstrap} --topic {topic} --time -3",
        since=(3, 0),
        expected="{topic}:0",
        numbers=False,
    ),
    # -- groups
    # up to 0.10 a group exists while it has members, and departed members count until they time out
    Errand(
        "ConsumerGroupCommand",
        "--new-consumer {bootstrap} --list",
        since=(0, 9),
        until=(0, 11),
        compared=False,
    ),
    Errand(
        "ConsumerGroupCommand",
        "--new-consumer {bootstrap} --describe --group {group}",
        since=(0, 9),
        until=(0, 11),
        compared=False,
    ),
    Errand("ConsumerGroupCommand", "{bootstrap} --list", since=(0, 11), expected="{group}"),
    Errand(
        "ConsumerGroupCommand", "{bootstrap} --describe --group {group}", since=(0, 11), expected="{topic}"
    ),
    Errand("ConsumerGroupCommand", "{bootstrap} --describe --group {group} --state", since=(2, 0)),
    Errand("ConsumerGroupCommand", "{bootstrap} --describe --group {group} --members", since=(2, 0)),
    Errand("ConsumerGroupCommand", "{bootstrap} --list --state", since=(2, 6), expected="{group}"),
    Errand(
        "ConsumerGroupCommand",
        "{bootstrap} --reset-offsets --group {group} --topic {topic} --to-earliest --execute",
        since=(1, 0),
        expected="{topic}",
    ),
    Errand(
        "ConsumerGroupCommand",
        "{bootstrap} --delete-offsets --group {group} --topic {topic}",
        since=(2, 4),
        expected="{topic}",
    ),
    Errand(
        "ConsumerGroupCommand",
        "{bootstrap} --delete --group {group}",
        since=(1, 1),
        expected="successful|GroupIdNotFound",
    ),
    Errand("GroupsCommand", "{bootstrap} --list", since=(4, 0)),
    # -- share and streams groups
    Errand(
        "ConfigCommand",
        f"{{bootstrap}} --entity-type groups --entity-name {{group}}-share --alter --add-config {_EARLIEST}",
        since=(4, 0),
        expected="Completed",
    ),
    Errand(
        "ConsoleShareConsumer",
        "{bootstrap} --topic {topic} --group {group}-share --max-messages {count} --timeout-ms 30000",
        since=(4, 0),
        expected="line 1",
    ),
    Errand("ShareGroupCommand", "{bootstrap} --list", since=(4, 0), expected="{group}-share"),
    Errand(
        "ShareGroupCommand",
        "{bootstrap} --describe --group {group}-share --state",
        since=(4, 0),
        expected="{group}-share",
    ),
    Errand(
        "ShareGroupCommand", "{bootstrap} --describe --group {group}-share", since=(4, 1), expected="{topic}"
    ),
    Errand(
        "ShareGroupCommand",
        "{bootstrap} --reset-offsets --group {group}-share --topic {topic} --to-latest --execute",
        since=(4, 1),
        expected="{topic}",
    ),
    Errand(
        "ShareGroupCommand",
        "{bootstrap} --delete-offsets --group {group}-share --topic {topic}",
        since=(4, 1),
        expected="{topic}",
    ),
    Errand(
        "ShareGroupCommand", "{bootstrap} --delete --group {group}-share", since=(4, 1), expected="successful"
    ),
    Errand("StreamsGroupCommand", "{bootstrap} --list", since=(4, 1)),
    # -- configuration, quotas, ACLs
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type brokers --entity-name {node} --alter --add-config background.threads=5",
        since=(1, 1),
        expected="Completed",
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type brokers --entity-name {node} --describe",
        since=(1, 1),
        expected="background.threads",
        numbers=False,  # a broker applies a new configuration shortly after its response
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type topics --entity-name {topic} --alter --add-config retention.ms=86400001",
        since=(2, 5),
        expected="Completed",
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type topics --entity-name {topic} --describe",
        since=(2, 5),
        expected="{topic}",
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type users --entity-name {group} --alter --add-config consumer_byte_rate=10000000",
        since=(2, 6),
        expected="Completed",
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type users --entity-name {group} --describe",
        since=(2, 6),
        until=(3, 0),
        expected="consumer_byte_rate",
    ),
    Errand(
        "ConfigCommand",
        "{bootstrap} --entity-type users --entity-name {group} --describe",
        since=(3, 5),
        expected="consumer_byte_rate",
    ),
    Errand(
        "ConfigCommand",
        f"{{bootstrap}} --entity-type users --entity-name {{group}} --alter --add-config {_SCRAM}",
        since=(3, 5),
        expected="Completed",
    ),
    Errand(
        "ClientMetricsCommand",
        "{bootstrap} --alter --name {group} --metrics org. --interval 60000 --match client_id=none",
        since=(3, 7),
        expected="Altered",
    ),
    Errand("ClientMetricsCommand", "{bootstrap} --list", since=(3, 7), expected="{group}"),
    Errand(
        "AclCommand",
        "{bootstrap} --add --allow-principal User:somebody --operation Read --topic {topic}",
        since=(2, 1),
        expected="{topic}",
    ),
    Errand("AclCommand", "{bootstrap} --list --topic {topic}", since=(2, 1), expected="{topic}"),
    Errand(
        "AclCommand",
        "{bootstrap} --remove --force --allow-principal User:somebody --operation Read --topic {topic}",
        since=(2, 1),
    ),
    # -- the cluster
    Errand("BrokerApiVersionsCommand", "{bootstrap}", since=(0, 10, 2), expected="Produce"),
    Errand(
        "LogDirsCommand",
        "{bootstrap} --describe --topic-list {topic}",
        since=(1, 0),
        expected="{topic}-0",
        numbers=False,
    ),
    Errand(
        "LeaderElectionCommand",
        "{bootstrap} --election-type preferred --topic {topic} --partition 0",
        since=(2, 4),
    ),
    Errand("ReassignPartitionsCommand", "{bootstrap} --list", since=(2, 6)),
    Errand(
        "ReassignPartitionsCommand",
        "{bootstrap} --execute --reassignment-json-file {file}",
        since=(2, 6),
        file=_REASSIGNED,
        expected="Successfully",
    ),
    Errand("ClusterTool", "cluster-id {bootstrap}", since=(2, 8), expected="Cluster ID"),
    Errand("FeatureCommand", "{bootstrap} describe", since=(3, 3), expected="Feature", numbers=False),
    Errand(
        "MetadataQuorumCommand",
        "{bootstrap} describe --status",
        since=(3, 3),
        expected="LeaderId",
        numbers=False,
    ),
    Errand(
        "MetadataQuorumCommand",
        "{bootstrap} describe --replication",
        since=(3, 3),
        expected="Leader",
        numbers=False,
    ),
    Errand("TransactionsCommand", "{bootstrap} list", since=(3, 0), expected="{group}", numbers=False),
    Errand(
        "TransactionsCommand",
        "{bootstrap} describe --transactional-id {group}",
        since=(3, 0),
        expected="{group}",
        numbers=False,
    ),
    Errand(
        "TransactionsCommand",
        "{bootstrap} describe-producers --topic {topic} --partition 0",
        since=(3, 0),
        expected="ProducerId",
        numbers=False,
    ),
    # -- deletions
    Errand(
        "DeleteRecordsCommand",
        "{bootstrap} --offset-json-file {file}",
        since=(0, 11),
        file=_DELETED,
        expected="low_watermark: 1",
    ),
    Errand("TopicCommand", "{bootstrap} --delete --topic {topic}", since=(2, 2)),
]


@dataclass(frozen=True)
class Scene:
    """The environment of errands.

    :ivar address: address for clients: the broker's own, or kproxy's
    :ivar topic: topic that they create and use
    :ivar folder: folder for input files of tools
    """

    broker: RunningBroker
    address: str
    topic: str
    folder: Path

    def fill(self, text: str) -> str:
        """Return a text with its placeholders filled in."""
        option = "--bootstrap-server" if self.broker.version >= (2, 6) else "--broker-list"
        return text.format(
            address=self.address,
            bootstrap=f"--bootstrap-server {self.address}",
            brokers=f"{option} {self.address}",
            topic=self.topic,
            group=self.group,
            count=self.count,
            # before 0.10 the default is 0, and a broker discards requests of a closed connection
            acks="--request-required-acks 1" if self.broker.version < (0, 10) else "",
            node=NODE_ID,
            zookeeper=self.broker.zookeeper,
            file=self.folder / "told",
        )

    @property
    def count(self) -> int:
        """Number of records that the console producers send to the topic."""
        producers = [each for each in errands(self.broker.release) if each.tool == "ConsoleProducer"]
        return RECORDS * sum(not each.options.startswith(_UNACKNOWLEDGED) for each in producers)

    @property
    def group(self) -> str:
        """Name of the group, and the transactional ID."""
        return f"{self.topic}-group"


def errands(release: str) -> list[Errand]:
    """Return the errands for the tools of a release."""
    version = number(release)
    return [errand for errand in ERRANDS if errand.since <= version < errand.until]


def run(errand: Errand, context: Scene, tools: ToolJvm) -> tuple[int, str]:
    """Run a tool; return its exit code and output.

    :raises Wrong: if it does not exit in time
    """
    if errand.file:
        (context.folder / "told").write_text(context.fill(errand.file))
    main = main_of(errand.tool, context.broker.release)
    return tools.run(main, *context.fill(errand.options).split(), stdin=errand.stdin)


def main_of(tool: str, release: str) -> str:
    """Return the full class name of a tool.

    :raises Wrong: if the release has no such tool
    """
    main = _classes(tools_of(release)).get(tool)
    if main is None:
        raise Wrong(f"{release} has no {tool}")
    return main


@functools.cache
def _classes(release: str) -> dict[str, str]:
    """Return the classes of tools by simple name; if two have the same name, the newer one."""
    found: dict[str, str] = {}
    for jar in sorted(Path(kafka_class_path(release)).parent.glob("*.jar")):
        with zipfile.ZipFile(jar) as opened:
            names = [name.removesuffix(".class").replace("/", ".") for name in opened.namelist()]
        for name in names:
            if re.match(r"(org\.apache\.)?kafka\.(tools|admin)\.", name):
                simple = name.rpartition(".")[2]
                found[simple] = max(found.get(simple, ""), name, key=_new_place)
    return found


def _new_place(name: str) -> tuple[bool, str]:
    return name.startswith("org."), name


#: text that differs between runs, and its replacement
_SCENES = "era-(direct|recorded|unrecorded)"
_VARIES = [
    (_SCENES, "TOPIC"),
    (r"(localhost|127\.0\.0\.1):\d+", "BROKER"),
    (r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID"),
    (r"\b[A-Za-z0-9_-]{22}\b", "ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[,:]\d+", "DATE"),
    (r"\b1[6-9]\d{11}\b", "TIME"),
    (r"\bin \d+ ms\b", "in TIME"),
]
#: log lines, and lines about throughput
_OF_NO_ACCOUNT = (
    r"(?i)\bwarn|\berror processing|slf4j|log4j|timeoutexception|records/sec|avg latency|avg_throughput|^at "
)


def told(errand: Errand, output: str, context: Scene) -> list[str]:
    """Return the output of a tool, made independent of time and place.

    Lines about the topics and groups of another scene are left out.
    """
    # 3.9 writes all rows about a group's offsets on one line, in any order
    output = re.sub(rf"[ \t]({re.escape(context.group)})[ \t]", r"\n\1 ", output)
    others = rf"\b(?!{context.topic}\b){_SCENES}\b"
    output = "\n".join(line for line in output.splitlines() if not re.search(others, line))
    for pattern, instead in _VARIES:
        output = re.sub(pattern, instead, output)
    if not errand.numbers:
        output = re.sub(r"\d+", "N", output)
    lines = [re.sub(r"[ \t]+", " ", line).strip() for line in output.splitlines()]
    return sorted({line for line in lines if line and not re.search(_OF_NO_ACCOUNT, line)})
