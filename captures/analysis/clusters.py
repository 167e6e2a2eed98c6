"""The cluster of each connection, for captures that show several: their groups and topics may share names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np
from msgspec import UnsetType

from captures.analysis.incidents.nodes import listed_as
from captures.arrays import Int64s
from captures.exchanges import Capture
from captures.interventions import UpstreamBroker
from captures.meaning import words
from captures.names.names import canonical
from dissectors.session_context import SessionContext, SessionFacts

UNKNOWN = "unknown"
"""Stands for the ID of the cluster of connections that show none, if a capture shows several clusters."""
_SHORT = 8


class Clusters:
    """Maps connections and brokers of a completely read capture to clusters.

    A connection belongs to the cluster whose ID a response on it contains (Metadata, DescribeCluster), or that kproxy's
    proxy has recorded for it; else to that of other connections to the same broker, in the same file or else in any;
    else to the cluster that lists its broker. Where these differ, as at another proxy of several clusters, its cluster
    is unknown. If all responses contain the same ID, or none, everything belongs to one cluster.

    The name that the proxy has recorded stands for the ID if the ID is not known (brokers before 0.10.1 have none), or
    if another cluster has the same.

    :param capture: only needed for several clusters
    :param facts: session facts of all exchanges
    :param upstreams: the brokers that kproxy's proxy has recorded; by default those of the capture
    :ivar parts: the clusters to be examined separately: their IDs and :data:`UNKNOWN`, or ``""`` for the only one
    """

    def __init__(
        self,
        capture: Capture | None,
        facts: SessionFacts,
        upstreams: Mapping[int, UpstreamBroker] | None = None,
    ) -> None:
        self._capture: Any = capture
        self._facts = facts
        if upstreams is None:
            upstreams = {} if capture is None else capture.samples.upstreams
        self._told = facts.clusters | _named(upstreams, facts)
        ids = sorted({*self._told.values()})
        self._only = ids[0] if len(ids) == 1 and ids[0] in facts.clusters.values() else None
        self.parts: tuple[str, ...] = (*ids, UNKNOWN) if len(ids) > 1 else ("",)

    @property
    def several(self) -> bool:
        """Whether the capture shows several clusters."""
        return len(self.parts) > 1

    def part_of(self, connection: int) -> str:
        """Return the member of :attr:`parts` that a connection belongs to."""
        return self._of_connections[connection] if self.several else ""

    def rows_of(self, connections: Int64s) -> Iterator[tuple[str, Int64s]]:
        """Yield :attr:`parts`, each with the indexes of its elements in an array of connections."""
        if not self.several:
            yield "", np.arange(len(connections))
            return
        indexes = np.array([self.parts.index(part) for part in self._of_connections], np.int64)
        for index, part in enumerate(self.parts):
            yield part, np.flatnonzero(indexes[connections] == index)

    def has(self, part: str, broker: str) -> bool:
        """Return whether a member of :attr:`parts` has the broker at an address, as in the capture."""
        return self._part_of_broker(broker) == part

    def id_of(self, part: str | UnsetType) -> str | None:
        """Return the cluster ID of a member of :attr:`parts`; None if unknown."""
        return None if part == UNKNOWN else part or self._only

    def id_of_broker(self, broker: str) -> str | None:
        """Return the ID of the cluster that has the broker at an address, as in the capture; None if unknown."""
        return self.id_of(self._part_of_broker(broker) if self.several else "")

    @cached_property
    def _seen(self) -> dict[tuple[str, int | None], set[str]]:
        """Broker and file, or None for all files, -> IDs of clusters in responses."""
        found: dict[tuple[str, int | None], set[str]] = {}
        files = self._capture.connections.last_file
        for connection, cluster in self._told.items():
            broker = self._capture.endpoints(connection)[1]
            for file in (int(files[connection]), None):
                found.setdefault((broker, file), set()).add(cluster)
        return found

    def _part_of_broker(self, broker: str) -> str:
        listed = (self._nodes.get(each, ()) for each in listed_as(self._capture, broker))
        of_lists = {cluster for clusters in listed for cluster in clusters}
        return _agreed(self._seen.get((broker, None), ())) or _agreed(of_lists) or UNKNOWN

    @cached_property
    def _of_connections(self) -> list[str]:
        found = []
        for connection, file in enumerate(self._capture.connections.last_file.tolist()):
            broker = self._capture.endpoints(connection)[1]
            in_file = _agreed(self._seen.get((broker, file), ()))
            found.append(self._told.get(connection) or in_file or self._part_of_broker(broker))
        return found

    @cached_property
    def _nodes(self) -> dict[tuple[str, int], set[str]]:
        found: dict[tuple[str, int], set[str]] = {}
        for (host, port), clusters in self._facts.nodes.items():
            with suppress(ValueError):
                host = canonical(host)
            found.setdefault((host, port), set()).update(clusters)
        return found


class RecordedClusters(Clusters):
    """The clusters of a growing capture of kproxy's proxy, which records a name with each connection.

    :param names: of all clusters
    """

    def __init__(self, capture: Capture, names: Sequence[str]) -> None:
        super().__init__(None, SessionContext().facts)
        self._capture = capture
        self.parts = (*names, UNKNOWN) if len(names) > 1 else ("",)

    def part_of(self, connection: int) -> str:
        return self._part(self._capture.upstream_of(connection).cluster) if self.several else ""

    def _part_of_broker(self, broker: str) -> str:
        return _agreed({self._part(name) for name in recorded_names(self._capture, broker)}) or UNKNOWN

    def _part(self, name: str) -> str:
        return name if name in self.parts else UNKNOWN


def recorded_names(capture: Capture, broker: str) -> set[str]:
    """Return the names of clusters that kproxy's proxy has recorded for connections to a broker; empty for none."""
    connections = range(len(capture.connections))
    return {capture.upstream_of(each).cluster for each in connections if capture.endpoints(each)[1] == broker}


def _named(upstreams: Mapping[int, UpstreamBroker], facts: SessionFacts) -> dict[int, str]:
    """Return the clusters of connections for which kproxy's proxy has recorded a name: their IDs, or these names."""
    names = {connection: each.cluster for connection, each in upstreams.items() if each.cluster}
    ids = {name: set[str]() for name in names.values()}
    for connection, name in names.items():
        if connection in facts.clusters:
            ids[name].add(facts.clusters[connection])
    shared = Counter(cluster for found in ids.values() for cluster in found)
    known = {name: found.pop() for name, found in ids.items() if len(found) == 1}
    return {
        connection: known[name] if name in known and shared[known[name]] == 1 else name
        for connection, name in names.items()
    }


def _agreed(clusters: Iterable[str]) -> str:
    """Return the only ID, :data:`UNKNOWN` if there are several, or ``""`` if there is none."""
    found = list(clusters)
    return found[0] if len(found) == 1 else UNKNOWN if found else ""


def beside(name: str, part: str | UnsetType) -> str:
    """Return the name of a group or topic, with its cluster if the capture shows several."""
    return f"{name} (cluster {words.line(part[:_SHORT])})" if part else name


ONE_CLUSTER = Clusters(None, SessionContext().facts)
"""A single cluster, whose ID is unknown."""
