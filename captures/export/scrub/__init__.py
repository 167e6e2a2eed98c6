"""Captures that can be given away: users' data and secrets are blanked without changing sizes.

Blanked are keys, values and headers of records; SASL tokens; passwords, tokens and keys in configurations and
administrative messages; and every byte that could not be decoded. The protocol's own data stays: APIs, versions,
errors, offsets, times, sizes, and the names of topics, groups, clients and hosts.
"""

from captures.export.scrub.scrubber import Scrubber

__all__ = ["Scrubber"]
