"""Latency, size and memory of the search backends."""
