from __future__ import annotations

import pytest

from dissectors.conversation import client_stream, looks_like_requests, looks_like_responses
from tests.dissectors.conversation.streams import VERSIONS, noise, produce, request, response

REQUESTS = b"".join(request(each, noise(50, each)) for each in range(1, 12))
RESPONSES = b"".join(response(each, noise(70, each)) for each in range(1, 12))
#: bodies of zeros: read as requests they are Produce with an empty client ID
HOLLOW = b"".join(response(each, bytes(70)) for each in range(1, 12))


@pytest.mark.parametrize("cut", [0, 30, 77])
@pytest.mark.parametrize("answers", [RESPONSES, HOLLOW])
def test_both_streams_are_told_apart(cut: int, answers: bytes) -> None:
    assert client_stream(REQUESTS[cut:], answers[cut:], VERSIONS) == 0
    assert client_stream(answers[cut:], REQUESTS[cut:], VERSIONS) == 1


@pytest.mark.parametrize("stream", [REQUESTS, RESPONSES, HOLLOW])
def test_one_direction_alone(stream: bytes) -> None:
    client = 0 if stream is REQUESTS else 1
    assert client_stream(stream, b"") == client
    assert client_stream(b"", stream) == 1 - client


def test_one_frame_each() -> None:
    assert client_stream(request(1), response(1), VERSIONS) == 0
    assert client_stream(produce(3, 1), response(3), VERSIONS) == 0


def test_what_is_neither_is_not_guessed() -> None:
    assert client_stream(noise(5000), noise(5000, 2), VERSIONS) is None
    assert client_stream(b"", b"") is None
    assert client_stream(REQUESTS, REQUESTS) is None


def test_scores() -> None:
    assert looks_like_requests(REQUESTS) == 1.0
    assert looks_like_responses(RESPONSES) == 1.0
    assert looks_like_requests(RESPONSES) < 0.3
    assert looks_like_responses(REQUESTS) < 0.3
    assert looks_like_requests(noise(100_000)) == 0.0
    assert looks_like_responses(noise(100_000)) == 0.0
