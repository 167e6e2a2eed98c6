"""Results as lines of text: printed by the commands and shown by the UI, from the same values in the same words.

Nothing here prints, or depends on options or the UI. Names from the wire are made printable before they are measured.
"""
