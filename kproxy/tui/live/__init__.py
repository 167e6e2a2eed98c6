"""The UI's part for a running proxy."""
