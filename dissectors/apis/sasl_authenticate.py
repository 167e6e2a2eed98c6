"""SaslAuthenticate (key 36): client and broker exchange the tokens of a SASL mechanism

Follows SaslHandshake v1 (KIP-152); may take several rounds (SCRAM two, PLAIN one).
v1 adds the session lifetime for re-authentication (KIP-368), v2 is flexible.
With re-authentication it is repeated on a running connection.
auth_bytes hold secrets (the password with PLAIN): mask them.
"""

from dissectors.domains import ERROR_CODE, SESSION_LIFETIME
from dissectors.schema import Bytes, Int16, Int64, Message, String

SaslAuthenticateRequest = Message(
    "SaslAuthenticateRequest", 36, "request", "0-2", "2+",
    "auth_bytes" / Bytes.holds("sasl_token").secret() * "SASL token of the client, format set by the mechanism; secret",
)

SaslAuthenticateResponse = Message(
    "SaslAuthenticateResponse", 36, "response", "0-2", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why authentication failed (58 = refused, 34 = unexpected at this point)",
    "error_message" / String.null() * "reason of the failure; null = none",
    "auth_bytes" / Bytes.holds("sasl_token").secret() * "SASL token of the broker: challenge or final message; can be empty",
    "session_lifetime_ms" / Int64.of(SESSION_LIFETIME) @ "1+" * "ms until the client must authenticate again (KIP-368); 0 = no limit",
)
