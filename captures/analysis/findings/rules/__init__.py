"""The rules, one file for each. Shared code is in the parent package."""
