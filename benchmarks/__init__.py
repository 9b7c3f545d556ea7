"""Agents, evaluation, statistics and speed measurements."""
