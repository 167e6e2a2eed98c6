"""In the place of brokers: what a client asks first is answered, the rest is taken and left unanswered."""

from __future__ import annotations

from captures.interventions import Intervention, as_comment
from kproxy.proxy.rules.stubs import stub_answer
from kproxy.proxy.verdicts import GO_ON, Frame, Inspector, Peers, Side, Verdict


class Stubbed:
    """Rules and holds first, then answers: an inspector of every request.

    :param inspector: has the first word
    :param address: where clients find the proxy
    """

    active = True

    def __init__(self, inspector: Inspector, address: tuple[str, int]) -> None:
        self._inspector = inspector
        self._address = address

    def wants(self, side: Side, api_key: int, version: int, peers: Peers) -> bool:
        """Whether a frame is to be collected."""
        return side == "request" or self._inspector.wants(side, api_key, version, peers)

    def decide(self, frame: Frame) -> Verdict:
        """Decide about a frame."""
        if self._inspector.wants(frame.side, frame.api_key, frame.version, frame.peers):
            verdict = self._inspector.decide(frame)
            if verdict is not GO_ON:
                return verdict
        if frame.side == "response":
            return GO_ON
        answer = stub_answer(frame.data, self._address)
        return Verdict(data=b"", answer=answer, comments=[as_comment(Intervention(not_forwarded=True))])
