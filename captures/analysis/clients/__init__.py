"""The identity of a capture's clients: their libraries, and the settings that their requests and timing reveal."""
