"""UpdateFeatures (key 57): an admin client raises or lowers the feature levels of the cluster (KIP-584)

v1 adds upgrade types and a dry run (KIP-778); v2 answers with one error for the whole request.
Features are metadata.version, kraft.version, transaction.version, group.version and others.
"""

from dissectors.domains import DURATION_MS, ERROR_CODE, UPGRADE_TYPE
from dissectors.schema import Array, Bool, Int8, Int16, Int32, Message, String

UpdateFeaturesRequest = Message(
    "UpdateFeaturesRequest", 57, "request", "0-2", "0+",
    "timeout_ms" / Int32.of(DURATION_MS).default(60000) * "longest time in ms to wait for the update",
    "feature_updates" / Array(
        "feature" / String * "feature name, such as metadata.version",
        "max_version_level" / Int16.holds("feature_level") * "level the feature shall have; 0 = switch it off",
        "allow_downgrade" / Bool @ "0" * "true = a lower level than now is allowed",
        "upgrade_type" / Int8.of(UPGRADE_TYPE).default(1) @ "1+" * "1 upgrade only, 2 downgrade if safe, 3 downgrade even if metadata is lost",
    ) * "features to change",
    "validate_only" / Bool @ "1+" * "true = only check, change nothing",
)

UpdateFeaturesResponse = Message(
    "UpdateFeaturesResponse", 57, "response", "0-2", "0+",
    "throttle_time_ms" / Int32.of(DURATION_MS) * "ms the broker held the answer back because of a quota",
    "error_code" / Int16.of(ERROR_CODE) * "0 or why the whole request failed",
    "error_message" / String.null() * "explanation of error_code; null = none",
    "results" / Array(
        "feature" / String * "feature name",
        "error_code" / Int16.of(ERROR_CODE) * "0 or why this feature was not changed (96 = update failed)",
        "error_message" / String.null() * "explanation of error_code; null = none",
    ) @ "0-1" * "result for each feature",
)
