"""All rules. A new one is a file in :mod:`captures.analysis.findings.rules`, and a line here."""

from __future__ import annotations

from captures.analysis.findings.rule import Rule
from captures.analysis.findings.rules.aborted_data_read import AbortedDataRead
from captures.analysis.findings.rules.advertised_listeners import AdvertisedListeners
from captures.analysis.findings.rules.authentication_failures import AuthenticationFailures
from captures.analysis.findings.rules.authorization_failures import AuthorizationFailures
from captures.analysis.findings.rules.blocked_rebalance import BlockedRebalance
from captures.analysis.findings.rules.capture_losses import CaptureLosses
from captures.analysis.findings.rules.clients_that_do_not_refresh import ClientsThatDoNotRefresh
from captures.analysis.findings.rules.closed_by_broker import ClosedByBroker
from captures.analysis.findings.rules.commit_failures import CommitFailures
from captures.analysis.findings.rules.commits_backwards import CommitsBackwards
from captures.analysis.findings.rules.compression_grows import CompressionGrows
from captures.analysis.findings.rules.connection_churn import ConnectionChurn
from captures.analysis.findings.rules.controller_moves import ControllerMoves
from captures.analysis.findings.rules.coordinator_unavailable import CoordinatorUnavailable
from captures.analysis.findings.rules.crc_failures import CrcFailures
from captures.analysis.findings.rules.differing_subscriptions import DifferingSubscriptions
from captures.analysis.findings.rules.down_conversion import DownConversion
from captures.analysis.findings.rules.empty_fetches import EmptyFetches
from captures.analysis.findings.rules.group_full import GroupFull
from captures.analysis.findings.rules.hanging_transactions import HangingTransactions
from captures.analysis.findings.rules.heartbeat_gaps import HeartbeatGaps
from captures.analysis.findings.rules.inconsistent_protocols import InconsistentProtocols
from captures.analysis.findings.rules.instance_conflicts import InstanceConflicts
from captures.analysis.findings.rules.isr_changes import IsrChanges
from captures.analysis.findings.rules.long_stops import LongStops
from captures.analysis.findings.rules.members_without_partitions import MembersWithoutPartitions
from captures.analysis.findings.rules.metadata_storms import MetadataStorms
from captures.analysis.findings.rules.no_compression import NoCompression
from captures.analysis.findings.rules.not_enough_replicas import NotEnoughReplicas
from captures.analysis.findings.rules.old_message_formats import OldMessageFormats
from captures.analysis.findings.rules.other_protocols import OtherProtocols
from captures.analysis.findings.rules.positions_reset import PositionsReset
from captures.analysis.findings.rules.producer_fenced import ProducerFenced
from captures.analysis.findings.rules.rebalance_storm import RebalanceStorm
from captures.analysis.findings.rules.record_too_large import RecordTooLarge
from captures.analysis.findings.rules.records_doubled import RecordsDoubled
from captures.analysis.findings.rules.records_redelivered import RecordsRedelivered
from captures.analysis.findings.rules.refused_by_kafka_4 import RefusedByKafka4
from captures.analysis.findings.rules.rejected_records import RejectedRecords
from captures.analysis.findings.rules.request_storms import RequestStorms
from captures.analysis.findings.rules.sequence_gaps import SequenceGaps
from captures.analysis.findings.rules.session_timeouts import SessionTimeouts
from captures.analysis.findings.rules.skewed_assignment import SkewedAssignment
from captures.analysis.findings.rules.slow_broker import SlowBroker
from captures.analysis.findings.rules.slow_followers import SlowFollowers
from captures.analysis.findings.rules.slow_polls import SlowPolls
from captures.analysis.findings.rules.small_batches import SmallBatches
from captures.analysis.findings.rules.stale_metadata import StaleMetadata
from captures.analysis.findings.rules.stuck_position import StuckPosition
from captures.analysis.findings.rules.tcp_trouble import TcpTrouble
from captures.analysis.findings.rules.throttling import ThrottledClients
from captures.analysis.findings.rules.timestamps_far_off import TimestampsFarOff
from captures.analysis.findings.rules.tiny_fetches import TinyFetches
from captures.analysis.findings.rules.tls_on_plaintext import TlsOnPlaintext
from captures.analysis.findings.rules.topics_auto_created import TopicsAutoCreated
from captures.analysis.findings.rules.unanswered_requests import UnansweredRequests
from captures.analysis.findings.rules.unreachable_brokers import UnreachableBrokers
from captures.analysis.findings.rules.unsupported_versions import UnsupportedVersions
from captures.analysis.findings.rules.weak_acks import WeakAcks

RULES: tuple[type[Rule], ...] = (
    RebalanceStorm,
    BlockedRebalance,
    SessionTimeouts,
    HeartbeatGaps,
    SlowPolls,
    LongStops,
    RecordsDoubled,
    RecordsRedelivered,
    CommitFailures,
    InconsistentProtocols,
    GroupFull,
    InstanceConflicts,
    DifferingSubscriptions,
    MembersWithoutPartitions,
    SkewedAssignment,
    PositionsReset,
    CommitsBackwards,
    StuckPosition,
    AbortedDataRead,
    EmptyFetches,
    TinyFetches,
    SmallBatches,
    NoCompression,
    CompressionGrows,
    WeakAcks,
    CrcFailures,
    RejectedRecords,
    RecordTooLarge,
    SequenceGaps,
    ProducerFenced,
    HangingTransactions,
    TimestampsFarOff,
    OldMessageFormats,
    DownConversion,
    TopicsAutoCreated,
    StaleMetadata,
    ClientsThatDoNotRefresh,
    AdvertisedListeners,
    UnreachableBrokers,
    UnsupportedVersions,
    RefusedByKafka4,
    NotEnoughReplicas,
    IsrChanges,
    SlowFollowers,
    CoordinatorUnavailable,
    ControllerMoves,
    RequestStorms,
    MetadataStorms,
    ConnectionChurn,
    UnansweredRequests,
    ClosedByBroker,
    SlowBroker,
    ThrottledClients,
    AuthenticationFailures,
    AuthorizationFailures,
    TlsOnPlaintext,
    OtherProtocols,
    TcpTrouble,
    CaptureLosses,
)
"""In the order in which the documentation describes them."""
