"""The SQL of a report. Each statement runs unchanged in DuckDB and in Spark SQL.

The common dialect:

- slices of time are ``time_ns - time_ns % width``: integer arithmetic instead of functions of either system;
- ``LATERAL unnest(...)`` for arrays, ``count_if``, ``min_by``, ``array_contains``;
- a column whose name is an SQL keyword (``group``, ``count``) is qualified with its table;
- percentiles come from a histogram with 100 steps per power of ten, so that memory does not depend on the number of
  exchanges. A percentile is the longest latency in its step: a measured value, at most 2.4% too long.

Each statement returns a bounded number of rows: slices times names, with all but the most frequent names merged, or the
first rows of an order.
"""

from __future__ import annotations

from captures.export.report.database import Statement
from captures.export.report.section import COLOURS, OTHER

TOP = 12
"""Rows of a table of top talkers."""
MOST_APIS = 20
MOST_ERRORS = 30
MOST_FINDINGS = 200
MOST_GROUPS = 24
MOST_BARS = 600
MOST_STORIES = 20
MOST_LIBRARIES = 40
MOST_VERSIONS = 2000
MOST_WARNINGS = 30
MOST_CONNECTIONS = 20

_BYTES = "sum(CAST(request_size AS BIGINT) + response_size)"
_ANSWERED = """latency_ns IS NOT NULL
    AND NOT (designed_wait_ns > 0 AND designed_wait_ns >= latency_ns)"""


def _statement(sql: str) -> Statement:
    return Statement(sql.strip("\n"))


# ---------------------------------------------------------------- summary
def bounds(tables: list[str]) -> Statement:
    """Return the statement for the first and the last time in each of the tables."""
    parts = [
        f"SELECT min(time_ns) AS first_ns, max(time_ns) AS last_ns FROM {table}"  # noqa: S608
        for table in tables
    ]
    return _statement("\nUNION ALL\n".join(parts))


SUMMARY = _statement(f"""
SELECT count(*) AS exchanges,
  min(time_ns) AS first_ns,
  max(time_ns) AS last_ns,
  count(DISTINCT run) AS runs,
  count(DISTINCT api) AS apis,
  count(DISTINCT broker) AS brokers,
  count(DISTINCT client_id) AS client_ids,
  count(DISTINCT (run, connection)) AS connections,
  {_BYTES} AS bytes,
  sum(records) AS records,
  count_if(error_count > 0) AS with_errors,
  count_if(array_contains(flags, 'unanswered')) AS unanswered,
  count_if(array_contains(flags, 'orphan')) AS orphans,
  count_if(array_contains(flags, 'problem') AND NOT array_contains(flags, 'unanswered')) AS undecoded
FROM exchanges
""")  # noqa: S608

LOST = _statement("SELECT sum(lost) AS lost, sum(cut) AS cut FROM tcp_health")

FINDINGS = _statement(f"""
SELECT f.run, f.severity, f.certainty, f.rule, f.subject, f.sentence, f.advice, f.count AS seen,
  f.time_ns, f.last_ns, f.evidence, f.filter AS filter_text, count(*) OVER () AS of_all
FROM findings f
ORDER BY CASE f.severity WHEN 'high' THEN 1 WHEN 'medium' THEN 2 WHEN 'low' THEN 3 ELSE 4 END,
  f.time_ns, f.rule, f.subject, f.run
LIMIT {MOST_FINDINGS}
""")  # noqa: S608


# ---------------------------------------------------------------- over time
def traffic(width: int) -> Statement:
    """Return the statement for exchanges and bytes by slice and API.

    :param width: of a slice, in ns
    """
    return _statement(f"""
WITH busiest AS (
  SELECT api FROM exchanges GROUP BY api ORDER BY count(*) DESC, api LIMIT {COLOURS}
)
SELECT e.time_ns - e.time_ns % {width} AS slice_ns,
  coalesce(b.api, '{OTHER}') AS api_name,
  count(*) AS exchanges,
  sum(CAST(e.request_size AS BIGINT) + e.response_size) AS bytes
FROM exchanges e LEFT JOIN busiest b ON e.api = b.api
GROUP BY 1, 2
ORDER BY 1, 2
""")  # noqa: S608


def latency(width: int) -> Statement:
    """Return the statement for percentiles of the latency by slice.

    :param width: of a slice, in ns
    """
    return _percentiles(f"time_ns - time_ns % {width}", "slice_ns", "slice_ns")


def latency_by_api() -> Statement:
    """Return the statement for percentiles of the latency by API, ordered by the time spent."""
    return _percentiles("api", "api", f"spent_ns DESC, api\nLIMIT {MOST_APIS}")


def _percentiles(key: str, name: str, order: str) -> Statement:
    def at(percent: int) -> str:
        return f"min(CASE WHEN up_to * 100 >= exchanges * {percent} THEN most_ns END) AS p{percent}_ns"

    return _statement(f"""
WITH steps AS (
  SELECT {key} AS {name},
    CAST(floor(100 * log10(greatest(latency_ns - designed_wait_ns, 1))) AS INT) AS step,
    count(*) AS counted,
    sum(latency_ns - designed_wait_ns) AS total_ns,
    min(latency_ns - designed_wait_ns) AS least_ns,
    max(latency_ns - designed_wait_ns) AS most_ns
  FROM exchanges
  WHERE {_ANSWERED}
  GROUP BY 1, 2
), ranked AS (
  SELECT *, sum(counted) OVER (PARTITION BY {name} ORDER BY step) AS up_to,
    sum(counted) OVER (PARTITION BY {name}) AS exchanges
  FROM steps
)
SELECT {name},
  max(exchanges) AS exchanges,
  {at(50)},
  {at(95)},
  {at(99)},
  min(least_ns) AS shortest_ns,
  max(most_ns) AS longest_ns,
  sum(total_ns) AS spent_ns,
  count(*) OVER () AS of_all
FROM ranked
GROUP BY {name}
ORDER BY {order}
""")  # noqa: S608


def heat(width: int, steps: int) -> Statement:
    """Return the statement for exchanges by slice and step of latency.

    :param width: of a slice, in ns
    :param steps: number of steps per power of ten
    """
    return _statement(f"""
SELECT time_ns - time_ns % {width} AS slice_ns,
  CAST(floor({steps} * log10(greatest(latency_ns - designed_wait_ns, 1))) AS INT) AS step,
  count(*) AS exchanges
FROM exchanges
WHERE {_ANSWERED}
GROUP BY 1, 2
ORDER BY 1, 2
""")  # noqa: S608


_UNEXPECTED = """errors AS (
  SELECT e.run, e.number, e.time_ns, e.api, coalesce(e.client_id, e.client) AS who, u.error
  FROM exchanges e, LATERAL unnest(e.errors) AS u(error)
  WHERE e.error_count > 0 AND NOT array_contains(e.expected_errors, u.error)
)"""


def errors(width: int) -> Statement:
    """Return the statement for exchanges with errors by slice and error.

    :param width: of a slice, in ns
    """
    return _statement(f"""
WITH {_UNEXPECTED}, busiest AS (
  SELECT error FROM errors GROUP BY error ORDER BY count(*) DESC, error LIMIT {COLOURS}
)
SELECT e.time_ns - e.time_ns % {width} AS slice_ns,
  coalesce(b.error, '{OTHER}') AS error_name,
  count(*) AS exchanges
FROM errors e LEFT JOIN busiest b ON e.error = b.error
GROUP BY 1, 2
ORDER BY 1, 2
""")  # noqa: S608


ERROR_TABLE = _statement(f"""
WITH {_UNEXPECTED}
SELECT error, api, count(*) AS exchanges, count(DISTINCT who) AS clients,
  min(time_ns) AS first_ns, max(time_ns) AS last_ns,
  min_by(run, time_ns) AS run, min_by(number, time_ns) AS number,
  count(*) OVER () AS of_all
FROM errors
GROUP BY error, api
ORDER BY exchanges DESC, error, api
LIMIT {MOST_ERRORS}
""")  # noqa: S608


# ---------------------------------------------------------------- rebalances
_BY_CLUSTER = """by_cluster AS (
  SELECT r.*, r.group AS group_id,
    CASE WHEN (SELECT count(DISTINCT cluster_id) FROM rebalances) > 1 THEN coalesce(r.cluster_id, 'unknown')
      ELSE '' END AS of_cluster
  FROM rebalances r
)"""
"""Rebalances with their cluster, if there are several: groups of different clusters may share a name."""

REBALANCE_GROUPS = _statement(f"""
WITH {_BY_CLUSTER}, totals AS (
  SELECT group_id, of_cluster, min(kind) AS kind, count(*) AS rebalances,
    sum(duration_ns) AS total_ns, max(duration_ns) AS most_ns,
    count_if(running) AS running,
    count_if(trigger IN ('session_timeout', 'max_poll_exceeded', 'rebalance_timeout')) AS timeouts
  FROM by_cluster GROUP BY group_id, of_cluster
), stopped AS (
  SELECT r.group_id, r.of_cluster, count(*) AS partitions
  FROM by_cluster r, LATERAL unnest(r.stopped) AS u(stop) GROUP BY r.group_id, r.of_cluster
), failed AS (
  SELECT r.group_id, r.of_cluster, count(*) AS commits
  FROM by_cluster r, LATERAL unnest(r.commit_failures) AS u(failure) GROUP BY r.group_id, r.of_cluster
)
SELECT t.*, coalesce(s.partitions, 0) AS stopped, coalesce(f.commits, 0) AS commit_failures,
  count(*) OVER () AS of_all
FROM totals t
LEFT JOIN stopped s ON t.group_id = s.group_id AND t.of_cluster = s.of_cluster
LEFT JOIN failed f ON t.group_id = f.group_id AND t.of_cluster = f.of_cluster
ORDER BY rebalances DESC, t.group_id, t.of_cluster
LIMIT {MOST_GROUPS}
""")  # noqa: S608

REBALANCE_BARS = _statement(f"""
WITH {_BY_CLUSTER}, busiest AS (
  SELECT group_id, of_cluster FROM by_cluster GROUP BY group_id, of_cluster
  ORDER BY count(*) DESC, group_id, of_cluster
  LIMIT {MOST_GROUPS}
)
SELECT r.group_id, r.of_cluster, r.time_ns, r.duration_ns, r.running, r.trigger, r.certainty, r.generation,
  r.client_id, count(*) OVER () AS of_all
FROM by_cluster r JOIN busiest b ON r.group_id = b.group_id AND r.of_cluster = b.of_cluster
ORDER BY coalesce(r.duration_ns, 0) DESC, r.time_ns, r.group_id, r.of_cluster
LIMIT {MOST_BARS}
""")  # noqa: S608

REBALANCE_STORIES = _statement(f"""
WITH {_BY_CLUSTER}
SELECT run, time_ns, group_id, of_cluster, duration_ns, running, trigger, sentence,
  evidence, count(*) OVER () AS of_all
FROM by_cluster
ORDER BY running DESC, coalesce(duration_ns, 0) DESC, time_ns, group_id, of_cluster
LIMIT {MOST_STORIES}
""")  # noqa: S608

# ---------------------------------------------------------------- talkers
_TALK = f"""count(*) AS exchanges,
  sum(request_size) AS request_bytes, sum(response_size) AS response_bytes,
  {_BYTES} AS total_bytes,
  count_if(error_count > 0) AS with_errors"""
_TALK_ORDER = f"""
ORDER BY total_bytes DESC, 1
LIMIT {TOP}"""

CLIENTS = _statement(f"""
SELECT coalesce(client_id, regexp_replace(client, ':[0-9]+$', '')) AS who,
  count(DISTINCT regexp_replace(client, ':[0-9]+$', '')) AS hosts,
  {_TALK}, count(*) OVER () AS of_all
FROM exchanges
GROUP BY 1{_TALK_ORDER}
""")  # noqa: S608

BROKERS = _statement(f"""
SELECT broker AS who, max(broker_name) AS called,
  count(DISTINCT (run, connection)) AS connections,
  {_TALK}, count(*) OVER () AS of_all
FROM exchanges
GROUP BY 1{_TALK_ORDER}
""")  # noqa: S608

CONNECTIONS = _statement(f"""
SELECT connection, run, client, broker, max(client_id) AS client_id,
  {_TALK}, count(*) OVER () AS of_all, max(run) OVER () AS last_run
FROM exchanges
GROUP BY connection, run, client, broker
ORDER BY total_bytes DESC, run, connection
LIMIT {TOP}
""")  # noqa: S608

_FLOW = """sum(p.bytes) AS total_bytes,
  sum(CASE WHEN api = 'Produce' THEN p.bytes ELSE 0 END) AS produced,
  sum(CASE WHEN api <> 'Produce' AND replica_id IS NULL THEN p.bytes ELSE 0 END) AS fetched,
  sum(CASE WHEN replica_id IS NOT NULL THEN p.bytes ELSE 0 END) AS replicated,
  sum(CASE WHEN api = 'Produce' THEN p.records ELSE 0 END) AS records_produced,
  sum(CASE WHEN api <> 'Produce' AND replica_id IS NULL THEN p.records ELSE 0 END) AS records_fetched"""

TOPICS = _statement(f"""
SELECT topic AS who, count(DISTINCT p.partition) AS partitions,
  {_FLOW}, count(*) OVER () AS of_all
FROM topic_partitions p
WHERE p.bytes IS NOT NULL
GROUP BY 1
ORDER BY total_bytes DESC, 1
LIMIT {TOP}
""")  # noqa: S608

PARTITIONS = _statement(f"""
SELECT topic AS who, p.partition AS part,
  {_FLOW}, count(*) OVER () AS of_all
FROM topic_partitions p
WHERE p.bytes IS NOT NULL
GROUP BY 1, 2
ORDER BY total_bytes DESC, 1, 2
LIMIT {TOP}
""")  # noqa: S608

# ---------------------------------------------------------------- versions
LIBRARIES = _statement(f"""
SELECT coalesce(v.library, 'not known') AS library_name, coalesce(v.release, '') AS release_name,
  v.is_broker, count(DISTINCT v.client) AS clients, min(v.client) AS client_example,
  sum(v.exchanges) AS exchanges, count(*) OVER () AS of_all
FROM client_versions v
WHERE v.client IS NOT NULL
GROUP BY 1, 2, 3
ORDER BY clients DESC, exchanges DESC, 1, 2, 3
LIMIT {MOST_LIBRARIES}
""")  # noqa: S608

VERSIONS = _statement(f"""
SELECT v.api, v.version, count(DISTINCT v.client) AS clients, sum(v.exchanges) AS exchanges,
  min(v.offered_min) AS offered_min, max(v.offered_max) AS offered_max
FROM client_versions v
WHERE v.client IS NOT NULL AND v.version IS NOT NULL
GROUP BY v.api, v.version
ORDER BY v.api, v.version
LIMIT {MOST_VERSIONS}
""")  # noqa: S608

WARNINGS = _statement(f"""
SELECT w.warning, count(DISTINCT v.client) AS clients, min(v.client) AS client_example,
  min(v.api) AS api_example, sum(v.exchanges) AS exchanges, count(*) OVER () AS of_all
FROM client_versions v, LATERAL unnest(v.warnings) AS w(warning)
WHERE v.client IS NOT NULL
GROUP BY w.warning
ORDER BY clients DESC, exchanges DESC, w.warning
LIMIT {MOST_WARNINGS}
""")  # noqa: S608


# ---------------------------------------------------------------- TCP
def openings(width: int) -> Statement:
    """Return the statement for connections by the slice in which they began, and by how they ended.

    :param width: of a slice, in ns
    """
    return _statement(f"""
SELECT time_ns - time_ns % {width} AS slice_ns, ended, count(*) AS connections
FROM connections
GROUP BY 1, 2
ORDER BY 1, 2
""")  # noqa: S608


DIRECTIONS = _statement("""
SELECT direction, count(*) AS connections, sum(packets) AS packets, sum(t.bytes) AS payload,
  sum(retransmitted) AS retransmitted, sum(reordered) AS reordered, sum(lost) AS lost, sum(cut) AS cut,
  sum(conflicting) AS conflicting, sum(zero_windows) AS zero_windows, count(reset_ns) AS resets
FROM tcp_health t
GROUP BY direction
ORDER BY direction DESC
""")

TROUBLED = _statement(f"""
SELECT run, connection, direction, sender, receiver, t.bytes AS payload, retransmitted, reordered, lost,
  cut, conflicting, zero_windows, count(*) OVER () AS of_all
FROM tcp_health t
WHERE retransmitted + reordered + lost + cut + conflicting + zero_windows > 0
ORDER BY lost + cut + conflicting + retransmitted DESC, zero_windows DESC, reordered DESC, run, connection,
  direction
LIMIT {MOST_CONNECTIONS}
""")  # noqa: S608

ROUND_TRIPS = _statement(f"""
SELECT sender AS broker, count(*) AS connections,
  percentile_disc(0.5) WITHIN GROUP (ORDER BY rtt_ns) AS p50_ns,
  percentile_disc(0.95) WITHIN GROUP (ORDER BY rtt_ns) AS p95_ns,
  max(rtt_ns) AS most_ns, count(*) OVER () AS of_all
FROM tcp_health
WHERE direction = 'broker' AND rtt_ns IS NOT NULL
GROUP BY sender
ORDER BY p50_ns DESC, sender
LIMIT {MOST_CONNECTIONS}
""")  # noqa: S608
