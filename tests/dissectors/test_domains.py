"""Names of values, checked against kafka-python's enums, Kafka's message definitions and known facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.admin import (
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    AlterConfigOp,
    ConfigResourceType,
    ConfigSourceType,
    ConfigType,
    ResourceType,
    ScramMechanism,
    UpdateFeatureType,
)

from dissectors import domains, schema
from dissectors.domains import METADATA_VERSION, Domain, FlagDomain, feature_level_name
from dissectors.error_codes import BY_CODE
from tests.definitions import facts
from tests.definitions.declared import declaration
from tests.definitions.layouts import Field, flat, in_snake_case

DOMAINS = [each for each in vars(domains).values() if isinstance(each, Domain)]
PLAIN = [domain for domain in DOMAINS if not isinstance(domain, FlagDomain)]


@pytest.mark.parametrize("domain", PLAIN, ids=lambda domain: domain.name)
def test_every_name_leads_back_to_its_value(domain: Domain) -> None:
    for value, name in domain.values.items():
        assert domain.name_of(value) == name
        assert domain.value_of(name) == value
        assert domain.value_of(name.swapcase()) == value


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: domain.name)
def test_registered_under_its_constant(domain: Domain) -> None:
    assert getattr(domains, domain.name.upper()) is domain
    assert domain.doc
    assert domain.values or domain.rest != "unknown"


@pytest.mark.parametrize("domain", PLAIN, ids=lambda domain: domain.name)
def test_what_has_no_name_is_no_error(domain: Domain) -> None:
    assert domain.name_of(12345) is None
    assert domain.value_of("no such name") is None


@pytest.mark.parametrize(
    ("domain", "theirs"),
    [
        (domains.ACL_OPERATION, ACLOperation),
        (domains.ACL_PERMISSION, ACLPermissionType),
        (domains.PATTERN_TYPE, ACLResourcePatternType),
        (domains.RESOURCE_TYPE, ResourceType),
        (domains.ALTER_CONFIG_OP, AlterConfigOp),
        (domains.CONFIG_RESOURCE_TYPE, ConfigResourceType),
        (domains.CONFIG_SOURCE, ConfigSourceType),
        (domains.CONFIG_TYPE, ConfigType),
        (domains.UPGRADE_TYPE, UpdateFeatureType),
        (domains.SCRAM_MECHANISM, ScramMechanism),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_agrees_with_kafka_python(domain: Domain, theirs: type[IntEnum]) -> None:
    assert {m.value: m.name for m in theirs}.items() <= {
        value: name.replace("-", "_") for value, name in domain.values.items()
    }.items()


@pytest.mark.parametrize(
    ("domain", "value", "name"),
    [
        (domains.ACKS, -1, "ALL"),  # ProduceRequest.json
        (domains.ACKS, 1, "LEADER"),
        (domains.ISOLATION_LEVEL, 1, "READ_COMMITTED"),  # common/IsolationLevel.java
        (domains.LIST_OFFSETS_TIMESTAMP, -2, "EARLIEST"),  # ListOffsetsRequest.java
        (domains.LIST_OFFSETS_TIMESTAMP, -6, "EARLIEST_PENDING_UPLOAD"),  # KIP-1023
        (domains.COORDINATOR_TYPE, 2, "SHARE"),  # FindCoordinatorRequest.CoordinatorType
        (domains.TRANSACTION_STATUS, 7, "PrepareEpochFence"),  # TransactionState.java
        (domains.SECURITY_PROTOCOL, 3, "SASL_SSL"),  # common/security/auth/SecurityProtocol.java
        (domains.MEMBER_EPOCH, -2, "LEAVE_STATIC"),  # ConsumerGroupHeartbeatRequest.json
        (domains.MEMBER_STATE, 127, "UNKNOWN"),  # group/modern/MemberState.java
        (domains.STREAMS_MEMBER_STATE, 1, "STABLE"),  # group/streams/MemberState.java: begins with 1
        (domains.STREAMS_STATUS, 5, "ASSIGNMENT_DELAYED"),  # StreamsGroupHeartbeatResponse.Status
        (domains.SHARE_DELIVERY_STATE, 4, "ARCHIVED"),  # share/fetch/RecordState.java
        (domains.BROKER_FENCING_CHANGE, -1, "UNFENCE"),  # BrokerRegistrationFencingChange.java
        (domains.LEADER_RECOVERY_STATE, -1, "NO_CHANGE"),  # LeaderRecoveryState.java
        (domains.ZK_MIGRATION_STATE, 2, "PRE_MIGRATION"),  # ZkMigrationState.java since 3.5: 1 and 2 swapped
        (domains.COMPRESSION, 4, "zstd"),  # CompressionType.java
        (domains.QUOTA_MATCH_TYPE, 2, "SPECIFIED"),  # DescribeClientQuotasRequest.java
        (domains.ENDPOINT_TYPE, 2, "CONTROLLER"),  # DescribeClusterRequest.json
        (domains.REPLICA_ID, -3, "FUTURE_LOCAL_REPLICA"),  # FetchRequest.java
    ],
)
def test_known_values(domain: Domain, value: int, name: str) -> None:
    assert domain.name_of(value) == name


def test_booleans_are_named() -> None:
    # EndTxnRequest.json: committed is true for a commit
    assert domains.TRANSACTION_RESULT.name_of(True) == "COMMIT"
    assert domains.TRANSACTION_RESULT.name_of(False) == "ABORT"


def test_error_codes_are_those_of_their_table() -> None:
    assert domains.ERROR_CODE.values == {code: error.name for code, error in BY_CODE.items()}


@pytest.mark.parametrize(
    ("value", "names"),
    # What a 4.1.1 broker without ACLs told a Java 4.3 admin client about a topic, a group and the cluster.
    # They are AclEntry.supportedOperations of those resource types.
    [
        (3576, "READ|WRITE|CREATE|DELETE|ALTER|DESCRIBE|DESCRIBE_CONFIGS|ALTER_CONFIGS"),
        (3400, "READ|DELETE|DESCRIBE|DESCRIBE_CONFIGS|ALTER_CONFIGS"),
        (8096, "CREATE|ALTER|DESCRIBE|CLUSTER_ACTION|DESCRIBE_CONFIGS|ALTER_CONFIGS|IDEMPOTENT_WRITE"),
    ],
    ids=["topic", "group", "cluster"],
)
def test_authorized_operations(value: int, names: str) -> None:
    flags = domains.AUTHORIZED_OPERATIONS
    assert flags.names_of(value) == names.split("|")
    assert flags.name_of(value) == names
    assert flags.value_of(names) == value


def test_flags_not_requested_differ_from_none_set() -> None:
    flags = domains.AUTHORIZED_OPERATIONS
    # Integer.MIN_VALUE, MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED
    assert flags.name_of(-2147483648) == "NOT_REQUESTED"
    assert flags.names_of(-2147483648) == []
    assert flags.name_of(0) == "NONE"


def test_unknown_flags_are_shown_by_number() -> None:
    assert domains.AUTHORIZED_OPERATIONS.names_of(1 << 20 | 1 << 3) == ["READ", "BIT_20"]
    assert domains.AUTHORIZED_OPERATIONS.value_of("READ|FLY") is None


@given(st.integers(-(2**31), 2**31 - 1))
def test_every_int32_has_flag_names(value: int) -> None:
    names = domains.AUTHORIZED_OPERATIONS.names_of(value)
    if value != -(2**31):
        assert len(names) == (value & 0xFFFFFFFF).bit_count()


@given(st.sets(st.integers(0, 15)))
def test_flags_lead_back_to_their_value(bits: set[int]) -> None:
    value = sum(1 << bit for bit in bits)
    flags = domains.AUTHORIZED_OPERATIONS
    assert flags.value_of(flags.name_of(value).lower()) == value


def test_not_requested_leads_back_to_its_value() -> None:
    assert domains.AUTHORIZED_OPERATIONS.value_of("not_requested") == -2147483648


@pytest.mark.parametrize(
    ("level", "name"),
    # MetadataVersion.java: the enum constants IBP_3_0_IV1(1) to IBP_4_4_IV2(33)
    [
        (1, "3.0-IV1"),
        (7, "3.3-IV3"),
        (8, "3.4-IV0"),
        (19, "3.7-IV4"),
        (21, "3.9-IV0"),
        (25, "4.0-IV3"),
        (33, "4.4-IV2"),
    ],
)
def test_metadata_versions(level: int, name: str) -> None:
    assert feature_level_name("metadata.version", level) == name


def test_feature_levels_depend_on_the_feature() -> None:
    assert feature_level_name("transaction.version", 2) == "TV_2"
    assert feature_level_name("group.version", 1) is None
    assert feature_level_name("metadata.version", 0) is None
    assert sorted(METADATA_VERSION.values) == list(range(1, 34))


# "0/1 = legacy (TV0/TV1), 2 = TV2 etc." is prose, no list
PROSE = {"WriteTxnMarkersRequest.markers.transaction_version"}
SYNONYMS = {"Acked": "ACKNOWLEDGED"}  # RecordState.java


def listed() -> Iterator[tuple[str, Domain | None, Field]]:
    """Kafka's field descriptions that list values, as in "0:Available,2:Acked": path, our domain, their field."""
    for theirs in facts.kept().messages.values():
        newest = theirs.layouts[max(theirs.layouts)][-1]
        for path, field in flat(in_snake_case(newest.fields)):
            if field.values:
                ours, label = declaration(theirs), f"{theirs.name}.{path}"
                assert ours is not None
                *_, declared = declared_types(ours.fields, path.split("."))
                if label not in PROSE:
                    yield label, declared.domain, field


def declared_types(fields: Sequence[schema.Field], path: list[str]) -> Iterator[schema.Type]:
    """The types of the fields along a path, with an array's elements after the array."""
    found = next(field for field in fields if field.name == path[0])
    yield found.type
    inner = found.type.element if isinstance(found.type, schema.Array) else found.type
    yield inner
    if path[1:]:
        assert isinstance(inner, schema.Struct)
        yield from declared_types(inner.fields, path[1:])


@pytest.mark.parametrize(
    ("path", "domain", "field"), listed(), ids=lambda value: value if isinstance(value, str) else ""
)
def test_agrees_with_the_message_definition(path: str, domain: Domain | None, field: Field) -> None:
    assert domain is not None, f"Kafka lists values of {path}: {field.values}"
    for value, words in field.values:
        name = domain.name_of(value)
        assert name is not None, f"{path}: {value} = {words}"
        # "any specified name" is SPECIFIED, "brokers" is BROKER
        named = SYNONYMS.get(words, words).replace("-", "_")
        stems = [word.upper().removesuffix("S") for word in named.split()]
        assert name.upper().startswith(tuple(stems)), f"{path}: {value} = {words}, here {name}"
