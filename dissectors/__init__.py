"""The Kafka protocol: bytes to values and back. No I/O, no sockets, no clock."""
