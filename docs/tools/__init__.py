"""What makes the pages of the documentation that come from the code, and its HTML."""
