"""Hostile files, and what they cost: the collection, the gate that runs all commands on it, and tshark beside them."""
