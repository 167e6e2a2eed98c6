"""DescribeDelegationToken (key 41): a client lists the delegation tokens it may see (KIP-48)

v2 is flexible, v3 adds the requester of each token (KIP-373).
The response carries the secrets (hmac) in clear: mask them.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, TIMESTAMP_MS
from dissectors.schema import Array, Bytes, Int16, Int32, Int64, Message, String
from dissectors.structs import Principal

DescribeDelegationTokenRequest = Message(
    "DescribeDelegationTokenRequest", 41, "request", "0-3", "2+",
    "owners" / Array(Principal).null() * "owners whose tokens are wanted; null = all",
)

DescribeDelegationTokenResponse = Message(
    "DescribeDelegationTokenResponse", 41, "response", "0-3", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the tokens cannot be listed (61 = tokens switched off, 64 = not on this connection)",
    "tokens" / Array(
        "principal_type" / String * "type of the token's owner",
        "principal_name" / String * "name of the token's owner",
        "token_requester_principal_type" / String @ "3+" * "type of the principal that asked for the token",
        "token_requester_principal_name" / String @ "3+" * "name of the principal that asked for the token",
        "issue_timestamp" / Int64.of(TIMESTAMP_MS) * "time the token was made, ms since 1970",
        "expiry_timestamp" / Int64.of(TIMESTAMP_MS) * "time the token expires unless renewed, ms since 1970",
        "max_timestamp" / Int64.of(TIMESTAMP_MS) * "latest time it can be renewed to, ms since 1970",
        "token_id" / String * "public id of the token, used as SCRAM user name",
        "hmac" / Bytes.secret() * "secret of the token; in base64 it is the SCRAM password",
        "renewers" / Array(Principal) * "principals that may renew the token besides the owner",
    ) * "tokens found",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
)
