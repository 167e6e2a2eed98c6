"""RenewDelegationToken (key 39): owner or renewer extends the life of a delegation token (KIP-48)

v2 is flexible. The token is named by its secret (hmac): mask it.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, TIMESTAMP_MS, TOKEN_LIFETIME
from dissectors.schema import Bytes, Int16, Int32, Int64, Message

RenewDelegationTokenRequest = Message(
    "RenewDelegationTokenRequest", 39, "request", "0-2", "2+",
    "hmac" / Bytes.secret() * "secret of the token to renew",
    "renew_period_ms" / Int64.of(TOKEN_LIFETIME) * "new life of the token from now in ms; negative = broker's default",
)

RenewDelegationTokenResponse = Message(
    "RenewDelegationTokenResponse", 39, "response", "0-2", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the token was not renewed (62 not found, 63 not owner or renewer, 66 expired)",
    "expiry_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "new expiry time, ms since 1970",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
)
