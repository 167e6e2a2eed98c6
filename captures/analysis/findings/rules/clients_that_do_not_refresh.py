"""Clients that go on asking the wrong broker and do not ask for metadata."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from captures.analysis.conditions import of_client
from captures.analysis.findings.common import MS, error_names, lasted, on_topics, with_errors
from captures.analysis.findings.finding import Finding, Severity
from captures.analysis.findings.rule import Rule, Scene, Threshold, Unit
from captures.analysis.findings.staleness import APIS
from captures.analysis.groups.model import Certainty
from captures.exchanges import Exchange


class ClientsThatDoNotRefresh(Rule):
    """Finds clients that go on asking the wrong broker and never ask for metadata."""

    name: ClassVar[str] = "clients_that_do_not_refresh"
    title: ClassVar[str] = "Clients that do not refresh their metadata"
    about: ClassVar[str] = (
        "After an error that says that its metadata is out of date a client has to ask for new metadata before it tries"
        " again (NetworkClient.java, DefaultMetadataUpdater). One that repeats the request to the same broker instead"
        " never gets on, and burdens the broker."
    )
    severity: ClassVar[Severity] = Severity.HIGH
    apis: ClassVar[frozenset[int] | None] = APIS
    thresholds: ClassVar[tuple[Threshold, ...]] = (
        Threshold(
            "errors", 5, Unit.COUNT, "errors in a row without a Metadata request of the client between"
        ),
        Threshold("time", 1_000, Unit.MILLISECONDS, "from the first of them to the last, at least"),
    )

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._staleness = scene.shared.staleness

    def add(self, exchange: Exchange) -> None:
        self._staleness.add(exchange)

    def findings(self) -> Iterator[Finding]:
        for (client, topic), episodes in self._staleness.known.result():
            if (
                episodes.stubborn_errors < self.limit("errors")
                or episodes.stubborn_time < self.limit("time") * MS
            ):
                continue
            sees = client in self._staleness.known.refreshing
            yield self.finding(
                f"client {client}, topic {topic}",
                f"{client} got {episodes.stubborn_errors:,} errors in a row on {topic}"
                f" ({error_names(episodes.codes)}) within {lasted(episodes.stubborn_time)}"
                " and did not ask for metadata between them.",
                "See whether the client keeps its metadata for itself (an old or home-made client), whether it can"
                " reach the brokers it would ask, and whether metadata.max.age.ms is set so high that it never learns."
                " Restarting it helps for now.",
                episodes.seen,
                filter_text=f"({with_errors(episodes.codes)}{on_topics([topic])} or api == Metadata)"
                f" and {of_client(client)}",
                # without a single Metadata request they may go to a broker whose traffic was not captured
                severity=self.severity if sees else Severity.MEDIUM,
                certainty=Certainty.INFERRED if sees else Certainty.POSSIBLE,
            )
