"""SaslHandshake (key 17): choose the SASL mechanism of a connection.

Never flexible. After v0 raw tokens follow (4-byte length and bytes, no Kafka header); after v1
(KIP-152) they travel in SaslAuthenticate.
Seen again in a running connection when it re-authenticates (KIP-368).
"""

from dissectors.domains import ERROR_CODE
from dissectors.schema import Array, Int16, Message, String

SaslHandshakeRequest = Message(
    "SaslHandshakeRequest", 17, "request", "0-1", "none",
    "mechanism" / String * "SASL mechanism wanted, e.g. PLAIN, SCRAM-SHA-256, GSSAPI, OAUTHBEARER",
)

SaslHandshakeResponse = Message(
    "SaslHandshakeResponse", 17, "response", "0-1", "none",
    "error_code" / Int16.of(ERROR_CODE) * "0, 33 = mechanism not enabled, 34 = not allowed at this point",
    "mechanisms" / Array(String) * "SASL mechanisms enabled on this listener",
)
