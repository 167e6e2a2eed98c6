"""Recorded Kafka traffic: packets to streams, streams to exchanges, exchanges to answers."""
