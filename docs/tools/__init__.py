"""Tools that generate pages of the documentation from the code, and its HTML."""
