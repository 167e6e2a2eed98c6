"""Comparison of two captures, or of two time ranges of one: differences with certainty, the largest first."""
