"""Tests of Kafka clients: the pytest plugin and the proxy that it puts in front of a broker (docs/pytest.md)."""
