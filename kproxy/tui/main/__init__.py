"""The main screen, and the commands that are available everywhere on it."""
