"""Units: times are integers of nanoseconds, sizes of bytes."""

US = 1_000
MS = 1_000_000
SECOND = 1_000_000_000

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30
