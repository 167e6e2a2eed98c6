"""``--otlp``, with a receiver of the protocol at the other end."""

from __future__ import annotations

import gzip
import socket
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from click.testing import CliRunner, Result
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from captures.exchanges import ExchangeReader
from kproxy.cli import main
from kproxy.cli.spans import LiveSpans
from tests.captures.export.files import opened
from tests.kproxy.cli.test_proxy import ASKED, METADATA, ask, proxy
from tests.kproxy.fake_broker import running_in_thread
from tests.kproxy.frames import request_frame

RECORDED = Path(__file__).parents[2] / "data" / "groups" / "21_k430_java_sigstop.pcap.zst"


class Collector:
    """A receiver for OTLP over HTTP.

    :ivar spans: received so far
    """

    def __init__(self) -> None:
        collector = self
        self.spans: list[Any] = []
        self.paths: set[str] = set()
        self.status = 200

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.paths.add(self.path)
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        collector.spans += scope.spans
                self.send_response(collector.status)
                self.send_header("Content-Type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    made.server.server_close()
    thread.join()


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["export", *map(str, arguments)], prog_name="kproxy")


def count(spans: list[Any], name: str) -> int:
    return sum(each.name.startswith(name) for each in spans)


@pytest.mark.slow
def test_a_capture_is_sent_with_its_rebalances_and_incidents(collector: Collector) -> None:
    result = run(RECORDED, "--otlp", collector.url)
    assert result.exit_code == 0
    assert result.stderr.endswith(f"303 exchanges sent to {collector.url}.\n")
    assert collector.paths == {"/v1/traces"}
    assert count(collector.spans, "rebalance ") == 6
    assert count(collector.spans, "incident ") == 1
    assert len(collector.spans) == 303 + 6 + 1


@pytest.mark.slow
def test_a_filter_sends_exchanges_only(collector: Collector) -> None:
    result = run(RECORDED, "--otlp", f"{collector.url}/my/path", "-Y", "api == Produce")
    assert result.exit_code == 0
    assert collector.paths == {"/my/path"}
    assert count(collector.spans, "Produce ") == len(collector.spans) == 66


@pytest.mark.slow
def test_a_collector_that_refuses(collector: Collector) -> None:
    collector.status = 400
    result = run(RECORDED, "--otlp", collector.url)
    assert result.exit_code == 1
    assert f"{collector.url} took 0 spans: " in result.stderr
    assert "400" in result.stderr


@pytest.mark.slow
def test_no_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "2")
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
    result = run(RECORDED, "--otlp", url)
    assert result.exit_code == 1
    assert f"{url} took 0 spans: " in result.stderr
    assert result.stderr.endswith(": Connection refused\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "give -o OUT or --otlp URL"),
        (("-o", "x.json", "--otlp", "http://127.0.0.1:9"), "give -o OUT or --otlp URL"),
        (("--otlp", "collector:4318"), "'collector:4318' is not a URL: write http://collector:4318"),
        (("--otlp", "http://127.0.0.1:9", "--text"), "spans have no format"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], why: str) -> None:
    result = run(RECORDED, *arguments)
    assert result.exit_code == 2
    assert why in result.stderr


def test_without_the_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "captures.export.otlp", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    result = run(RECORDED, "--otlp", "http://127.0.0.1:9")
    assert result.exit_code == 1
    assert "pip install 'kproxy[otlp]'" in result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("options", [("-q",), ("--json",)])
def test_a_proxy_sends_what_passes(
    collector: Collector, options: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with (
        running_in_thread() as broker,
        proxy("-b", f"127.0.0.1:{broker.port}", "--otlp", collector.url, *options) as running_proxy,
    ):
        ask(running_proxy.port, request_frame(METADATA, 12, ASKED))
        assert running_proxy.end() == 0
        running_proxy.notice(
            rf"1 spans sent to {collector.url}, 0 dropped because it was too slow, 0 refused"
        )
    (span,) = collector.spans
    assert span.name == "Metadata"


@pytest.mark.slow
def test_live_spans_are_those_of_an_export(collector: Collector) -> None:
    run(RECORDED, "--otlp", collector.url)
    exported, collector.spans = collector.spans, []
    reader = ExchangeReader(opened(RECORDED), annotate=False)
    spans = LiveSpans(reader, collector.url, annotated=False)
    for exchange in reader:
        spans.look(exchange)
    spans.conclude()
    assert {each.span_id for each in collector.spans} == {each.span_id for each in exported}
    assert not reader.capture.faults
