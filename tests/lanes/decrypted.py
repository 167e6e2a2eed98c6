"""Captures of clients decrypted with a key log, for lanes and for the tests of their recordings."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from captures.exchanges import ExchangeReader, open_capture
from captures.exchanges.table import Flag
from captures.packets.tls import KeyLog

_RECORD = re.compile(rb"record \d+")


@dataclass(frozen=True)
class DecryptedCapture:
    """A capture read with a key log.

    :ivar connections: TLS connections
    :ivar opaque: reasons why connections were not, or not completely, decrypted
    :ivar produced: values of the clients' records in Produce requests
    :ivar consumed: values of the clients' records in Fetch responses
    :ivar problems: decoding problems, except for responses that a closing client did not wait for
    """

    connections: int
    opaque: list[str]
    requests: int
    responses: int
    produced: list[str]
    consumed: list[str]
    problems: list[str]

    def fault(self, records: int) -> str:
        """Return the error if not every connection is readable, or not so many records were produced and consumed."""
        expected = [f"record {number}" for number in range(records)]
        if self.opaque:
            return f"not decrypted: {self.opaque[0]}"
        if self.problems:
            return self.problems[0]
        if self.produced != expected or self.consumed != expected:
            return f"produced {self.produced}, consumed {self.consumed}"
        return ""


def decrypted(capture_file: Path, keys: KeyLog | None) -> DecryptedCapture:
    """Read a capture with a key log."""
    capture = open_capture(str(capture_file), keylog=keys)
    capture.read()
    exchanges = list(ExchangeReader(capture))
    produced = [each.request.raw for each in exchanges if each.api == "Produce" and each.request]
    fetched = [each.response.raw for each in exchanges if each.api == "Fetch" and each.response]
    tls = capture.decryption.tls.values()
    whole = [each for each in exchanges if Flag.RESPONSE_DAMAGED not in each.flag]
    return DecryptedCapture(
        connections=len(tls),
        opaque=[each.info.reason for each in tls if each.info.reason],
        requests=sum(each.request is not None for each in exchanges),
        responses=sum(each.response is not None for each in whole),
        produced=_records(produced),
        consumed=_records(fetched),
        problems=[f"{each.api}: {problem.reason}" for each in whole for _, problem in each.problems],
    )


def _records(frames: list[bytes]) -> list[str]:
    return [value.decode() for frame in frames for value in _RECORD.findall(frame)]


def kafka_frames(capture_file: Path, keylog: Path, port: int) -> tuple[int, int] | None:
    """Return the numbers of Kafka requests and responses that tshark finds with a key log, None without tshark."""
    if shutil.which("tshark") is None:
        return None
    command = ["tshark", "-r", str(capture_file), "-o", f"tls.keylog_file:{keylog}"]
    command += ["-d", f"tls.port=={port},kafka", "-Y", "kafka", "-T", "fields"]
    command += ["-e", "tcp.dstport", "-e", "kafka.correlation_id"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    requests = responses = 0
    for line in done.stdout.splitlines():
        destination, _, correlations = line.partition("\t")
        frames = len(correlations.split(",")) if correlations else 0
        if destination == str(port):
            requests += frames
        else:
            responses += frames
    return requests, responses
