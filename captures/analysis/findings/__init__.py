"""Findings: what is wrong in a capture, in plain words, with evidence and what to do about it."""
