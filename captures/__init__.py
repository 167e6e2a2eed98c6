"""Recorded Kafka traffic: from packets to streams, exchanges and analyses."""
