"""Groups of the newer kinds: consumer (KIP-848), share (KIP-932) and streams groups (KIP-1071)."""

from captures.analysis.groups.modern.timeline import timeline_of

__all__ = ["timeline_of"]
