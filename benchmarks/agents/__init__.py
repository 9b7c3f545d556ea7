"""Agents that can be evaluated."""
