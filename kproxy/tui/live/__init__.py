"""What the UI has to do with a running proxy."""
