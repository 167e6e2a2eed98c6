"""Incidents, reported once: outages, restarts, crashes, moves, each with its consequences.

Rebalances and findings are observations; an incident is the event behind them. :func:`.incidents.find_incidents`
makes incidents of the connections of a capture and the timelines of its groups, and marks the rebalances that follow
from each (``Rebalance.because_of``).
"""
