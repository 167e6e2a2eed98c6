"""Versions of an API that a release of a client library speaks, as far as known.

The Java client is built from the same message definitions as the brokers of its release. For other libraries, the
highest versions of some releases are known (:mod:`captures.analysis.clients.libraries`), and the lowest ones are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from captures.analysis.clients.libraries import JAVA, OTHERS, Library, java_releases
from captures.analysis.releases import BrokerRelease, Line, line_of
from captures.analysis.version_matrix import shown
from captures.json_objects import Range


@dataclass(frozen=True, slots=True)
class LibraryVersions:
    """Versions of an API that a client speaks.

    :ivar library: name and release, in words
    :ivar least: lowest version; None if unknown
    :ivar most: highest version, or its bounds if the release is not known exactly
    :ivar announced: whether the client stated its library; False for a guess
    :ivar also: versions below the highest that it also uses, depending on the content of a request
    """

    library: str
    least: int | None
    most: Range
    announced: bool
    also: frozenset[int] = frozenset()

    @property
    def words(self) -> str:
        """The versions in words: ``v0-3``, ``v3 at most``."""
        exact = self.most[0] == self.most[1]
        if exact and self.least is not None:
            return f"v{shown((self.least, self.most[1]))}"
        return f"v{self.most[1]} at most" if exact else f"v{self.most[0]} or up to v{self.most[1]} at most"

    @property
    def exactly(self) -> int | None:
        """The highest version, if it is known exactly."""
        return self.most[0] if self.most[0] == self.most[1] else None


@cache
def client_range(line: Line, key: int) -> Range | None:
    """Return the versions of an API that the Java client of a release speaks, None if it does not have it.

    They are those of the release's brokers, with ZooKeeper or KRaft.
    """
    for zookeeper in (False, True):
        served = BrokerRelease(line, zookeeper).apis.get(key)
        if served is not None:
            return served.versions
    return None


def library_versions(library: Library, key: int) -> LibraryVersions | None:
    """Return the versions of an API that a library speaks, None if unknown."""
    return _of_java(library, key) if library.name == JAVA else _of_other(library, key)


def _of_java(library: Library, key: int) -> LibraryVersions | None:
    ranges = []
    for release in _ends(library):
        try:
            found = client_range(line_of(release), key)
        except ValueError:
            return None
        if found is None:
            return None
        ranges.append(found)
    first, last = ranges[0], ranges[-1]
    also = frozenset(
        version for each in java_releases()[-1:] for same, version in each.may_use if same == key
    )
    return LibraryVersions(
        _named(library), min(first[0], last[0]), (first[1], last[1]), library.announced, also
    )


def _of_other(library: Library, key: int) -> LibraryVersions | None:
    """Return the versions of other libraries; bug fix releases count as equal: 2.16.1 as 2.16."""
    release = library.release
    fits = [
        each
        for each in OTHERS
        if each.library == library.name
        and each.asks
        and key in each.least
        and each.release
        and (release == each.release or release.startswith(f"{each.release}."))
    ]
    if not fits:
        return None
    bounds = min(each.least[key] for each in fits), max(each.most[key] for each in fits)
    return LibraryVersions(_named(library), None, bounds, library.announced)


def _ends(library: Library) -> list[str]:
    """Return the first and the last of a client's possible releases: ``2.1-2.8``."""
    if library.announced:
        return [library.release]
    first, _, last = library.release.partition("-")
    return [first, last or first]


def _named(library: Library) -> str:
    return str(library) if library.announced else f"what looks like {library}"
