"""All rules. A new one is a file of its own, and one line here."""

from __future__ import annotations

from captures.analysis.findings.aborted_data_read import AbortedDataRead
from captures.analysis.findings.advertised_listeners import AdvertisedListeners
from captures.analysis.findings.authentication_failures import AuthenticationFailures
from captures.analysis.findings.authorization_failures import AuthorizationFailures
from captures.analysis.findings.blocked_rebalance import BlockedRebalance
from captures.analysis.findings.capture_losses import CaptureLosses
from captures.analysis.findings.clients_that_do_not_refresh import ClientsThatDoNotRefresh
from captures.analysis.findings.closed_by_broker import ClosedByBroker
from captures.analysis.findings.commit_failures import CommitFailures
from captures.analysis.findings.commits_backwards import CommitsBackwards
from captures.analysis.findings.compression_grows import CompressionGrows
from captures.analysis.findings.connection_churn import ConnectionChurn
from captures.analysis.findings.controller_moves import ControllerMoves
from captures.analysis.findings.coordinator_unavailable import CoordinatorUnavailable
from captures.analysis.findings.crc_failures import CrcFailures
from captures.analysis.findings.differing_subscriptions import DifferingSubscriptions
from captures.analysis.findings.down_conversion import DownConversion
from captures.analysis.findings.empty_fetches import EmptyFetches
from captures.analysis.findings.group_full import GroupFull
from captures.analysis.findings.hanging_transactions import HangingTransactions
from captures.analysis.findings.heartbeat_gaps import HeartbeatGaps
from captures.analysis.findings.inconsistent_protocols import InconsistentProtocols
from captures.analysis.findings.instance_conflicts import InstanceConflicts
from captures.analysis.findings.isr_changes import IsrChanges
from captures.analysis.findings.long_stops import LongStops
from captures.analysis.findings.members_without_partitions import MembersWithoutPartitions
from captures.analysis.findings.metadata_storms import MetadataStorms
from captures.analysis.findings.no_compression import NoCompression
from captures.analysis.findings.not_enough_replicas import NotEnoughReplicas
from captures.analysis.findings.old_message_formats import OldMessageFormats
from captures.analysis.findings.other_protocols import OtherProtocols
from captures.analysis.findings.positions_reset import PositionsReset
from captures.analysis.findings.producer_fenced import ProducerFenced
from captures.analysis.findings.rebalance_storm import RebalanceStorm
from captures.analysis.findings.record_too_large import RecordTooLarge
from captures.analysis.findings.records_doubled import RecordsDoubled
from captures.analysis.findings.refused_by_kafka_4 import RefusedByKafka4
from captures.analysis.findings.rejected_records import RejectedRecords
from captures.analysis.findings.request_storms import RequestStorms
from captures.analysis.findings.rule import Rule
from captures.analysis.findings.sequence_gaps import SequenceGaps
from captures.analysis.findings.session_timeouts import SessionTimeouts
from captures.analysis.findings.skewed_assignment import SkewedAssignment
from captures.analysis.findings.slow_broker import SlowBroker
from captures.analysis.findings.slow_followers import SlowFollowers
from captures.analysis.findings.slow_polls import SlowPolls
from captures.analysis.findings.small_batches import SmallBatches
from captures.analysis.findings.stale_metadata import StaleMetadata
from captures.analysis.findings.stuck_position import StuckPosition
from captures.analysis.findings.tcp_trouble import TcpTrouble
from captures.analysis.findings.throttling import Throttling
from captures.analysis.findings.timestamps_far_off import TimestampsFarOff
from captures.analysis.findings.tiny_fetches import TinyFetches
from captures.analysis.findings.tls_on_plaintext import TlsOnPlaintext
from captures.analysis.findings.topics_auto_created import TopicsAutoCreated
from captures.analysis.findings.unanswered_requests import UnansweredRequests
from captures.analysis.findings.unreachable_brokers import UnreachableBrokers
from captures.analysis.findings.unsupported_versions import UnsupportedVersions
from captures.analysis.findings.weak_acks import WeakAcks

RULES: tuple[type[Rule], ...] = (
    RebalanceStorm,
    BlockedRebalance,
    SessionTimeouts,
    HeartbeatGaps,
    SlowPolls,
    LongStops,
    RecordsDoubled,
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
    Throttling,
    AuthenticationFailures,
    AuthorizationFailures,
    TlsOnPlaintext,
    OtherProtocols,
    TcpTrouble,
    CaptureLosses,
)
"""In the order in which the documentation describes them."""
