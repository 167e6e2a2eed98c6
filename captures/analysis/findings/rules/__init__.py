"""The rules, by subject. Shared code is in the parent package."""
