"""CreateDelegationToken (key 38): an authenticated client gets a delegation token (KIP-48)

v2 is flexible, v3 lets a client ask for a token for another user (KIP-373).
The response carries the secret (hmac) in clear: mask it.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, TIMESTAMP_MS, TOKEN_LIFETIME
from dissectors.schema import Array, Bytes, Int16, Int32, Int64, Message, String
from dissectors.structs import Principal

CreateDelegationTokenRequest = Message(
    "CreateDelegationTokenRequest", 38, "request", "0-3", "2+",
    "owner_principal_type" / String.null() @ "3+" * "type of the token's owner, such as User; null = owner is the requester",
    "owner_principal_name" / String.null() @ "3+" * "name of the token's owner; null = owner is the requester",
    "renewers" / Array(Principal) * "principals that may renew the token besides the owner",
    "max_lifetime_ms" / Int64.of(TOKEN_LIFETIME) * "longest life of the token in ms, renewals included; -1 = broker's maximum",
)

CreateDelegationTokenResponse = Message(
    "CreateDelegationTokenResponse", 38, "response", "0-3", "2+",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why no token was made (61 = tokens switched off, 64 = not on this connection)",
    "principal_type" / String * "type of the token's owner",
    "principal_name" / String * "name of the token's owner",
    "token_requester_principal_type" / String @ "3+" * "type of the principal that asked for the token",
    "token_requester_principal_name" / String @ "3+" * "name of the principal that asked for the token",
    "issue_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "time the token was made, ms since 1970",
    "expiry_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "time the token expires unless renewed, ms since 1970",
    "max_timestamp_ms" / Int64.of(TIMESTAMP_MS) * "latest time it can be renewed to, ms since 1970",
    "token_id" / String * "public id of the token, used as SCRAM user name",
    "hmac" / Bytes.secret() * "secret of the token; in base64 it is the SCRAM password",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
)
