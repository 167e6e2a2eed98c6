"""The main screen: what is on it, and the commands that hold everywhere on it."""
