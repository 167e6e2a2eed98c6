"""Results as lines of text: what the commands print and the UI shows, from the same values and in the same words.

Nothing in here prints, knows options, or knows the UI. Names from the wire are made printable before they are measured.
"""
