"""The rules, one file for each. What they share stands beside this folder."""
