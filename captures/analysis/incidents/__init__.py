"""What happened, reported once: outages, restarts, crashes, moves, each with what followed from it.

Rebalances and findings say what was seen of a thing; an incident is the thing itself. :func:`.incidents.find_incidents`
makes incidents of the connections of a capture and the timelines of its groups, and marks the rebalances that follow
from each (``Rebalance.because_of``).
"""
