"""ExpireDelegationToken (key 40): owner or renewer ends a delegation token or moves its expiry (KIP-48)

v2 is flexible. The token is named by its secret (hmac): mask it.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, TIMESTAMP_MS, TOKEN_EXPIRY_PERIOD
from dissectors.schema import Bytes, Int16, Int32, Int64, Message

ExpireDelegationTokenRequest = Message(
    "ExpireDelegationTokenRequest", 40, "request", "0-2", "2+",
    "hmac" / Bytes.secret() * "secret of the token to expire",
    "expiry_time_period_ms" / Int64.of(TOKEN_EXPIRY_PERIOD) * "ms from now until the token expires; negative = at once",
)

ExpireDelegationTokenResponse = Message(
    "ExpireDelegationTokenResponse", 40, "response", "0-2", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the expiry was not changed (62 not found, 63 not owner or renewer, 66 expired)",
    "expiry_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "new expiry time, ms since 1970",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
)
