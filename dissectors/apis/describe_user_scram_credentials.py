"""DescribeUserScramCredentials (key 50): an admin client lists which users have SCRAM credentials

KIP-554. Shows only mechanism and iterations, never salt or password.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, SCRAM_MECHANISM
from dissectors.schema import Array, Int8, Int16, Int32, Message, String

DescribeUserScramCredentialsRequest = Message(
    "DescribeUserScramCredentialsRequest", 50, "request", "0", "0+",
    "users" / Array(
        "name" / String * "user name",
    ).null() * "users to describe; null or empty = all",
)

DescribeUserScramCredentialsResponse = Message(
    "DescribeUserScramCredentialsResponse", 50, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "results" / Array(
        "user" / String * "user name",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this user cannot be described (91 = no credentials, 92 = named twice)",
        "error_message" / String.null() * "explanation of error_code; null = none",
        "credential_infos" / Array(
            "mechanism" / Int8.of(SCRAM_MECHANISM) * "1 SCRAM-SHA-256, 2 SCRAM-SHA-512",
            "iterations" / Int32 * "number of hash iterations",
        ) * "SCRAM credentials of the user",
    ) * "result for each user",
)
