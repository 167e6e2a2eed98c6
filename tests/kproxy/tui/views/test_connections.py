"""The network values in the view of connections."""

from __future__ import annotations

from captures.exchanges.samples import Sample
from captures.interventions import TcpSample
from kproxy.tui.views.connections import _sampled


def test_what_the_kernel_of_the_proxy_told_of_both_sides() -> None:
    samples = [
        Sample(1, 0, TcpSample(side="client", rtt_us=400)),
        Sample(2, 0, TcpSample(side="client", rtt_us=9000, retransmits=1)),
        Sample(3, 0, TcpSample(side="client", rtt_us=600, retransmits=3)),
        Sample(4, 0, TcpSample(side="broker", rtt_us=100)),
    ]
    assert _sampled(samples) == [
        "client round trip 0.6 ms, at most 9.0 ms, 3 segments sent again",
        "broker round trip 0.1 ms, at most 0.1 ms",
    ]
    assert _sampled([]) == []
