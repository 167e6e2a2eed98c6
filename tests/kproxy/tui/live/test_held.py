from __future__ import annotations

from pathlib import Path

import pytest

from kproxy.tui.live.held import held_detail, held_exchange
from kproxy.tui.live.link import LinkError
from tests.kproxy.proxy.planes import Client
from tests.kproxy.proxy.rules.frames import FETCH, request, response
from tests.kproxy.proxy.talk import heartbeat
from tests.kproxy.tui.live.proxied import linked
from tests.kproxy.tui.live.test_draft import answer, held
from tests.waiting import until


def test_a_response_comes_with_its_request() -> None:
    frame = response("Fetch", 4, {"responses": []}, to=request("Fetch", 4, FETCH))
    made = held_exchange(held(frame), answer(frame))
    assert made.request is not None
    assert made.request.value is not None
    assert made.request.value["max_wait_ms"] == 500
    assert made.response is not None
    assert made.response.value is not None
    assert (made.api, made.version, made.request_size, made.response_size) == (
        "Fetch",
        4,
        len(frame.request.data if frame.request else b""),
        len(frame.data),
    )


def test_secrets_are_masked_unless_asked_for() -> None:
    frame = request("SaslAuthenticate", 0, {"auth_bytes": b"\0user\0hunter2"})
    made = held_exchange(held(frame), answer(frame))
    assert made.request is not None
    assert made.request.value == {"auth_bytes": None}
    assert made.annotations.masked
    shown = held_exchange(held(frame), answer(frame), show_secrets=True)
    assert shown.request is not None
    assert shown.request.value == {"auth_bytes": b"\0user\0hunter2"}


def test_what_cannot_be_read_says_so() -> None:
    frame = request("Fetch", 4, FETCH)
    frame.data = frame.data[:-3]
    assert [side for side, _ in held_exchange(held(frame), answer(frame)).problems] == ["request"]


async def test_it_is_shown_as_fields_and_bytes(tmp_path: Path) -> None:
    async with linked(tmp_path) as (proxy, link):
        await link.set_hold("api == Heartbeat")
        async with await Client.connect(proxy.address) as client:
            client.send(heartbeat(7))
            await until(lambda: link.state.held)
            (one,) = link.state.held
            detail = await held_detail(link, one)
            assert detail.request.root is not None
            assert "request.generation_id" in {node.path for node in detail.request.root.walk()}
            assert detail.response.root is None
            await link.release(one.number)
            await client.frame()
            with pytest.raises(LinkError, match="no frame 1 is held"):
                await held_detail(link, one)
