"""One Kafka connection, sans I/O: feed the bytes of both directions, pull events.

    conversation = Conversation()
    conversation.receive(Side.CLIENT, request_bytes)
    conversation.receive(Side.BROKER, response_bytes)
    for event in conversation.events(): ...

`connection` ties the sides together, `half`, `client` and `broker` frame them, `pairing` pairs, `resync` finds
the next frame after loss, `sasl` handles raw tokens, `foreign` identifies other protocols, `roles` finds the client.
"""

from dissectors.conversation.connection import Conversation
from dissectors.conversation.events import (
    ConversationEnd,
    Damage,
    Event,
    ForeignProtocol,
    Frame,
    FrameExchange,
    Outcome,
    RequestFrame,
    RequestSeen,
    ResponseFrame,
    SaslToken,
    Side,
    SkippedBytes,
)
from dissectors.conversation.half import State
from dissectors.conversation.limits import Limits
from dissectors.conversation.roles import (
    client_stream,
    looks_like_requests,
    looks_like_responses,
    starts_with_request,
)
