"""kcat; see common.py. It has no administration: the broker creates topics automatically, and groups are not described;
members are those that report assigned partitions. A transaction consists of all records of one process: the end of its
input commits, a signal aborts."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

from common import say, values

bootstrap, topic = sys.argv[2:4]
_PATIENCE_S = 60
_SENT_S = 5
_READ = 1024
_KCAT = ("kcat", "-b", bootstrap, "-X", "client.id=kcat", "-X", "allow.auto.create.topics=true")


def produce(kind: str, count: int, *settings: str, abort: bool = False) -> None:
    producer = subprocess.Popen(
        [*_KCAT, *settings, "-P", "-t", topic, "-K:", "-z", "gzip"], stdin=subprocess.PIPE, text=True
    )
    assert producer.stdin is not None
    # each read waits for a fixed number of bytes; if a signal arrives before that, it exits without an EndTxn: keys
    # have the length that makes a line exactly that long
    lines = [f"{value.ljust(_READ - 2 - len(value))}:{value}\n" for value in values(kind, count)]
    producer.stdin.write("".join(lines))
    producer.stdin.flush()
    if abort:
        time.sleep(_SENT_S)  # it does not report when brokers have acknowledged records
        producer.send_signal(signal.SIGINT)
    producer.stdin.close()
    code = producer.wait(_PATIENCE_S)
    assert code == 0, code


def errand(count: int) -> None:
    produce("plain", count)
    transactional = ("-X", f"transactional.id={topic}")
    produce("committed", count, *transactional)
    produce("aborted", count, *transactional, abort=True)
    settings = ("-X", "auto.offset.reset=earliest", "-X", "session.timeout.ms=6000", "-u")
    command = [*_KCAT, *settings, "-G", topic, topic]
    members = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)
    ]
    time.sleep(15)
    listed = subprocess.run([*_KCAT, "-L", "-J"], stdout=subprocess.PIPE, text=True, check=True, timeout=60)
    brokers = [[each["id"], *_address(each["name"])] for each in json.loads(listed.stdout)["brokers"]]
    seen: set[str] = set()
    assigned = 0
    for each in members:
        each.terminate()
        output, said = each.communicate(timeout=_PATIENCE_S)
        seen |= set(output.splitlines())
        assigned += "assigned" in said
    say(brokers=brokers, members=assigned, consumed=sorted(seen))


def _address(name: str) -> tuple[str, int]:
    host, _, port = name.rpartition(":")
    return host, int(port)


if __name__ == "__main__":
    errand(int(sys.argv[4]))
