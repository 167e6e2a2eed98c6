"""Classic groups (KIP-62, KIP-345, KIP-429, Connect and Streams among them)."""

from captures.analysis.groups.classic.timeline import tell

__all__ = ["tell"]
