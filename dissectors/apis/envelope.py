"""Envelope (key 58): a broker forwards a client's request to the controller (KIP-590)

Carries a whole request, header and body, with the client's identity; the response carries the
whole answer in the same way. Read the inner request to see what the client wanted.
"""

from dissectors.domains import ERROR_CODE
from dissectors.schema import Bytes, Int16, Message

EnvelopeRequest = Message(
    "EnvelopeRequest", 58, "request", "0", "0+",
    "request_data" / Bytes.holds("envelope_request") * "the client's request, header and body, without the size in front",
    "request_principal" / Bytes.holds("principal").null() * "identity of the client as the broker's authentication found it; null = none",
    "client_host_address" / Bytes.holds("ip_address") * "raw address of the client, 4 or 16 bytes",
)

EnvelopeResponse = Message(
    "EnvelopeResponse", 58, "response", "0", "0+",
    "response_data" / Bytes.holds("envelope_response").null().default(None) * "answer to the inner request, header and body; null if the envelope failed",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the envelope failed (31 not authorized, 41 not the controller, 97 bad principal)",
)
