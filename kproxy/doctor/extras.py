"""Optional packages, by the extras of kproxy that need them."""

from __future__ import annotations

from collections.abc import Iterator

from kproxy.doctor.examination import Check, State
from kproxy.doctor.packages import install_command, requirements

PURPOSES = {
    "parquet": "Parquet files (kproxy export)",
    "metrics": "Prometheus metrics (kproxy proxy --metrics)",
    "spark": "captures as tables on Apache Spark (kproxy tables)",
    "connect": "Spark on a server (kproxy tables --remote)",
    "schema": "keys and values in Avro and Protobuf (kproxy records)",
    "remote": "captures in object stores and on HDFS (s3://, hdfs:// ...)",
    "web": "the terminal UI in browsers (kproxy serve)",
    "otlp": "spans for OpenTelemetry collectors (--otlp)",
    "mcp": "captures for assistants (kproxy mcp)",
    "report": "pages of pictures made of tables (kproxy report)",
    "jdk": "a Java for Spark where there is none",
}
"""Extra -> purpose; an extra without one is shown by its name."""

_ELSEWHERE = ("jdk",)  # checked with Java


def checks() -> Iterator[Check]:
    """Check each extra."""
    wanted = {each.extra: None for each in requirements() if each.extra is not None}
    for extra in wanted:
        if extra not in _ELSEWHERE:
            yield extra_check(extra)
    if not wanted:
        about = "Extras are not known without kproxy's metadata"
        yield Check("extras", State.LIMITED, "kproxy is not installed", about, install_command("-e", "."))


def extra_check(extra: str) -> Check:
    """Check the packages of an extra."""
    asked = [each for each in requirements() if each.extra == extra]
    found = ", ".join(f"{each.name} {each.installed or '-'}" for each in asked)
    if all(each.fits for each in asked):
        return Check(extra, State.OK, found)
    old = [f"{each.name} has to be {each.bounds}" for each in asked if each.installed and not each.fits]
    about = "; ".join([f"Needed for {PURPOSES.get(extra, extra)}", *old])
    return Check(extra, State.MISSING, found, about, install_command(f"kproxy[{extra}]"))
