"""Captures that can be given away: what users wrote and what is secret is blanked at equal size.

Blanked are keys, values and headers of records; SASL tokens; passwords, tokens and keys in configurations and
administrative messages; and every byte that could not be decoded. What the protocol itself says stays: APIs,
versions, errors, offsets, times, sizes, and the names of topics, groups, clients and hosts.
"""

from captures.export.scrub.scrubber import Scrubber

__all__ = ["Scrubber"]
