"""Findings: problems in a capture, in plain words, with evidence and advice."""
