"""The views of a session beside the list, one per module."""
