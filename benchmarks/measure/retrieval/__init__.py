"""Measurements of text search: recall on real questions, speed and memory on large corpora, servers under load."""
