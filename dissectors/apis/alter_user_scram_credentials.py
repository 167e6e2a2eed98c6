"""AlterUserScramCredentials (key 51): an admin client sets or deletes SCRAM passwords of users

KIP-554. The client hashes the password itself, so the clear text is never sent; salt and
salted_password are secrets nevertheless: mask them.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, SCRAM_MECHANISM
from dissectors.schema import Array, Bytes, Int8, Int16, Int32, Message, String

AlterUserScramCredentialsRequest = Message(
    "AlterUserScramCredentialsRequest", 51, "request", "0", "0+",
    "deletions" / Array(
        "name" / String * "user name",
        "mechanism" / Int8.of(SCRAM_MECHANISM) * "1 SCRAM-SHA-256, 2 SCRAM-SHA-512",
    ) * "credentials to delete",
    "upsertions" / Array(
        "name" / String * "user name",
        "mechanism" / Int8.of(SCRAM_MECHANISM) * "1 SCRAM-SHA-256, 2 SCRAM-SHA-512",
        "iterations" / Int32 * "number of hash iterations; below 4096 is refused",
        "salt" / Bytes.secret() * "random salt chosen by the client; secret",
        "salted_password" / Bytes.secret() * "password hashed with the salt; secret",
    ) * "credentials to create or replace",
)

AlterUserScramCredentialsResponse = Message(
    "AlterUserScramCredentialsResponse", 51, "response", "0", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "results" / Array(
        "user" / String * "user name",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this user was not changed (91 = nothing to delete, 93 = unacceptable)",
        "error_message" / String.null() * "explanation of error_code; null = none",
    ) * "result for each user",
)
