"""kcat; see common.py. It has no transactions and no administration: topics are made by the broker, groups are not
described; the members are those that it says have been assigned partitions."""

from __future__ import annotations

import json
import subprocess
import sys
import time

from common import say, values

bootstrap, topic = sys.argv[2:4]
_PATIENCE_S = 60
_KCAT = ("kcat", "-b", bootstrap, "-X", "client.id=kcat", "-X", "allow.auto.create.topics=true")


def errand(count: int) -> None:
    sent = "".join(f"{value}:{value}\n" for value in values("plain", count))
    subprocess.run(
        [*_KCAT, "-P", "-t", topic, "-K:", "-z", "gzip"], input=sent, text=True, check=True, timeout=60
    )
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
