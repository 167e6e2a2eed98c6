"""The tables of ``kubectl get pods -o wide``, and those of services and nodes.

Columns are found by their headings, so that other versions and ``-A`` work; several tables may follow each other
(``kubectl get pods,services,nodes -o wide``). Pods are recognised without headings too (``--no-headers``), by the form
of the READY column. With ``-A`` a name is shown as ``name.namespace``, as in the cluster's own DNS.

Not every address belongs to its pod. A pod that has ended keeps its address in the table although another pod may have
it now, so such names are last. Pods on the network of their node share its address: if there are several, the node's
name is first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from captures.names.hosts import Entry, LineError, Lines, is_address

ADDRESSES = ("IP", "CLUSTER-IP", "EXTERNAL-IP", "INTERNAL-IP")
"""Headings of the columns with addresses, of pods, services and nodes."""

_CELLS = re.compile(r"\s{2,}|\t")  # cells may contain single spaces: "2 (3h ago)", "NOMINATED NODE"
_READY = re.compile(r"[0-9]+/[0-9]+")
_NO_ADDRESS = re.compile(r"<.*>|None|")
_ENDED = frozenset(
    {"Completed", "Succeeded", "Failed", "Error", "Evicted", "OOMKilled", "ContainerStatusUnknown"}
)
_HEADINGS_OF_PODS = ("NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE")


class _Holders(msgspec.Struct):
    """The holders of an address."""

    running: list[tuple[str, ...]] = []
    ended: list[tuple[str, ...]] = []
    nodes: list[str] = []

    def names(self) -> tuple[str, ...]:
        """Return the names, those to be shown first at the start."""
        shared = self.nodes if len(self.running) > 1 else []
        holders = [name for names in (*self.running, *self.ended) for name in names]
        return tuple(dict.fromkeys((*shared, *holders)))


def is_table(line: str) -> bool:
    """Return whether `line`, the first that is not empty, starts a table."""
    cells = _cells(line)
    return _is_heading(cells) or _is_pod(cells)


def entries(lines: Lines) -> Iterator[Entry]:
    """Yield the entries of the tables.

    :raises LineError: at the first line that does not match the headings
    """
    holders: dict[str, _Holders] = {}
    headings: tuple[str, ...] = ()
    for number, line in lines:
        cells = _cells(line)
        if not cells:
            continue
        if _is_heading(cells):
            headings = tuple(cells)
            if not set(headings) & set(ADDRESSES):
                raise LineError(number, "this table has no addresses: kubectl prints them with -o wide")
            continue
        row = _row(number, cells, headings)
        for address in _addresses(number, row):
            _hold(holders.setdefault(address, _Holders()), row)
    for address, those in holders.items():
        yield Entry(address, None, those.names())


def _cells(line: str) -> list[str]:
    return _CELLS.split(line.strip()) if line.strip() else []


def _is_heading(cells: list[str]) -> bool:
    return "NAME" in cells[:2]


def _is_pod(cells: list[str]) -> bool:
    return any(_READY.fullmatch(cell) for cell in cells[1:3])


def _row(number: int, cells: list[str], headings: tuple[str, ...]) -> dict[str, str]:
    if not headings:
        if not _is_pod(cells):
            raise LineError(number, "this is not a row of kubectl get pods -o wide --no-headers")
        with_namespace = _READY.fullmatch(cells[1]) is None
        headings = ("NAMESPACE", *_HEADINGS_OF_PODS) if with_namespace else _HEADINGS_OF_PODS
    row = dict(zip(headings, cells, strict=False))
    missing = next((name for name in headings if name in ADDRESSES and name not in row), None)
    if missing is not None:
        raise LineError(number, f"there is no column {missing} in this line")
    return row


def _addresses(number: int, row: dict[str, str]) -> Iterator[str]:
    for heading in ADDRESSES:
        for text in row.get(heading, "").split(","):
            if is_address(text):
                yield text
            # a load balancer may have a host name instead
            elif not _NO_ADDRESS.fullmatch(text) and heading != "EXTERNAL-IP":
                raise LineError(number, f"{text!r} in column {heading} is no IP address")


def _hold(holders: _Holders, row: dict[str, str]) -> None:
    name = row["NAME"].rpartition("/")[2]  # with several kinds in one call: pod/orders-0
    namespace = row.get("NAMESPACE")
    names = (f"{name}.{namespace}", name) if namespace else (name,)
    if row.get("STATUS") in _ENDED:
        holders.ended.append(names)
        return
    holders.running.append(names)
    node = row.get("NODE", "")
    if not _NO_ADDRESS.fullmatch(node) and node not in holders.nodes:
        holders.nodes.append(node)
