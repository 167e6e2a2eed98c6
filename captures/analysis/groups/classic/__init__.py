"""Classic groups (KIP-62, KIP-345, KIP-429), including Kafka Connect and Kafka Streams."""

from captures.analysis.groups.classic.timeline import timeline_of

__all__ = ["timeline_of"]
